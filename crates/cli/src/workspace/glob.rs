//! `emergent workspace glob`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, GlobRequest};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::{Output, shown};

#[derive(Debug, Args)]
pub(crate) struct Glob {
    /// Where
    id: WorkspaceId,
    /// What the paths look like, such as '**/*.rs'
    pattern: String,
    /// The folder to look in; /workspace where not said
    #[arg(long)]
    path: Option<String>,
    /// How many at most
    #[arg(long)]
    limit: Option<u32>,
    /// Also what .gitignore leaves out
    #[arg(long)]
    include_ignored: bool,
}

impl Glob {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = GlobRequest {
            pattern: self.pattern,
            path: self.path,
            limit: self.limit,
            include_ignored: self.include_ignored,
        };
        let answer = client.glob(self.id, &request).await?;
        output.list(&answer, "no file looks like this", |answer| {
            answer.files.iter().map(|file| shown(file)).collect()
        });
        if answer.truncated {
            output.hint("there are more; --limit shows more of them");
        }
        Ok(ExitCode::SUCCESS)
    }
}
