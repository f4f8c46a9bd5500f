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
//! **What a sandbox is made of**
//!
//! | | |
//! |---|---|
//! | root | `disk.img`, ext4, its ids shifted to the sandbox's own range of 65,536 host ids; kept by stop and resume |
//! | `/usr` and what belongs to it | the host's, read-only, without what is mounted below; files only the host's root may read stay closed |
//! | `/etc` | its own, with what the host lets everybody read and nobody hides secrets in |
//! | `/tmp`, `/dev/shm`, `/run` | memory: a half, a quarter and an eighth of the limit |
//! | namespaces | user, mount, pid, ipc, uts, network (empty, or one link and the rules of `host-net`), cgroup; no further user namespaces inside |
//! | processor | quota over periods of 100 ms |
//! | memory | with swap; at the limit the process dies, not the sandbox |
//! | processes | one per 256 KiB of memory, 512 to 4,096 |
//! | files | one per 16 KiB of disk, 4,096 to 1,048,576 |
//!
//! **What the host never does**: resolve a path inside a disk that a guest has written to
//! with the host's file system around it, hand a host pipe or file to a guest, or follow a
//! process id it has not verified.

mod adjust;
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
mod means;
mod measure;
mod memory_folders;
mod network;
mod options;
mod prepared;
mod process;
mod provider;
mod resume;
mod skeleton;
mod snapshot;
mod state;
mod stop;
mod uid_range;
mod usage;

pub use cgroup::Controller;
/// The network of sandboxes, for those who look at a host.
pub use emergent_host_net as host_net;
pub use emergent_host_net::Cidr;
pub use launch::helper;
pub use launch::{LaunchStep, StepTiming};
pub use options::{AgentSource, HelperCommand, Options, Withheld};
pub use provider::LocalProvider;
