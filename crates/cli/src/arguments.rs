//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::events::Follow;
use crate::git_host::GitHostCommand;
use crate::image::ImageCommand;
use crate::mcp::McpCommand;
use crate::mcp_stdio::McpStdio;
use crate::snapshot::SnapshotCommand;
use crate::token::TokenCommand;
use crate::warm_pool::WarmPoolArguments;
use crate::workspace::WorkspaceCommand;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage
  3  there is no such workspace or MCP server
  4  not allowed (token missing, unknown or not enough)
  5  the server cannot be reached
  6  not now: a limit is reached, or nothing is available; try again later

`emergent workspace exec` exits with the code of the command it ran.";

/// Isolated workspaces for AI agents.
#[derive(Debug, Parser)]
#[command(name = "emergent", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct CommonArguments {
    /// The folder that holds everything: database, keys, sandboxes [env: EMERGENT_DATA_DIR]
    /// [default: $XDG_STATE_HOME/emergent; /var/lib/emergent for root; ~/.local/state/emergent]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The configuration file [env: EMERGENT_CONFIG] [default: ./emergent.toml, then
    /// /etc/emergent/emergent.toml, where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The server's address [env: EMERGENT_URL] [default: where the server of the data folder
    /// listens]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The token to show [env: EMERGENT_TOKEN] [default: admin.token in the data folder]
    #[arg(long, global = true, value_name = "TOKEN", hide_default_value = true)]
    pub(crate) token: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(ServeArguments),
    /// Make and use workspaces
    #[command(alias = "ws")]
    Workspace {
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// Make, list and revoke tokens
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Store tokens for git hosts that are not GitHub
    GitHost {
        #[command(subcommand)]
        command: GitHostCommand,
    },
    /// List and remove snapshots of workspaces
    Snapshot {
        #[command(subcommand)]
        command: SnapshotCommand,
    },
    /// Host MCP servers and call them
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Serve the tools of a workspace over standard input and output, for an MCP client that starts programs
    McpStdio(McpStdio),
    /// Show the sandboxes that are made ahead of time, or change how many there are
    WarmPool(WarmPoolArguments),
    /// Make the image that workspaces start from
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
    /// Show what somebody should look at
    Alerts,
    /// Follow what happens: workspaces, providers, alerts
    Events(Follow),
    /// Look at this machine: what works, what is missing, and how to get it
    Doctor,
    /// Print the OpenAPI document
    Openapi,
    /// Print a completion script for a shell, such as `source <(emergent completions bash)`
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// What `serve` takes. Everything else is in the environment or the configuration file.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Where to listen [env: EMERGENT_LISTEN] [default: 127.0.0.1:8585]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Allow listening beyond this machine although nothing is encrypted
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_comes_after_the_dashes_belongs_to_the_command() {
        let id = "0199e6a4-0000-7000-8000-000000000000";
        let line = ["emergent", "workspace", "exec", id, "--", "ls", "--json", "-l"];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert!(!arguments.common.json);
        let Command::Workspace { command: WorkspaceCommand::Exec(exec) } = arguments.command else {
            panic!("not exec")
        };
        assert_eq!(exec.command, ["ls", "--json", "-l"]);
    }
}
