//! What `.gitignore` and `.ignore` leave out.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::files::{open_regular, read_full};

/// Of a file of rules so much is read.
const MAX_RULES_BYTES: usize = 256 << 10;

/// A longer line is not a rule that anybody wrote.
const MAX_LINE_BYTES: usize = 1024;

/// Nor is one with more braces: they nest, and nesting costs stack.
const MAX_BRACES: usize = 16;

/// The rules that hold in a folder: its own, and those of the folders above it.
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    /// Of `.ignore`; goes before all `.gitignore`s.
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    /// Of `.git/info/exclude`.
    exclude: Option<Gitignore>,
    /// Rules of git end at the repository.
    is_repository: bool,
}

/// Which files of rules a folder has.
#[derive(Default, Clone, Copy)]
pub(super) struct Present {
    pub(super) ignore: bool,
    pub(super) gitignore: bool,
    pub(super) git: bool,
}

impl Present {
    fn any(self) -> bool {
        self.ignore || self.gitignore || self.git
    }

    /// Notes a name of the folder.
    pub(super) fn note(&mut self, name: &[u8]) {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            _ => {}
        }
    }

    fn of(folder: &Path) -> Self {
        let is_there = |name: &str| rustix::fs::lstat(folder.join(name)).is_ok();
        Self { ignore: is_there(".ignore"), gitignore: is_there(".gitignore"), git: is_there(".git") }
    }
}

/// Level by level: the chain may be as long as a path has folders, and a thread's stack is short.
impl Drop for Rules {
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut rules) = above.and_then(Arc::into_inner) {
            above = rules.above.take();
        }
    }
}

impl Rules {
    /// The rules that hold above a folder, up to its repository.
    pub(super) fn above(folder: &Path) -> Option<Arc<Self>> {
        if Present::of(folder).git {
            return None;
        }
        let mut folders = Vec::new();
        for above in folder.ancestors().skip(1) {
            let present = Present::of(above);
            folders.push((above, present));
            if present.git {
                break;
            }
        }
        folders.into_iter().rev().fold(None, |above, (folder, present)| Self::within(folder, present, above))
    }

    /// The rules in a folder.
    pub(super) fn within(folder: &Path, present: Present, above: Option<Arc<Self>>) -> Option<Arc<Self>> {
        if !present.any() {
            return above;
        }
        let read = |is_there: bool, name: &str| is_there.then(|| read_rules(folder, name)).flatten();
        Some(Arc::new(Self {
            above,
            ignore: read(present.ignore, ".ignore"),
            gitignore: read(present.gitignore, ".gitignore"),
            exclude: read(present.git, ".git/info/exclude"),
            is_repository: present.git,
        }))
    }

    /// Whether a path is left out.
    pub(super) fn leave_out(&self, path: &Path, is_folder: bool) -> bool {
        let decide = |rules: Option<&Gitignore>| match rules?.matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        let mut level = Some(self);
        while let Some(rules) = level {
            if let Some(decided) = decide(rules.ignore.as_ref()) {
                return decided;
            }
            level = rules.above.as_deref();
        }
        let mut level = Some(self);
        while let Some(rules) = level {
            if let Some(decided) = decide(rules.gitignore.as_ref()) {
                return decided;
            }
            if rules.is_repository {
                return decide(rules.exclude.as_ref()).unwrap_or(false);
            }
            level = rules.above.as_deref();
        }
        false
    }
}

/// Rules that cannot be read are none; lines that make no sense are left out.
fn read_rules(folder: &Path, name: &str) -> Option<Gitignore> {
    let path = folder.join(name);
    // Not read by the library: it would wait for a pipe of that name.
    let (file, _) = open_regular(&path).ok()?;
    let mut bytes = vec![0; 4096];
    let mut filled = 0;
    loop {
        filled += read_full(&file, bytes.get_mut(filled..).unwrap_or_default(), &path).ok()?;
        if filled < bytes.len() || filled >= MAX_RULES_BYTES {
            break;
        }
        bytes.resize(bytes.len() * 2, 0);
    }
    let text = String::from_utf8_lossy(bytes.get(..filled).unwrap_or_default());
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        let is_sane = line.len() <= MAX_LINE_BYTES && line.matches('{').count() <= MAX_BRACES;
        if is_sane {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_levels_of_rules_need_little_stack() {
        let level =
            |above| Rules { above, ignore: None, gitignore: None, exclude: None, is_repository: false };
        let chain = (0..100_000).fold(None, |above, _| Some(Arc::new(level(above))));
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(move || drop(chain));
        assert!(small.unwrap().join().is_ok());
    }
}
