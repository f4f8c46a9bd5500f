//! `emergent workspace edit`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, EditMode, EditRequest};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::{Output, shown};

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// Where
    id: WorkspaceId,
    /// The file to change; relative paths start at /workspace
    path: String,
    /// The text that is there; empty makes a new file
    #[arg(long, allow_hyphen_values = true)]
    old: String,
    /// The text that is to be there
    #[arg(long, allow_hyphen_values = true)]
    new: String,
    /// Replace it everywhere
    #[arg(long)]
    all: bool,
    /// Where it is not there as it is given, let blanks at line ends and indentation differ
    #[arg(long)]
    fuzzy: bool,
}

impl Edit {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let request = EditRequest {
            file_path: self.path,
            old_string: self.old,
            new_string: self.new,
            replace_all: self.all,
            mode: self.fuzzy.then_some(EditMode::Fuzzy),
        };
        let answer = client.edit(self.id, &request).await?;
        output.result(&answer, |answer| output.contents(&answer.diff).join("\n"));
        if answer.diff_truncated {
            output.hint("the diff was cut; the file has all of it");
        }
        if let Some(rule) = &answer.rule {
            output.hint(&format!("found by: {}", shown(rule)));
        }
        Ok(ExitCode::SUCCESS)
    }
}
