//! Sandboxes in Docker's containers, under gVisor's `runsc` or, as a weaker step of its own, under
//! Docker's own runtime.
//!
//! ```text
//!  server ── Docker's interface ──► dockerd ──► container (runsc)
//!     │                                           ├ PID 1: the agent, from a read-only volume
//!     │   first connection: its standard          ├ /workspace, /home: the workspace's disk
//!     └── input and output; later ones: one       ├ everything else: the image
//!         `exec` of a relay each                  └ no network, or the installation's bridge
//! ```
//!
//! No `exec` per tool call: a call is a message on the open stream.
//!
//! Where there is no Docker, [`DirectProvider`] drives `runsc` itself ([`direct`]).

mod adjust;
mod agent_volume;
mod capabilities;
mod connect;
mod container;
mod containers;
mod create;
mod describe;
mod direct;
mod disk;
mod engine;
mod health;
mod host;
mod image;
mod launch;
mod list;
mod means;
mod named_volumes;
mod names;
mod network;
mod options;
mod provider;
mod remains;
mod remove;
mod report;
mod resume;
mod runsc;
mod snapshot;
mod stream;
mod streams;
mod turns;
mod usage;
mod volume_disks;

pub use direct::{
    DirectImages, DirectOptions, DirectProvider, GvisorWay, PutError, RunscReport, docker_was_used,
    find_runsc, network_id, way_in_use,
};
pub use engine::EngineAddress;
pub use image::{EngineImages, ImportError, ImportedImage};
pub use options::{DEFAULT_IMAGE, Options, Runtime};
pub use provider::GvisorProvider;
pub use report::EngineReport;
