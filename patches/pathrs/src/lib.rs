//! Path resolution that cannot be led out of a root, and a `/proc` that cannot be faked.
//!
//! libcontainer resolves paths inside a container's root through the crate `pathrs`, whose
//! licence (MPL-2.0 or LGPL-3.0) this project does not admit. This crate offers the same
//! interface as far as libcontainer uses it, on `openat2(2)`: the kernel itself resolves
//! every path in one step, so there is nothing to race.

pub mod error;
pub mod flags;
pub mod procfs;
mod root;

pub use root::{Handle, Root};
