//! What is printed, for people or for programs.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use comfy_table::{Table, presets};
use emergent_client::ClientError;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::Failure;

/// Where results go. For people they are tables, for programs JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    /// Whether a terminal shows what is printed.
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, is_terminal: io::stdout().is_terminal() }
    }

    /// Prints a result: as JSON, or as `human` makes it.
    pub(crate) fn result<T: Serialize>(self, value: &T, human: impl FnOnce(&T) -> String) {
        if !self.json {
            return self.line(&human(value));
        }
        // What came from JSON goes back into it.
        let text =
            serde_json::to_string_pretty(value).unwrap_or_else(|error| json!(error.to_string()).to_string());
        self.line(&text);
    }

    /// Prints a result that is a list for people: one line each. For none there is nothing to
    /// read on, and a person is told so beside it.
    pub(crate) fn list<T: Serialize>(self, value: &T, nothing: &str, lines: impl FnOnce(&T) -> Vec<String>) {
        if self.json {
            return self.result(value, |_| String::new());
        }
        let lines = lines(value);
        if lines.is_empty() {
            self.note(nothing);
        }
        for line in lines {
            self.line(&line);
        }
    }

    /// A line of a file, as it can be printed. A terminal would do what it says; whatever reads from a pipe
    /// gets it as it is.
    pub(crate) fn content(self, line: &str) -> String {
        match self.is_terminal {
            true => line.split('\t').map(shown).collect::<Vec<_>>().join("\t"),
            false => line.to_owned(),
        }
    }

    /// The same for several lines. Only line feeds end them: a carriage return is content.
    pub(crate) fn contents(self, text: &str) -> Vec<String> {
        match text.strip_suffix('\n').unwrap_or(text) {
            "" => Vec::new(),
            text => text.split('\n').map(|line| self.content(line)).collect(),
        }
    }

    /// Prints one of many results, for programs: a line of JSON.
    pub(crate) fn json_line<T: Serialize>(self, value: &T) {
        self.line(&serde_json::to_string(value).unwrap_or_else(|error| json!(error.to_string()).to_string()));
    }

    /// Prints a line of text.
    pub(crate) fn line(self, text: &str) {
        write(&mut io::stdout().lock(), &[text.as_bytes(), b"\n"].concat());
    }

    /// Passes on what a command printed, as it is.
    pub(crate) fn passed_on(self, stdout: &str, stderr: &str) {
        write(&mut io::stdout().lock(), stdout.as_bytes());
        write(&mut io::stderr().lock(), stderr.as_bytes());
    }

    /// Tells something beside the result.
    pub(crate) fn note(self, text: &str) {
        write(&mut io::stderr().lock(), format!("{text}\n").as_bytes());
    }

    /// Tells a person something beside the result. Programs have it in the result.
    pub(crate) fn hint(self, text: &str) {
        if !self.json {
            self.note(text);
        }
    }

    /// Whether programs read this.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Does the same for each of several. What fails is told, and the others are done all the
    /// same; the first failure decides how the program ends.
    pub(crate) async fn each<T>(
        self,
        of: Vec<T>,
        mut one: impl AsyncFnMut(T) -> Result<(), Failure>,
    ) -> ExitCode {
        let mut code = ExitCode::SUCCESS;
        let mut failed = false;
        for one_of_them in of {
            if let Err(failure) = one(one_of_them).await {
                self.failure(&failure);
                if !failed {
                    code = failure.exit_code();
                }
                failed = true;
            }
        }
        code
    }

    /// Tells why a command failed.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            return self.note(&failure_json(failure).to_string());
        }
        match failure {
            Failure::Client(error) => {
                self.note(&format!("error: {}", shown(&error.to_string())));
                for line in particulars(error) {
                    self.note(&line);
                }
            }
            Failure::Usage(reason) => self.note(&format!("error: {reason}")),
            Failure::Other(error) => self.note(&shown_lines(&format!("error: {error:#}"))),
        }
        if let Some(hint) = failure.hint() {
            self.note(&format!("hint: {hint}"));
        }
    }
}

