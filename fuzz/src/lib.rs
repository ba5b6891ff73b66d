//! What the fuzz targets share: bytes as choices, and the checks that several of them make.

pub mod bytes;
pub mod response;
pub mod world;
