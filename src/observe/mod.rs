//! What operators see: metrics, the access-log field, the status page.

pub mod anomaly;
pub mod log_field;
pub mod log_limit;
pub mod metrics;
pub mod mood;
pub mod parked;
pub mod status;

pub use anomaly::Anomaly;
pub use log_field::LogField;
pub use metrics::{Decided, Labels, LlmTokenKind, Recorder, TenantLabel};