/// What helps a person to ask again: where it matched, and what is close to what was asked for.
fn particulars(error: &ClientError) -> Vec<String> {
    let ClientError::Api(api) = error else { return Vec::new() };
    let list = |name: &str| api.details.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let suggestions: Vec<_> = list("suggestions").iter().filter_map(Value::as_str).map(shown).collect();
    let mut lines = Vec::new();
    // Where something is close, each suggestion has the number of its line.
    let places: Vec<_> =
        list("lines").iter().filter_map(Value::as_u64).map(|line| line.to_string()).collect();
    if !places.is_empty() && suggestions.is_empty() {
        lines.push(format!("at lines: {}", places.join(", ")));
    }
    if !suggestions.is_empty() {
        lines.push("close to it:".to_owned());
        lines.extend(suggestions.iter().map(|suggestion| format!("  {suggestion}")));
    }
    lines
}

/// The server's own error where there is one, else one of the same shape.
fn failure_json(failure: &Failure) -> Value {
    match failure {
        Failure::Client(ClientError::Api(api)) => {
            json!({ "error": { "code": api.code, "message": api.message, "details": api.details } })
        }
        Failure::Client(error @ ClientError::Unreachable { .. }) => {
            json!({ "error": { "code": "unreachable", "message": error.to_string(), "details": {} } })
        }
        Failure::Client(error @ ClientError::InvalidUrl { .. }) => {
            json!({ "error": { "code": "usage", "message": error.to_string(), "details": {} } })
        }
        Failure::Client(error) => {
            json!({ "error": { "code": "client_error", "message": error.to_string(), "details": {} } })
        }
        Failure::Usage(reason) => {
            json!({ "error": { "code": "usage", "message": reason, "details": {} } })
        }
        Failure::Other(error) => {
            json!({ "error": { "code": "failed", "message": format!("{error:#}"), "details": {} } })
        }
    }
}

/// Writes all of it. Whoever closes the other end has seen enough, and nobody is left to be
/// told.
fn write(to: &mut impl Write, bytes: &[u8]) {
    if to.write_all(bytes).and_then(|()| to.flush()).is_err() {
        std::process::exit(0);
    }
}

/// A name or a message that somebody else chose, as it can be shown: what a terminal would take
/// for a command, and what would look like another line, is written out.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_command(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The same for a text that may have lines.
fn shown_lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// Control characters, and those that turn the direction of what follows.
pub(crate) fn is_command(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A table with a head.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    let rows = rows.into_iter().map(|row| row.iter().map(|cell| shown(cell)).collect::<Vec<_>>());
    table.load_preset(presets::NOTHING).set_header(head).add_rows(rows);
    trimmed(&table)
}

/// Names and values, one below the other.
pub(crate) fn fields(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .add_rows(rows.into_iter().map(|(name, value)| vec![name.to_owned(), shown(&value)]));
    trimmed(&table)
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_command_to_a_terminal() {
        assert_eq!(shown("ä b/\u{1f600}"), "ä b/\u{1f600}");
        assert_eq!(shown("a\u{1b}[2J\r\nb\u{9b}31m\u{202e}"), r"a\u{1b}[2J\r\nb\u{9b}31m\u{202e}");
        assert_eq!(shown_lines("a\u{7}\nb"), "a\\u{7}\nb");
        let row = ["a\u{1b}]0;x\u{7}".to_owned()].to_vec();
        assert_eq!(table(&["NAME"], [row.clone()]), "NAME\na\\u{1b}]0;x\\u{7}");
        assert_eq!(fields([("error", row[0].clone())]), "error  a\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn the_lines_of_a_file_are_no_commands_to_a_terminal() {
        let file = "1: a\u{1b}[2Jb\tc\u{202e}\n2: ä\u{7}\r\n";
        let lines = |is_terminal| Output { json: false, is_terminal }.contents(file);
        assert_eq!(lines(true), ["1: a\\u{1b}[2Jb\tc\\u{202e}", "2: ä\\u{7}\\r"]);
        assert_eq!(lines(false), ["1: a\u{1b}[2Jb\tc\u{202e}", "2: ä\u{7}\r"]);
        assert_eq!(Output { json: false, is_terminal: false }.contents(""), [""; 0]);
    }

    #[test]
    fn tables_are_plain() {
        let text = table(&["ID", "STATUS"], [vec!["a".to_owned(), "ready".to_owned()]]);
        assert_eq!(text, "ID  STATUS\na   ready");
        assert_eq!(
            fields([("id", "a".to_owned()), ("status", "ready".to_owned())]),
            "id      a\nstatus  ready"
        );
    }
}
