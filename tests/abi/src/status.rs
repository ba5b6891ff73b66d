//! Result codes of host calls, numbered as in the proxy-wasm ABI.

/// What a host call returns to the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    BadArgument = 2,
    SerializationFailure = 3,
    ParseFailure = 4,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

impl Status {
    /// The number for a name used in event scripts, e.g. `cas_mismatch`.
    pub fn code_of(name: &str) -> Option<u32> {
        let status = match name {
            "ok" => Self::Ok,
            "not_found" => Self::NotFound,
            "bad_argument" => Self::BadArgument,
            "serialization_failure" => Self::SerializationFailure,
            "parse_failure" => Self::ParseFailure,
            "invalid_memory_access" => Self::InvalidMemoryAccess,
            "empty" => Self::Empty,
            "cas_mismatch" => Self::CasMismatch,
            "internal_failure" | "other" => Self::InternalFailure,
            "unimplemented" => Self::Unimplemented,
            _ => return None,
        };
        Some(status as u32)
    }
}
