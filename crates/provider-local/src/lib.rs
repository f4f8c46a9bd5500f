//! The embedded sandbox provider: Linux namespaces through `libcontainer`, cgroup limits and
//! a loop-mounted disk. It needs root and `mkfs.ext4`, and nothing else: no daemon, no image,
//! no network.
//!
//! ```text
//!  server                          helper (one short-lived process per launch)
//!  ──────                          ──────────────────────────────────────────
//!  state folder, disk.img ──JSON──► joins the sandbox's cgroup
//!                                   listens on agent.sock in the state folder
//!                                   mounts disk.img privately, ids shifted
//!                                   pivots into a tiny root of its own
//!                                   libcontainer: namespaces, limits, agent as PID 1
//!  sandbox.json: running  ◄──JSON── answers with the agent's pid, and ends
//!        │
//!        └── connect ── agent.sock ────────► listening socket inherited by the agent
//! ```
//!
//! **What keeps a sandbox alive** is its PID 1 alone. The disk's mount and its loop device
//! exist only in the sandbox's mount namespace and vanish with its last process; what stays
//! on the host is a state folder and cgroup directories, both named after the workspace's id.
//! A `kill -9` of the server or the helper therefore leaves nothing that
//! [`list`](emergent_provider::WorkspaceProvider::list) cannot see and
//! [`destroy`](emergent_provider::WorkspaceProvider::destroy) cannot remove.
//!
//! **What the host never does**: resolve a path inside a disk that a guest has written to
//! with the host's file system around it, hand a host pipe or file to a guest, or follow a
//! process id it has not verified.

mod agent_binary;
mod capabilities;
mod cgroup;
mod create;
mod destroy;
mod disk;
mod enforceable;
mod health;
mod launch;
mod layout;
mod list;
mod options;
mod prepared;
mod process;
mod provider;
mod resume;
mod skeleton;
mod startup_times;
mod state;
mod stop;
mod uid_range;

pub use launch::helper;
pub use launch::{LaunchStep, StepTiming};
pub use options::{AgentSource, HelperCommand, Options};
pub use provider::LocalProvider;
