//! `emergent workspace grep`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, GrepAnswer, GrepMatch, GrepOutputMode, GrepRequest};
use emergent_types::WorkspaceId;

use crate::exit::Failure;
use crate::output::{Output, shown};

#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// Where
    id: WorkspaceId,
    /// A regular expression
    #[arg(allow_hyphen_values = true)]
    pattern: String,
    /// The folder or the file to look in; /workspace where not said
    path: Option<String>,
    /// Only in files whose path looks like this, such as '*.rs'
    #[arg(long, value_name = "GLOB")]
    include: Option<String>,
    /// Upper and lower case are the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Lines of context before and after
    #[arg(short = 'C', long, value_name = "LINES")]
    context: Option<u32>,
    /// Let a match span lines
    #[arg(long)]
    multiline: bool,
    /// Print the names of files only
    #[arg(short = 'l', long, conflicts_with = "count")]
    files: bool,
    /// Print how many lines of each file match
    #[arg(short = 'c', long)]
    count: bool,
    /// How many at most
    #[arg(long)]
    limit: Option<u32>,
    /// Also what .gitignore leaves out
    #[arg(long)]
    include_ignored: bool,
}

impl Grep {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let output_mode = match (self.files, self.count) {
            (true, _) => GrepOutputMode::Files,
            (_, true) => GrepOutputMode::Count,
            _ => GrepOutputMode::Content,
        };
        let request = GrepRequest {
            pattern: self.pattern,
            path: self.path,
            include: self.include,
            limit: self.limit,
            case_insensitive: self.ignore_case,
            context: self.context,
            multiline: self.multiline,
            output_mode,
            include_ignored: self.include_ignored,
        };
        let answer = client.grep(self.id, &request).await?;
        output.list(&answer, "no line matches", |answer| lines(answer, output));
        if answer.truncated {
            output.hint("there are more; --limit shows more of them");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// As ripgrep prints it: a colon after a line that matches, a dash after one beside it.
fn lines(answer: &GrepAnswer, output: Output) -> Vec<String> {
    let counts =
        answer.counts.iter().flatten().map(|count| format!("{}:{}", shown(&count.file), count.count));
    let files = answer.files.iter().flatten().map(|file| shown(file));
    let matches = answer.matches.iter().flatten().flat_map(|found| with_context(found, output));
    matches.chain(files).chain(counts).collect()
}

fn with_context(found: &GrepMatch, output: Output) -> Vec<String> {
    let file = shown(&found.file);
    let first = found.line.saturating_sub(found.before.len() as u64);
    let beside = |(number, text): (u64, &String)| format!("{file}-{number}-{}", output.content(text));
    let text_lines = found.text.split('\n').count() as u64;
    let before = (first..).zip(&found.before).map(beside);
    let after = (found.line + text_lines..).zip(&found.after).map(beside);
    let own = (found.line..).zip(found.text.split('\n'));
    let own = own.map(|(number, text)| format!("{file}:{number}:{}", output.content(text)));
    before.chain(own).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_no_command() {
        let file = "\u{1b}[2J".to_owned();
        let found = GrepMatch { file, line: 1, text: "x".to_owned(), before: Vec::new(), after: Vec::new() };
        assert_eq!(with_context(&found, Output::new(false)), [r"\u{1b}[2J:1:x"]);
    }

    #[test]
    fn numbers_count_on_around_a_match() {
        let found = GrepMatch {
            file: "a".to_owned(),
            line: 3,
            text: "x\ny".to_owned(),
            before: vec!["1".to_owned(), "2".to_owned()],
            after: vec!["5".to_owned()],
        };
        assert_eq!(with_context(&found, Output::new(false)), ["a-1-1", "a-2-2", "a:3:x", "a:4:y", "a-5-5"]);
    }
}
