//! What a sandbox provider is. A provider makes and removes sandboxes and hands out byte
//! streams to the agent inside; everything an agent *does* in a sandbox goes over that
//! stream, so tools behave the same whatever the provider.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod sandbox;
mod startup_times;
mod workspace_provider;

/// Demands of a request, which a provider keeps with the sandbox.
pub use emergent_types::NamedDemands;
pub use error::{Operation, ProviderError};
pub use sandbox::{DiskUse, Health, ObservedSandbox, ObservedState, Sandbox, SandboxSpec, SnapshotId};
pub use startup_times::StartupTimes;
pub use workspace_provider::WorkspaceProvider;
