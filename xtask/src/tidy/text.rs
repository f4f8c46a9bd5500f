//! Rules about files: their names, their length, and what must not stand in them.

use super::Violation;

/// Over 400 lines is a question, over 800 is an answer.
const MAX_LINES: usize = 800;

/// Names that say nothing about what is inside, and so attract everything.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "core", "misc"];

/// What must not stand in Rust code, and why. Written in two halves, so that this file passes.
const BANNED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "finish it, or return an error that says it is not supported"),
    (concat!("unimplemented", "!("), "finish it, or return an error that says it is not supported"),
    (concat!("#[", "ignore"), "a test that does not run proves nothing; put it into a tier"),
    (
        concat!("[", "allow("),
        "use #[expect(.., reason = \"..\")], which complains when it is no longer needed",
    ),
];

fn is_code(file: &str) -> bool {
    [".rs", ".proto", ".sql", ".sh", ".py", ".ts", ".js", ".css", ".html"].iter().any(|e| file.ends_with(e))
}

/// Whether a file's content is looked at, rather than its name alone: text that people write.
pub(crate) fn is_read(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    is_code(file)
        || [".md", ".toml", ".yml", ".yaml"].iter().any(|e| file.ends_with(e))
        || !name.contains('.')
}

/// A manifest must take the workspace's lints.
pub(crate) fn manifest(package: &str, text: &str) -> Option<Violation> {
    let mut lines = text.lines().map(str::trim);
    let takes_lints = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
    (!takes_lints).then(|| format!("{package}: its Cargo.toml lacks `[lints] workspace = true`"))
}

/// A module's name must say what is in it.
pub(crate) fn name(file: &str) -> Option<Violation> {
    let path = file.strip_suffix(".rs")?;
    let empty = path.split('/').find(|part| EMPTY_NAMES.contains(part))?;
    Some(format!("{file}: `{empty}` says nothing; name the module after what it does"))
}

pub(crate) fn content(file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines = text.lines().count();
    if is_code(file) && lines > MAX_LINES {
        violations.push(format!("{file}: {lines} lines; over {MAX_LINES} a file has more than one purpose"));
    }
    if file.ends_with(".rs") {
        violations.extend(banned_words(file, text));
    }
    if is_shell_script(file, text) && !is_strict_shell_script(text) {
        violations.push(format!("{file}: its first command must be `set -eu`, or failures go unnoticed"));
    }
    violations
}

fn banned_words(file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for (word, reason) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
            violations.push(format!("{file}:{number}: `{word}`: {reason}"));
        }
    }
    violations
}

fn is_shell_script(file: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let interpreter = first.starts_with("#!") && first.trim_end().ends_with("sh");
    file.ends_with(".sh") || interpreter
}

fn is_strict_shell_script(text: &str) -> bool {
    let first_command = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first_command.is_some_and(|command| command.starts_with("set -eu"))
}

#[cfg(test)]
mod tests {
    use super::{content, is_read, manifest, name};

    #[test]
    fn manifests_take_the_workspace_lints() {
        assert_eq!(manifest("a", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        assert!(manifest("a", "[package]\nname = \"a\"\n").is_some());
        assert!(manifest("a", "[lints]\n[dependencies]\nworkspace = true\n").is_some());
    }

    #[test]
    fn names_must_say_something() {
        let check = |file: &str, fine: bool| assert_eq!(name(file).is_none(), fine, "{file}");
        check("crates/types/src/limits.rs", true);
        check("crates/types/src/util.rs", false);
        check("crates/api/src/common/mod.rs", false);
        check("crates/api/src/core.rs", false);
        check("docs/common/page.md", true);
    }

    #[test]
    fn banned_words_are_found_in_code_and_not_in_comments() {
        let check = |line: String, fine: bool| {
            assert_eq!(content("src/lib.rs", &line).is_empty(), fine, "{line}");
        };
        check(format!("    {}!()", "todo"), false);
        check(format!("// {}!() is banned", "todo"), true);
        check(format!("#![{}(dead_code)]", "allow"), false);
        check(format!("#[{}]", "ignore"), false);
        check("#[expect(dead_code, reason = \"soon\")]".to_owned(), true);
    }

    #[test]
    fn long_files_are_refused() {
        assert!(content("src/lib.rs", &"x\n".repeat(800)).is_empty());
        assert_eq!(content("src/lib.rs", &"x\n".repeat(801)).len(), 1);
        assert!(content("docs/long.md", &"x\n".repeat(2000)).is_empty());
    }

    #[test]
    fn shell_scripts_stop_at_the_first_failure() {
        let check = |file: &str, text: &str, fine: bool| {
            assert_eq!(content(file, text).is_empty(), fine, "{file}: {text}");
        };
        check("a.sh", "#!/bin/sh\n# why\n\nset -eu\nls\n", true);
        check(".ci/run", "#!/usr/bin/env bash\nset -euo pipefail\n", true);
        check(".ci/run", "#!/usr/bin/env bash\nls\nset -eu\n", false);
        check("tool", "#!/usr/bin/env python3\nprint()\n", true);
    }

    #[test]
    fn only_text_is_read() {
        let check = |file: &str, read: bool| assert_eq!(is_read(file), read, "{file}");
        check("README.md", true);
        check(".ci/run", true);
        check("LICENSE", true);
        check("docs/picture.png", false);
    }
}
