//! Virtual-time simulator over the same gate code that runs in the filter.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
