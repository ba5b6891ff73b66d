//! One ledger for a fleet of Envoys: the rule of [`crate::gate`], said as a script over Redis data types.
//!
//! The script (`rule.lua`) runs where the ledger lives, so a decision is one round trip and needs no retry; its time is
//! the store's. [`wire`] says what goes there and comes back. What is sent to it is nothing but numbers: no names of
//! tenants, no header, no body.

pub mod webdis;
pub mod wire;

pub use wire::{Answer, Operation};

/// The script without its comments, deflated by the build.
static SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rule.deflate"));

/// Name under which the store keeps the script: the SHA-1 of [`script`], in hexadecimal.
pub static SCRIPT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/rule.sha1"));

/// Largest limit per minute of a pool that a fleet shares. The script counts in doubles, and a limit times the
/// microseconds of a minute must stay a whole number in them.
pub const LARGEST_LIMIT: u64 = 100_000_000;

/// The script as the store gets it.
pub fn script() -> String {
    let text = miniz_oxide::inflate::decompress_to_vec_with_limit(SCRIPT, 1 << 17).unwrap_or_default();
    String::from_utf8(text).unwrap_or_default()
}
