//! Names that were perhaps meant.

use std::path::Path;

use crate::error::CallError;

/// How many are offered.
const OFFERED: usize = 3;

/// How many entries of a folder are looked at.
const LOOKED_AT: usize = 2000;

/// The error for a path that is not there, with close names from its folder.
pub(super) fn not_found(path: &Path) -> CallError {
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let names = std::fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT);
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // A link that leads nowhere is in the folder itself, and no help.
    let names = names.filter(|name| *name != wanted);
    CallError::NotFound { path: path.to_owned(), suggestions: nearest(&wanted, names) }
}

/// The same error, with close names where a path is not there.
pub(crate) fn with_near_names(error: CallError) -> CallError {
    match error {
        CallError::NotFound { path, .. } => not_found(&path),
        other => other,
    }
}

fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut near: Vec<(usize, String)> = names
        .filter_map(|name| {
            let distance = likeness(&wanted, &name.to_lowercase())?;
            Some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// How far apart two names are; `None` when too far to be meant.
fn likeness(wanted: &str, name: &str) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    let bound = (wanted.chars().count() / 3).max(1);
    let distance = edit_distance(wanted, name);
    if distance <= bound {
        return Some(distance);
    }
    // `main` for `main.rs`, `main.rs` for `main`; further than any typing mistake.
    let contains = name.contains(wanted) || (name.len() > 2 && wanted.contains(name));
    contains.then_some(bound + distance)
}

/// Insertions, deletions, replacements and swaps of neighbours.
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before_last: Vec<usize> = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut current = vec![i];
        for j in 1..=to.len() {
            let differs = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (last[j] + 1).min(current[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let check =
            |from: &str, to: &str, expect: usize| assert_eq!(edit_distance(from, to), expect, "{from} {to}");
        check("", "", 0);
        check("abc", "abc", 0);
        check("abc", "abd", 1);
        check("abc", "acb", 1);
        check("abc", "", 3);
        check("kitten", "sitting", 3);
        check("ä", "a", 1);
    }

    #[test]
    fn a_link_to_nothing_is_no_help_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        std::fs::write(folder.path().join("links"), "").unwrap();
        let CallError::NotFound { suggestions, .. } = not_found(&folder.path().join("link")) else {
            panic!()
        };
        assert_eq!(suggestions, ["links"]);
    }

    #[test]
    fn the_nearest_come_first_and_the_far_not_at_all() {
        let check = |wanted: &str, names: &[&str], expect: &[&str]| {
            assert_eq!(nearest(wanted, names.iter().map(|name| (*name).to_owned())), expect, "{wanted}");
        };
        check("servr.ts", &["server.ts", "server.js", "other"], &["server.ts", "server.js"]);
        check("README", &["readme", "README.md", "src"], &["readme", "README.md"]);
        check("main", &["lib.rs", "main.rs"], &["main.rs"]);
        check("a", &["b", "c", "d", "e", "long-name"], &["b", "c", "d"]);
        check("config.yaml", &["unrelated"], &[]);
        check("", &["a"], &[]);
    }
}
