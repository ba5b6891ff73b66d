//! Who calls: tenant and class.
