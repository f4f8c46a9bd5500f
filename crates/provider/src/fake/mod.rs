//! A working provider without isolation, for tests of everything above providers.
//!
//! Sandboxes are kept in memory: a temporary folder as workspace and the real agent, run
//! inside this process. So tools really work, and what goes wrong is up to the test: see
//! [`Fault`] and [`FakeProvider::lose_sandbox`].

mod faults;
mod gate;
mod provider;
mod sandbox;
mod snapshots;

pub use faults::Fault;
pub use provider::FakeProvider;
