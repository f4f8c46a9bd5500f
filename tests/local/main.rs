//! Faults, leaks and the command line, on the embedded provider.

#![expect(clippy::unwrap_used, reason = "what is not as expected fails the test")]

mod agent_lost;
mod checkout;
mod churn;
#[path = "../churn.rs"]
mod churning;
mod command_line;
mod command_line_bash;
mod command_line_files;
mod command_line_pools;
mod command_line_repositories;
mod command_line_shell;
mod command_line_terminal;
mod command_line_tools;
mod disk_watch;
mod doctor;
mod egress;
mod first_process;
mod full_data_folder;
mod kill_matrix;
#[path = "../killing.rs"]
mod killing;
mod load;
mod many;
mod pool;
mod server_killed;
mod siege;
mod support;
mod without_nft;
#[path = "../../crates/host-net/tests/host/world.rs"]
#[expect(dead_code, reason = "shared with the tests of host-net")]
mod world;
