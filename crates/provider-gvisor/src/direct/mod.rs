//! `runsc` without Docker: the same sandboxes, made of a bundle and one command.
//!
//! ```text
//!  server ── runsc run --detach ──► sandbox process and gofer, in one control group
//!     │                               ├ PID 1: the agent, from a read-only mount
//!     │   first connection: its       ├ /: the image with the workspace's disk over it
//!     └── standard input and output;  └ network: none, or a namespace with a link of ours
//!         later ones: `runsc exec` of a relay
//!
//!  data folder/direct/
//!    images/                 roots of images, and which name means which (images.rs)
//!    agents/<hash>/          the agent's program
//!    templates/              formatted disks, one per size
//!    runsc/                  what runsc knows of its sandboxes
//!    sandboxes/<id>/         everything of one workspace (layout.rs)
//!    snapshots/<snapshot>/   copies of disks
//!    volumes/<name>/         volumes with names (named_volumes.rs)
//! ```
//!
//! A workspace's folder is made first and removed last, so what has no folder does not exist. Sandboxes
//! outlive the server; another one finds them by that folder, and by what `runsc` knows.
//!
//! The choices are explained in `docs/adr/0015`.

mod adjust;
mod agent_folder;
mod bundle;
mod capabilities;
mod connect;
mod control_group;
mod create;
mod describe;
mod disk;
mod etc;
mod health;
mod host;
mod images;
mod in_use;
mod launch;
mod layout;
mod list;
mod named_volumes;
mod network;
mod options;
mod pipes;
mod processes;
mod provider;
mod record;
mod remove;
mod report;
mod resume;
mod runsc;
mod snapshot;
mod tidy;
mod trial;
mod usage;

pub use images::{DirectImages, PutError};
pub use in_use::{GvisorWay, docker_was_used, way_in_use};
pub use network::network_id;
pub use options::DirectOptions;
pub use provider::DirectProvider;
pub use report::RunscReport;
pub use runsc::find_runsc;
