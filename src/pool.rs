//! Which cap a call falls under.
