//! What the provider's answers teach: limit headers, pauses, adapted limits.
