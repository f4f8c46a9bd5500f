//! Links inside the repository must lead somewhere, and every decision page (ADR) that is spoken
//! of must exist.

use super::Violation;

/// The broken links of `file`. `exists` answers for a path from the root of the repository.
pub(crate) fn check(file: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    if file.ends_with(".md") {
        for (line, target) in links(text) {
            let Some(path) = resolve(file, target) else { continue };
            if !exists(&path) {
                violations.push(format!("{file}:{line}: the link to `{target}` leads nowhere"));
            }
        }
    }
    for (line, page) in decision_pages(text) {
        if !exists(page) {
            violations.push(format!("{file}:{line}: speaks of {page}, which does not exist"));
        }
    }
    violations
}

/// The targets of `[text](target)` and `[label]: target` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            // Every second part lies between backticks.
            for prose in line.split('`').step_by(2) {
                let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
                found.extend(inline.map(|(target, _)| (number, target)));
            }
            if let Some((label, target)) = line.split_once("]: ")
                && label.starts_with('[')
            {
                found.push((number, target.trim()));
            }
        }
    }
    found
}

/// The path a link leads to, from the root of the repository; `None` for links that leave it or
/// stay on the page.
fn resolve(file: &str, target: &str) -> Option<String> {
    let path = target.split(['#', ' ']).next().unwrap_or_default();
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = match path.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => file.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    // The root itself exists.
    Some(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// Every page of `docs/adr/` named in the text, with its line.
fn decision_pages(text: &str) -> Vec<(usize, &str)> {
    const FOLDER: &str = "docs/adr/";
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (start, _) in line.match_indices(FOLDER) {
            let rest = &line[start..];
            let end = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && !"/-_.".contains(letter))
                .unwrap_or(rest.len());
            let page = rest[..end].trim_end_matches('.');
            let numbered = page[FOLDER.len()..].starts_with(|letter: char| letter.is_ascii_digit());
            if numbered && page.ends_with(".md") {
                found.push((number, page));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;

    const THERE: &[&str] = &["README.md", "docs/guide.md", "docs/adr/0001-one-agent-one-protocol.md", "."];

    fn broken(file: &str, text: &str, expect: usize) {
        let violations = check(file, text, &|path| THERE.contains(&path));
        assert_eq!(violations.len(), expect, "{text}: {violations:?}");
    }

    #[test]
    fn links_are_followed_from_where_they_stand() {
        broken("README.md", "[guide](docs/guide.md#start) and [root](.)", 0);
        broken("docs/guide.md", "[up](../README.md), [first](adr/0001-one-agent-one-protocol.md)", 0);
        broken("docs/guide.md", "[gone](README.md) [gone too](/docs/none.md)", 2);
        broken("README.md", "[guide]: docs/none.md", 1);
    }

    #[test]
    fn links_that_leave_the_repository_are_not_followed() {
        broken("README.md", "[web](https://example.org/x) [mail](mailto:a@b.c) [here](#section)", 0);
    }

    #[test]
    fn code_is_not_prose() {
        broken("README.md", "```\n[x](none.md)\n```\nand `[y](none.md)`", 0);
    }

    #[test]
    fn decision_pages_must_exist_wherever_they_are_named() {
        broken("src/lib.rs", "//! See docs/adr/0001-one-agent-one-protocol.md.", 0);
        broken("src/lib.rs", concat!("//! See docs/", "adr/0002-second.md."), 1);
        broken("README.md", "All are in docs/adr/.", 0);
    }
}
