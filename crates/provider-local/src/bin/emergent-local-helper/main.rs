//! The launch helper as a program of its own, for this crate's tests. It can also die at a
//! chosen step, be a server that holds sandboxes until it is killed, and stand in for the
//! agent inside a sandbox:
//!
//! ```text
//! emergent-local-helper [--die-at STEP] --installation ID --workspace ID    the helper
//! emergent-local-helper server DATA_DIR INSTALLATION WORKSPACE…             a server
//! emergent-local-helper snapshot DATA_DIR INSTALLATION WORKSPACE SNAPSHOT   one that takes a copy
//! emergent-local-helper init --listen-fd N …                                an agent
//! ```

use std::process::ExitCode;

use emergent_provider_local::helper;

mod stand_in_agent;
mod stand_in_server;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["init", ..] => stand_in_agent::main(),
        ["server", data_dir, installation, ref workspaces @ ..] => {
            stand_in_server::main(data_dir, installation, workspaces)
        }
        ["snapshot", data_dir, installation, workspace, snapshot] => {
            stand_in_server::take_snapshot(data_dir, installation, workspace, snapshot)
        }
        ["--die-at", step, ..] => helper::main_observed(|next| {
            if next.as_str() == step {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        }),
        _ => helper::main(),
    }
}
