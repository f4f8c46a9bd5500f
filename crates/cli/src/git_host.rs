//! `emergent git-host`: tokens for git hosts that are not GitHub.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use emergent_client::{GitHost, GitHosts};

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::{Output, table};
use crate::workspace::view::minute;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum GitHostCommand {
    /// Store the token of a host, encrypted; workspaces use it and never see it
    Set {
        /// The host, as in CHECKOUT_ALLOWED_HOSTS: https://git.example
        host: String,
        /// The file that has the token; `-` is standard input
        #[arg(long, value_name = "FILE", default_value = "-")]
        token_file: PathBuf,
        /// The name that goes with it; `git` where not said
        #[arg(long)]
        username: Option<String>,
    },
    /// List the hosts that tokens are stored for
    #[command(visible_alias = "ls")]
    List,
    /// Forget the token of a host
    Rm {
        /// The host, as it is listed
        host: String,
    },
}

/// Runs one command against the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: GitHostCommand,
    output: Output,
) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| {
        match command {
            GitHostCommand::Set { host, token_file, username } => {
                let token = read_secret(&token_file)?;
                let stored = client.set_git_host(&host, username.as_deref(), &token).await?;
                output.result(&stored, |stored| stored.host.clone());
            }
            GitHostCommand::List => {
                output.list(&client.git_hosts().await?, "no token is stored", shown);
            }
            GitHostCommand::Rm { host } => {
                output.result(&client.forget_git_host(&host).await?, |_| host.clone());
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A secret from a file, so that no list of processes shows it.
fn read_secret(path: &std::path::Path) -> anyhow::Result<String> {
    let text = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()).context("cannot read standard input"),
        false => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display())),
    }?;
    Ok(text.trim().to_owned())
}

fn shown(hosts: &GitHosts) -> Vec<String> {
    let row = |host: &GitHost| vec![host.host.clone(), host.username.clone(), minute(host.created_at)];
    vec![table(&["HOST", "USERNAME", "STORED"], hosts.items.iter().map(row))]
}
