//! What end-to-end suites stand on.
//!
//! - [`TestServer`] is the real program on a free port of loopback, with a data folder of its
//!   own. It can be killed and started again on the same folder.
//! - [`Census`] counts what sandboxes leave behind outside the server's process: processes,
//!   mounts, control groups, network namespaces, links, loop devices, firewall rules and
//!   folders.
//! - [`Probe`] sends requests as they are, well-formed or not.
//! - [`PostgresServer`] is a real database server in a temporary folder.
//! - [`TestDocker`] is a real Docker with a real gVisor, in namespaces of its own.
//! - [`GitServer`] is a real git server behind a token.
//! - [`TlsFront`] is TLS in front of it.
//! - [`Sandbox`] finds the processes of a workspace from outside, to do them harm.
//! - [`OwnMounts`] changes what a server finds on its host, and nobody else: a program that is missing, a
//!   disk that is soon full.

mod census;
mod docker;
mod git_server;
mod own_mounts;
mod postgres;
mod probe;
mod program;
mod sandbox;
mod server;
mod tls;
mod waiting;

pub use census::{Census, Scope};
pub use docker::{DaemonOptions, DockerDaemon, TEST_IMAGE, TestDocker};
pub use git_server::{GitBehaviour, GitRequestSeen, GitServer, files_below};
pub use own_mounts::{OwnMounts, SmallDisk, with_own_mounts};
pub use postgres::{Durability, PostgresServer};
pub use probe::{Answer, Probe};
pub use program::{CommandOutput, program_path, run_program, run_program_with_input, run_unprivileged};
pub use sandbox::Sandbox;
pub use server::{TestServer, TestServerOptions};
pub use tls::{ServerName, TlsFront};
pub use waiting::eventually;
