//! What a sandbox provider is. A provider makes and removes sandboxes and hands out byte
//! streams to the agent inside; everything an agent *does* in a sandbox goes over that
//! stream, so tools behave the same whatever the provider.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod host_resources;
mod sandbox;
mod snapshot;
mod snapshot_turns;
mod startup_times;
mod usage;
mod volume;
mod workspace_provider;

/// Demands of a request, which a provider keeps with the sandbox.
pub use emergent_types::NamedDemands;
pub use error::{Operation, ProviderError};
pub use host_resources::free_on_this_host;
pub use sandbox::{DiskUse, Health, ImageDefaults, ObservedSandbox, ObservedState, Sandbox, SandboxSpec};
pub use snapshot::{ObservedSnapshot, Snapshot};
pub use snapshot_turns::{SnapshotInUse, SnapshotToChange, SnapshotTurns};
pub use startup_times::StartupTimes;
pub use usage::Usage;
pub use volume::{BadVolume, VolumeMount, VolumeName};
pub use workspace_provider::WorkspaceProvider;
