//! The price of a call: which API it speaks, what it will take, what it took.
//!
//! `dialect` tells the API from the path and the body, `request` estimates the input and the reserve, `usage`
//! reads what the response states, `price` turns LLM tokens into a [`crate::units::Cost`].

pub mod dialect;
pub mod json;
pub mod media;
pub mod price;
pub mod refusal;
pub mod request;
pub mod reserve;
pub mod text;
pub mod usage;
