//! What a sandbox provider is. A provider makes and removes sandboxes and hands out byte
//! streams to the agent inside; everything an agent *does* in a sandbox goes over that
//! stream, so tools behave the same whatever the provider.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod sandbox;
mod workspace_provider;

pub use error::{Operation, ProviderError};
pub use sandbox::{Health, ObservedSandbox, ObservedState, Sandbox, SandboxSpec, SnapshotId};
pub use workspace_provider::WorkspaceProvider;
