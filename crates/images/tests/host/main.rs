//! What needs root, this host's own system, or the network to its package sources.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod chroot;
mod debian;
mod minimal;
mod unpack;
