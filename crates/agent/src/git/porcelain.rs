//! What git prints for programs: records that end in a NUL, so that a name may hold anything else.

use emergent_protocol::v1;

/// What `status --porcelain=v2 --branch -z` says. Names are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Status {
    /// `None` before the first commit.
    pub(super) commit: Option<String>,
    /// `None` on a detached HEAD.
    pub(super) branch: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) ahead: u64,
    pub(super) behind: u64,
    pub(super) entries: Vec<Entry>,
}

/// One path that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Changed { path: Vec<u8>, staged: Option<Change>, unstaged: Option<Change> },
    Conflict { path: Vec<u8> },
    Untracked { path: Vec<u8> },
}

/// How it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) kind: &'static str,
    /// Where it was.
    pub(super) old_path: Option<Vec<u8>>,
}

/// Reads a status. A last record that was cut is left out, and so is what no version known today
/// prints.
pub(super) fn status(output: &[u8]) -> Status {
    let mut status = Status::default();
    let mut records = records(output);
    while let Some(record) = records.next() {
        let entry = match record.split_first() {
            Some((b'#', header)) => {
                read_header(&mut status, &String::from_utf8_lossy(header));
                None
            }
            Some((b'1', _)) => field(record, 8).map(|path| changed(record, path, None)),
            Some((b'2', _)) => {
                let Some(old_path) = records.next() else { break };
                field(record, 9).map(|path| changed(record, path, Some(old_path)))
            }
            Some((b'u', _)) => field(record, 10).map(|path| Entry::Conflict { path: path.to_vec() }),
            Some((b'?', _)) => field(record, 1).map(|path| Entry::Untracked { path: path.to_vec() }),
            _ => None,
        };
        status.entries.extend(entry);
    }
    status
}

fn read_header(status: &mut Status, header: &str) {
    let Some((key, value)) = header.trim_start().split_once(' ') else { return };
    match key {
        "branch.oid" if value != "(initial)" => status.commit = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => status.branch = Some(value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let mut numbers = value.split(' ').map(|number| number.trim_start_matches(['+', '-']).parse());
            status.ahead = numbers.next().and_then(Result::ok).unwrap_or(0);
            status.behind = numbers.next().and_then(Result::ok).unwrap_or(0);
        }
        _ => {}
    }
}

fn changed(record: &[u8], path: &[u8], old_path: Option<&[u8]>) -> Entry {
    let change = |letter: u8| {
        let kind = match letter {
            b'.' => return None,
            b'A' => "added",
            b'D' => "deleted",
            b'R' => "renamed",
            b'C' => "copied",
            b'T' => "type_changed",
            _ => "modified",
        };
        let moved = matches!(letter, b'R' | b'C');
        Some(Change { kind, old_path: old_path.filter(|_| moved).map(<[u8]>::to_vec) })
    };
    let letter = |at: usize| record.get(at).copied().unwrap_or(b'.');
    Entry::Changed { path: path.to_vec(), staged: change(letter(2)), unstaged: change(letter(3)) }
}

/// The rest of a record after this many blanks.
fn field(record: &[u8], number: usize) -> Option<&[u8]> {
    record.splitn(number + 1, |byte| *byte == b' ').nth(number).filter(|field| !field.is_empty())
}

/// The records that are whole.
pub(super) fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = memchr::memrchr(0, output).and_then(|end| output.get(..end));
    whole.into_iter().flat_map(|whole| whole.split(|byte| *byte == 0))
}

/// Reads `diff --numstat -z`: `added deleted path`, or an empty path and then the old and the new
/// one. Binary files have dashes for numbers.
pub(super) fn numstat(output: &[u8]) -> Vec<v1::GitFileDiff> {
    let mut files = Vec::new();
    let mut last_path: &[u8] = b"";
    let mut records = records(output);
    while let Some(record) = records.next() {
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(deleted), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let path = if path.is_empty() {
            let (Some(_), Some(path)) = (records.next(), records.next()) else { break };
            path
        } else {
            path
        };
        let number = |field: &[u8]| std::str::from_utf8(field).ok().and_then(|field| field.parse().ok());
        let file = v1::GitFileDiff {
            path: text(path),
            added: number(added).unwrap_or(0),
            deleted: number(deleted).unwrap_or(0),
            binary: added == b"-",
        };
        // Of a file with conflicts git tells twice: that it has some, and what it differs in.
        match files.last_mut().filter(|_| path == last_path) {
            Some(last) => *last = file,
            None => files.push(file),
        }
        last_path = path;
    }
    files
}

