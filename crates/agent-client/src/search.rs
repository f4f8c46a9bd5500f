//! Finding files, and lines in them.

use std::time::Duration;

use emergent_protocol::{MAX_CONTEXT_LINES, MAX_SEARCH_ITEMS, v1};

use crate::{AgentClient, AgentError};

/// How long a search may take. The agent gives up earlier, and says so.
const SEARCH_LIMIT: Duration = Duration::from_secs(90);

/// Found items unless a request names another number.
const DEFAULT_LIMIT: u32 = 100;

/// The longest path there can be, with room for characters that were replaced.
const MAX_PATH_BYTES: usize = 3 * 4096;

/// More than an agent of ours sends of a match: it cuts lines.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Which files to find.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GlobSpec {
    /// What their paths look like.
    pub pattern: String,
    /// Where to look: a folder or a file; `None` is the workspace folder.
    pub path: Option<String>,
    /// How many at most; `None` is 100.
    pub limit: Option<u32>,
    /// Also what `.gitignore` leaves out, and `.git`.
    pub include_ignored: bool,
}

/// Files that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Globbed {
    /// Absolute paths, newest first.
    pub files: Vec<String>,
    /// There are more.
    pub truncated: bool,
}

/// What a search answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrepOutput {
    /// Lines.
    #[default]
    Content,
    /// Files that have such lines.
    Files,
    /// Files, and how many such lines each has.
    Count,
}

/// Which lines to find.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepSpec {
    /// A regular expression.
    pub pattern: String,
    /// Where to look: a folder or a file; `None` is the workspace folder.
    pub path: Option<String>,
    /// Only in files that look like this.
    pub include: Option<String>,
    /// How many at most; `None` is 100.
    pub limit: Option<u32>,
    /// Upper and lower case are the same.
    pub case_insensitive: bool,
    /// Lines of context before and after each match.
    pub context: u32,
    /// Matches may span lines.
    pub multiline: bool,
    /// What to answer with.
    pub output: GrepOutput,
    /// Also what `.gitignore` leaves out, and `.git`.
    pub include_ignored: bool,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    /// Absolute path.
    pub file: String,
    /// 1-based.
    pub line: u64,
    /// The line, or all lines of a match that spans several. Cut when long.
    pub text: String,
    /// Lines before it.
    pub before: Vec<String>,
    /// Lines after it.
    pub after: Vec<String>,
}

/// A file that has what was searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepFile {
    /// Absolute path.
    pub file: String,
    /// How many lines match; 0 when only files were asked for.
    pub count: u64,
}

/// What was found, ordered by path and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grepped {
    /// With [`GrepOutput::Content`].
    pub matches: Vec<GrepMatch>,
    /// With the others.
    pub files: Vec<GrepFile>,
    /// There is more.
    pub truncated: bool,
}

impl AgentClient {
    /// Files whose path matches, newest first.
    pub async fn glob(&self, spec: &GlobSpec) -> Result<Globbed, AgentError> {
        let limit = spec.limit.unwrap_or(DEFAULT_LIMIT);
        let request = v1::GlobRequest {
            pattern: spec.pattern.clone(),
            path: spec.path.clone().unwrap_or_default(),
            limit,
            include_ignored: spec.include_ignored,
        };
        let answer = self
            .call("glob", SEARCH_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.glob(request).await }
            })
            .await?;
        let bounds = Bounds { call: "glob", limit };
        bounds.number(answer.files.len())?;
        for file in &answer.files {
            bounds.size(file, MAX_PATH_BYTES)?;
        }
        Ok(Globbed { files: answer.files, truncated: answer.truncated })
    }

    /// Lines that match, or the files that have them.
    pub async fn grep(&self, spec: &GrepSpec) -> Result<Grepped, AgentError> {
        let limit = spec.limit.unwrap_or(DEFAULT_LIMIT);
        let output = match spec.output {
            GrepOutput::Content => v1::GrepOutput::Unspecified,
            GrepOutput::Files => v1::GrepOutput::Files,
            GrepOutput::Count => v1::GrepOutput::Count,
        };
        let request = v1::GrepRequest {
            pattern: spec.pattern.clone(),
            path: spec.path.clone().unwrap_or_default(),
            include: spec.include.clone().unwrap_or_default(),
            limit,
            case_insensitive: spec.case_insensitive,
            context: spec.context,
            multiline: spec.multiline,
            output: output.into(),
            include_ignored: spec.include_ignored,
        };
        let answer = self
            .call("grep", SEARCH_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.grep(request).await }
            })
            .await?;
        grepped(answer, spec, Bounds { call: "grep", limit })
    }
}

