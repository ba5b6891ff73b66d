//! Answers of the gate itself: 429, 413, limit headers.