/// A name as it is told. Invalid UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How much an answer may hold: it is one message.
pub(super) struct Budget {
    entries: usize,
    bytes: usize,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self { entries: 5000, bytes: 2 << 20 }
    }

    /// Whether there is room for one more of this size.
    pub(super) fn admits(&mut self, bytes: usize) -> bool {
        if self.entries == 0 || bytes > self.bytes {
            return false;
        }
        self.entries -= 1;
        self.bytes -= bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn paths(output: &str) -> Vec<Entry> {
        status(output.as_bytes()).entries
    }

    #[test]
    fn headers() {
        let output = format!(
            "# branch.oid {ID}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +3 -12\0# stash 1\0"
        );
        let status = self::status(output.as_bytes());
        assert_eq!(status.commit.as_deref(), Some(ID));
        assert_eq!(status.branch.as_deref(), Some("main"));
        assert_eq!(status.upstream.as_deref(), Some("origin/main"));
        assert_eq!((status.ahead, status.behind), (3, 12));
        let fresh = self::status(b"# branch.oid (initial)\0# branch.head main\0");
        assert_eq!((fresh.commit, fresh.branch.as_deref()), (None, Some("main")));
        let detached = self::status(format!("# branch.oid {ID}\0# branch.head (detached)\0").as_bytes());
        assert_eq!(detached.branch, None);
        assert_eq!(self::status(b""), Status::default());
    }

    #[test]
    fn a_cut_record_is_left_out() {
        assert_eq!(paths("? a\0? b"), [Entry::Untracked { path: b"a".to_vec() }]);
        let renamed = format!("2 R. N... 100644 100644 100644 {ID} {ID} R100 new\0ol");
        assert_eq!(paths(&renamed), []);
    }

    #[test]
    fn numbers_of_lines() {
        let files = numstat(b"1\t2\ta b\0-\t-\tbin\x000\t0\t\0old\0new\x003\t");
        let seen: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), file.added, file.deleted, file.binary)).collect();
        assert_eq!(seen, [("a b", 1, 2, false), ("bin", 0, 0, true), ("new", 0, 0, false)]);
        let files = numstat(b"0\t0\tconflict\x004\t1\tconflict\x000\t0\tgone\0");
        let seen: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.added, file.deleted)).collect();
        assert_eq!(seen, [("conflict", 4, 1), ("gone", 0, 0)]);
    }

    #[test]
    fn an_answer_has_an_end() {
        let mut budget = Budget::new();
        assert!(!budget.admits(3 << 20));
        assert_eq!((0..10_000).filter(|_| budget.admits(10)).count(), 5000);
    }

    proptest! {
        /// Whatever a file is called, it and its neighbours are told apart.
        #[test]
        fn any_name_survives(
            names in prop::collection::vec(prop::collection::vec(1u8..=255, 1..40), 1..8),
            kinds in prop::collection::vec(0..4u8, 8),
        ) {
            let mut output = Vec::new();
            let mut expected = Vec::new();
            for (name, kind) in names.iter().zip(kinds) {
                let path = name.clone();
                let (prefix, entry) = match kind {
                    0 => ("? ".to_owned(), Entry::Untracked { path }),
                    1 => (format!("u UU N... 1 1 1 1 {ID} {ID} {ID} "), Entry::Conflict { path }),
                    2 => {
                        let modified = Some(Change { kind: "modified", old_path: None });
                        (format!("1 .M N... 1 1 1 {ID} {ID} "), Entry::Changed { path, staged: None, unstaged: modified })
                    }
                    _ => {
                        let renamed = Some(Change { kind: "renamed", old_path: Some(b"? old".to_vec()) });
                        (format!("2 R. N... 1 1 1 {ID} {ID} R90 "), Entry::Changed { path, staged: renamed, unstaged: None })
                    }
                };
                output.extend_from_slice(prefix.as_bytes());
                output.extend_from_slice(name);
                output.push(0);
                if kind == 3 {
                    output.extend_from_slice(b"? old\0");
                }
                expected.push(entry);
            }
            prop_assert_eq!(status(&output).entries, expected);
        }

        #[test]
        fn any_name_survives_a_diff(mut names in prop::collection::vec(prop::collection::vec(1u8..=255, 1..40), 1..8)) {
            names.dedup();
            let mut output = Vec::new();
            for name in &names {
                output.extend_from_slice(b"7\t8\t");
                output.extend_from_slice(name);
                output.push(0);
            }
            let seen: Vec<String> = numstat(&output).into_iter().map(|file| file.path).collect();
            let expected: Vec<String> = names.iter().map(|name| text(name)).collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn nothing_panics(output in prop::collection::vec(any::<u8>(), 0..400)) {
            status(&output);
            numstat(&output);
        }
    }
}
