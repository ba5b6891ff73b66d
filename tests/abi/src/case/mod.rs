//! Field cases: a bench with the usual configuration, a player for event scripts, and probes that leave no trace.

mod bench;
mod expect;
mod files;
mod player;
mod probe;
mod script;

pub use bench::{Answer, Bench, Verdict, bench_config, chat_body, field_post};
pub use expect::INSTRUCTIONS_PER_MILLI;
pub use files::{HttpFile, case_bytes, case_http, case_path, expand_repeats};
pub use player::{Player, Report, play};
pub use probe::Probe;
pub use script::{Event, Script};
