//! Root file systems for workspaces: where they come from and how they get onto a disk.
//!
//! - [`workspace`]: what the workspace image is to have, whoever makes it.
//! - [`debian`]: makes it from Debian packages alone.
//! - [`minimal`]: makes one of the host's own system, where there is no other.
//! - [`unpack`]: turns an exported root, which is not trusted, into a folder of the host.
//!
//! Images are tar streams here. Who runs them, and what keeps them, is not known in this crate.

pub mod debian;
pub mod minimal;
pub mod unpack;
pub mod workspace;

mod apt_sources;
mod chunks;
