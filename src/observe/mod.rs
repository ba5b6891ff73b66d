//! What operators see: metrics, the access-log field, the status page.

pub mod status;