fn grepped(answer: v1::GrepResponse, spec: &GrepSpec, bounds: Bounds) -> Result<Grepped, AgentError> {
    let is_content = spec.output == GrepOutput::Content;
    if (is_content && !answer.files.is_empty()) || (!is_content && !answer.matches.is_empty()) {
        return Err(AgentError::malformed("grep", "what was not asked for"));
    }
    bounds.number(answer.matches.len().max(answer.files.len()))?;
    let context = spec.context.min(MAX_CONTEXT_LINES) as usize;
    for found in &answer.matches {
        bounds.size(&found.file, MAX_PATH_BYTES)?;
        if found.before.len().max(found.after.len()) > context {
            return Err(AgentError::malformed("grep", format!("more than {context} lines of context")));
        }
        for text in std::iter::once(&found.text).chain(&found.before).chain(&found.after) {
            bounds.size(text, MAX_TEXT_BYTES)?;
        }
    }
    for found in &answer.files {
        bounds.size(&found.file, MAX_PATH_BYTES)?;
    }
    Ok(Grepped {
        matches: answer
            .matches
            .into_iter()
            .map(|found| GrepMatch {
                file: found.file,
                line: found.line,
                text: found.text,
                before: found.before,
                after: found.after,
            })
            .collect(),
        files: answer
            .files
            .into_iter()
            .map(|found| GrepFile { file: found.file, count: found.count })
            .collect(),
        truncated: answer.truncated,
    })
}

/// What an answer may be at most.
#[derive(Clone, Copy)]
struct Bounds {
    call: &'static str,
    limit: u32,
}

impl Bounds {
    fn number(self, number: usize) -> Result<(), AgentError> {
        if number > self.limit.min(MAX_SEARCH_ITEMS) as usize {
            let reason = format!("{number} items, {} asked for", self.limit);
            return Err(AgentError::malformed(self.call, reason));
        }
        Ok(())
    }

    fn size(self, text: &str, most: usize) -> Result<(), AgentError> {
        if text.len() > most {
            return Err(AgentError::malformed(self.call, format!("a text of {} bytes", text.len())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(before: usize, text: usize) -> v1::GrepMatch {
        v1::GrepMatch {
            file: "/f".to_owned(),
            line: 1,
            text: "x".repeat(text),
            before: vec![String::new(); before],
            after: Vec::new(),
        }
    }

    #[test]
    fn more_than_was_asked_for_is_malformed() {
        let spec = GrepSpec { context: 2, ..GrepSpec::default() };
        let bounds = Bounds { call: "grep", limit: 3 };
        let check = |matches: Vec<v1::GrepMatch>, files: usize, expect: bool| {
            let files = vec![v1::GrepFile::default(); files];
            let answer = v1::GrepResponse { matches, files, truncated: false };
            assert_eq!(grepped(answer, &spec, bounds).is_ok(), expect);
        };
        check(vec![found(2, 10); 3], 0, true);
        check(vec![found(2, 10); 4], 0, false);
        check(vec![found(3, 10)], 0, false);
        check(vec![found(0, MAX_TEXT_BYTES + 1)], 0, false);
        check(vec![], 1, false);
        let huge = Bounds { call: "glob", limit: u32::MAX };
        assert!(huge.number(MAX_SEARCH_ITEMS as usize).is_ok());
        assert!(huge.number(MAX_SEARCH_ITEMS as usize + 1).is_err());
    }
}
