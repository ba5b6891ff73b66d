//! What a response says it used.
