//! Allowed ranges and defaults of the configuration, in one place: the parser, the published schema and the
//! reference are tested against these.

use core::ops::RangeInclusive;

/// Weights of classes and tenants.
pub const WEIGHT: RangeInclusive<u64> = 1..=1_000;
/// Weight of whoever has none.
pub const DEFAULT_WEIGHT: u32 = 1;

/// Per-minute limits. The upper end finds slips.
pub const PER_MINUTE: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Largest limit that a ledger counts exactly, 32 bits of it in half a second: 66 million a second. Who writes more wants
/// no limit, and is held to this.
pub const LARGEST_HELD: u64 = 4_000_000_000;
/// Calls in flight at once.
pub const CONCURRENT: RangeInclusive<u64> = 1..=1_000_000;

/// `burst_seconds`: the trailing window has 60 s, so more could never be used.
pub const BURST_SECONDS: RangeInclusive<u64> = 1..=60;
/// See [`BURST_SECONDS`].
pub const DEFAULT_BURST_SECONDS: u64 = 10;

/// `default_output_tokens`.
pub const OUTPUT_LLM_TOKENS: RangeInclusive<u64> = 0..=10_000_000;
/// See [`OUTPUT_LLM_TOKENS`].
pub const DEFAULT_OUTPUT_LLM_TOKENS: u64 = 1_024;

/// Largest of the `token_weights`.
pub const MAX_LLM_TOKEN_WEIGHT: u32 = 1_000;

/// `max_wait_ms`; more than an hour outlives every client's patience.
pub const WAIT_MS: RangeInclusive<u64> = 0..=3_600_000;
/// Default of `max_wait_ms` when the host holds the request headers; otherwise calls are not parked.
pub const DEFAULT_WAIT_MS: u64 = 1_000;

/// `max_parked`, per worker and pool.
pub const PARKED: RangeInclusive<u64> = 0..=100_000;
/// See [`PARKED`].
pub const DEFAULT_PARKED: u32 = 1_000;

/// `body_limit_bytes`; the upper end bounds the memory of one call.
pub const BODY_LIMIT_BYTES: RangeInclusive<u64> = 1..=16_777_216;
/// See [`BODY_LIMIT_BYTES`]; a quarter of Envoy's default buffer limit.
pub const DEFAULT_BODY_LIMIT_BYTES: usize = 262_144;

/// `reservation_ttl_seconds`; longer than a day is a reservation forgotten.
pub const RESERVATION_TTL_SECONDS: RangeInclusive<u64> = 1..=86_400;
/// See [`RESERVATION_TTL_SECONDS`].
pub const DEFAULT_RESERVATION_TTL_SECONDS: u64 = 600;

/// `max_retry_after_seconds`.
pub const MAX_RETRY_AFTER_SECONDS: RangeInclusive<u64> = 1..=3_600;
/// See [`MAX_RETRY_AFTER_SECONDS`]; from 60 s on client libraries disagree on what to do.
pub const DEFAULT_MAX_RETRY_AFTER_SECONDS: u64 = 59;

/// `cas_attempts`; each is a read, a decision and a write under Envoy's lock.
pub const CAS_ATTEMPTS: RangeInclusive<u64> = 1..=100;
/// See [`CAS_ATTEMPTS`].
pub const DEFAULT_CAS_ATTEMPTS: u32 = 8;

/// `fleet.lease_ms`; 0: no leases.
pub const LEASE_MS: RangeInclusive<u64> = 0..=5_000;
/// See [`LEASE_MS`].
pub const DEFAULT_LEASE_MS: u64 = 250;
/// `fleet.timeout_ms`.
pub const FLEET_TIMEOUT_MS: RangeInclusive<u64> = 1..=5_000;
/// See [`FLEET_TIMEOUT_MS`].
pub const DEFAULT_FLEET_TIMEOUT_MS: u64 = 50;

/// Most classes; [`super::ClassId`] and the metrics are bounded by it.
pub const MAX_CLASSES: usize = 64;
/// Most named tenants; each has its own metrics.
pub const MAX_TENANTS: usize = 4_096;
/// Most pools.
pub const MAX_POOLS: usize = 256;
/// Most identity sources of one kind.
pub const MAX_SOURCES: usize = 16;
/// Most globs in one list.
pub const MAX_GLOBS: usize = 256;
/// Longest name, glob, header name or attribute segment, in bytes.
pub const MAX_TEXT_BYTES: usize = 256;
