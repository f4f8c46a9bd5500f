use proptest::prelude::*;

use super::whole::{apply_to, diff_of};
use super::*;

/// A content in blocks of one size, the first of another: boundaries at every place.
pub(super) struct Chopped<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) first: usize,
    pub(super) size: usize,
}

impl Content for Chopped<'_> {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn block(&mut self, at: u64) -> Result<(u64, &[u8]), CallError> {
        let at = usize::try_from(at).unwrap();
        assert!(at < self.bytes.len(), "asked for the byte at {at} of {}", self.bytes.len());
        let start = if at < self.first { 0 } else { self.first + (at - self.first) / self.size * self.size };
        let end = if at < self.first { self.first } else { start + self.size };
        Ok((start as u64, &self.bytes[start..end.min(self.bytes.len())]))
    }
}

fn new_content(content: &[u8], applied: &Applied) -> Vec<u8> {
    applied.new_content(content)
}

fn edit<'a>(old: &'a str, new: &'a str) -> Edit<'a> {
    Edit { old, new, replace_all: false, fuzzy: false }
}

fn applied(content: &str, edit: Edit<'_>) -> Result<String, Refusal> {
    let applied = apply(content.as_bytes(), edit)?;
    Ok(String::from_utf8(new_content(content.as_bytes(), &applied)).unwrap())
}

#[test]
fn exact_matches() {
    let check = |content: &str, old: &str, new: &str, expect: &str| {
        assert_eq!(applied(content, edit(old, new)).as_deref(), Ok(expect), "{content:?} {old:?}");
    };
    check("a b c", "b", "x", "a x c");
    check("a\nb\nc\n", "b\n", "", "a\nc\n");
    check("ab", "ab", "", "");
    // Line ends are the file's.
    check("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n");
    check("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n");
    check("a\r\nb\r\n", "\nb", "\nx\ny", "a\r\nx\r\ny\r\n");
    check("a\r\nb\r\n", "\nb", "", "a\r\n");
    check("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n");
    // Whatever the line ends of the request are.
    check("a\r\nb\r\n", "a\r\nb", "x\ny\nz", "x\r\ny\r\nz\r\n");
    check("a\nb\n", "a\nb", "x\r\ny\r\nz", "x\ny\nz\n");
    check("a\r\nb\r\n", "a\nb", "x\r\ny\nz", "x\r\ny\r\nz\r\n");
    check("a\nb\n", "b", "x\r\ny", "a\nx\ny\n");
    check("a\nb\n", "a\nb", "x\r\r\ny", "x\r\ny\n");
    check("b", "b", "x\r\ny", "x\r\ny");
    // Unless nothing else is to change.
    check("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n");
    check("a\nb\n", "a\nb", "a\r\nb", "a\r\nb\n");
    // What has the very bytes comes first.
    check("a\r\nb\na\nb\n", "a\nb", "x\ny", "a\r\nb\nx\ny\n");
    check("a\nb\na\r\nb\n", "a\nb", "x\ny", "x\ny\na\r\nb\n");
    check("a\r\nb\na\nb\n", "a\r\nb", "x\r\ny", "x\r\ny\na\nb\n");
    check("x\r\nb\ny\nb\n", "\nb", "", "x\r\nb\ny\n");
    // What is not touched keeps the ends it has.
    check("a\r\nb\nc\r\nd\n", "c\nd", "x\ny", "a\r\nb\nx\r\ny\n");
    check("a\nb\r\nc\nd", "a\nb", "x\ny", "x\ny\r\nc\nd");
    check("a\nb\r\nc\nd", "b\nc", "x\ny", "a\nx\r\ny\nd");
    // A line that had `\n` keeps it, whatever most lines have, and the other way round.
    check("a\r\nb\r\nc\nd\r\n", "c", "x\ny", "a\r\nb\r\nx\ny\nd\r\n");
    check("a\nb\nc\r\nd\n", "c", "x\ny", "a\nb\nx\r\ny\r\nd\n");
    check("a\r\nb\nc\r\nd\n", "a\nb\nc\n", "x\ny\nz\n", "x\r\ny\nz\r\nd\n");
    check("a\r\nb\nc\r\nd\n", "a\nb\nc", "new\na\nb\nc", "new\r\na\r\nb\nc\r\nd\n");
    check("a\r\nb\n", "a\nb", "x\ny\nz", "x\r\ny\nz\n");
    check("a\nb\r\nc", "c", "x\ny", "a\nb\r\nx\r\ny");
    // The byte order mark stays.
    check("\u{feff}a\nb", "a", "x", "\u{feff}x\nb");
    check("\u{feff}a\nb", "\u{feff}a", "x", "\u{feff}x\nb");
    check("\u{feff}a\r\nb", "a\nb", "\u{feff}x\ny", "\u{feff}x\r\ny");
}

#[test]
fn refusals() {
    let check = |content: &str, old: &str, expect: Refusal| {
        assert_eq!(applied(content, edit(old, "new")), Err(expect), "{content:?} {old:?}");
    };
    let several = |lines: &[u64]| Refusal::MultipleMatches { lines: lines.to_vec() };
    check("a\nb\na\n", "a", several(&[1, 3]));
    check("a a\n", "a", several(&[1]));
    check("aaa", "aa", several(&[1]));
    check("a\r\nb\r\na\r\nb\r\n", "a\nb", several(&[1, 3]));
    check("a\nb\na\r\nb\r\na\nb\n", "a\nb", several(&[1, 5]));
    check("", "a", Refusal::NoMatch { closest: Closest::default() });
    let closest = Closest { lines: vec![(2, "    let total = 1;".to_owned())], only_first: None };
    check("fn f() {\n    let total = 1;\n}\n", "let total = 2;", Refusal::NoMatch { closest });
    check("\u{feff}x", "\u{feff}", Refusal::NoMatch { closest: Closest::default() });
}

#[test]
fn all_places() {
    let all = |old, new| Edit { replace_all: true, ..edit(old, new) };
    assert_eq!(applied("a b a", all("a", "aa")).as_deref(), Ok("aa b aa"));
    assert_eq!(applied("aaaa", all("aa", "b")).as_deref(), Ok("bb"));
    assert_eq!(applied("a\r\nb\na\nb\n", all("a\nb", "x\ny")).as_deref(), Ok("x\r\ny\nx\ny\n"));
    assert_eq!(applied("a\r\nb\na\nb\n", all("a\r\nb", "x\ny")).as_deref(), Ok("x\r\ny\nx\ny\n"));
    // Line ends alone are changed where they are as they were named.
    assert_eq!(applied("a\r\nb\nc\r\n", all("\r\n", "\n")).as_deref(), Ok("a\nb\nc\n"));
    assert_eq!(applied("a\r\nb\nc\r\n", all("\n", "\r\n")).as_deref(), Ok("a\r\nb\r\nc\r\n"));
}

#[test]
fn bytes_that_are_not_text() {
    let content = b"\xff\0key=old\0\xfe";
    let applied = apply(content, edit("old", "new")).unwrap();
    assert_eq!(new_content(content, &applied), b"\xff\0key=new\0\xfe");
}

#[test]
fn fuzzy_matches() {
    let check = |content: &str, old: &str, new: &str, expect: Option<(Rule, &str)>| {
        let fuzzy = Edit { fuzzy: true, ..edit(old, new) };
        let outcome = apply(content.as_bytes(), fuzzy);
        let seen = outcome.ok().map(|applied| {
            (applied.rule, String::from_utf8(new_content(content.as_bytes(), &applied)).unwrap())
        });
        assert_eq!(seen.as_ref().map(|(rule, text)| (*rule, text.as_str())), expect, "{content:?} {old:?}");
        if expect.is_some_and(|(rule, _)| rule != Rule::Exact) {
            assert!(apply(content.as_bytes(), edit(old, new)).is_err(), "matches without fuzzy");
        }
    };
    use Rule::{Exact, Indentation, TrailingBlanks};
    check("a\nb\n", "b", "x", Some((Exact, "a\nx\n")));
    check("a  \nb\t\nc\n", "a\nb\n", "x\n", Some((TrailingBlanks, "x\nc\n")));
    check("a  \nb\nc\n", "a\nb ", "x", Some((TrailingBlanks, "x\nc\n")));
    check("a  \r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", Some((TrailingBlanks, "x\r\ny\r\nc\r\n")));
    check(
        "    if a {\n        b();\n    }\n",
        "if a {\n    b();\n}",
        "if c {\n    d();\n        e();\n}",
        Some((Indentation, "    if c {\n        d();\n            e();\n    }\n")),
    );
    check(
        "\tif a:\n\t\tb()\n",
        "  if a:\n    b()\n",
        "  if a:\n    c()\n",
        Some((Indentation, "\tif a:\n\t\tc()\n")),
    );
    check("a \r\nb \nc\r\n", "a\nb\n", "x\ny\n", Some((TrailingBlanks, "x\r\ny\nc\r\n")));
    check("x\n  a\n", "a \n", "b\n", Some((Indentation, "x\n  b\n")));
    check("  a", " a\n", " b\n", Some((Indentation, "  b")));
    // Whole lines only, and only one place.
    check("abc  \n", "b \n", "x", None);
    check("a  \nb\na \nb\n", "a\nb\n", "x", None);
    check("x\n\ny\n", " \n", "z", None);
}

#[test]
fn diffs() {
    let check = |content: &str, old: &str, new: &str, lines_changed: u64, expect: &str| {
        let all = Edit { replace_all: true, ..edit(old, new) };
        let applied = apply(content.as_bytes(), all).unwrap();
        let diff = diff(content.as_bytes(), &applied.changes);
        assert_eq!((diff.text.as_str(), diff.lines_changed), (expect, lines_changed), "{content:?}");
        assert!(!diff.truncated);
    };
    check("a\nb\nc\n", "b", "x", 1, "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    check("a\nb\n", "b\n", "", 1, "@@ -1,2 +1,1 @@\n a\n-b\n");
    check("a\n", "a\n", "", 1, "@@ -1,1 +0,0 @@\n-a\n");
    check(
        "a",
        "a",
        "a\nb",
        2,
        "@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n",
    );
    check(
        "1\n2\n3\n4\n5\n6\n7\n8\n",
        "5",
        "x\ny",
        2,
        "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+x\n+y\n 6\n 7\n 8\n",
    );
    check(
        "k\n1\n2\n3\n4\n5\n6\nk\n",
        "k",
        "m",
        2,
        "@@ -1,8 +1,8 @@\n-k\n+m\n 1\n 2\n 3\n 4\n 5\n 6\n-k\n+m\n",
    );
    check(
        "k\n1\n2\n3\n4\n5\n6\n7\nk\n",
        "k",
        "m\nn",
        4,
        "@@ -1,4 +1,5 @@\n-k\n+m\n+n\n 1\n 2\n 3\n@@ -6,4 +7,5 @@\n 5\n 6\n 7\n-k\n+m\n+n\n",
    );
    check("a\nb\nc\nd\n", "a\nb\nc\nd", "a\nB\nc\nd", 1, "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n d\n");
}

#[test]
fn a_long_diff_is_cut() {
    let content = "a\n".repeat(100_000);
    let all = Edit { replace_all: true, ..edit("a", "b") };
    let applied = apply(content.as_bytes(), all).unwrap();
    let diff = diff(content.as_bytes(), &applied.changes);
    assert_eq!((diff.truncated, diff.lines_changed), (true, 100_000));
    assert!(diff.text.len() <= DIFF_BYTES && diff.text.ends_with('\n'));
}

/// What `patch` would do.
fn patched(content: &str, diff: &str) -> String {
    let old: Vec<&str> = content.split_inclusive('\n').collect();
    let mut lines: Vec<String> = Vec::new();
    let mut at = 0;
    let mut is_new = false;
    for line in diff.split_inclusive('\n') {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (from, rest) = header.split_once(" +").unwrap();
            let numbers = |text: &str| {
                let (start, count) = text.split_once(',').unwrap();
                let (start, count): (usize, usize) = (start.parse().unwrap(), count.parse().unwrap());
                if count == 0 { start } else { start - 1 }
            };
            let start = numbers(from);
            lines.extend(old[at..start].iter().map(|line| (*line).to_owned()));
            at = start;
            assert_eq!(numbers(rest.split(' ').next().unwrap()), lines.len(), "new line of {line:?}");
        } else if line.starts_with('\\') {
            if is_new {
                lines.last_mut().unwrap().pop();
            }
        } else {
            let (sign, text) = line.split_at(1);
            is_new = sign != "-";
            if sign != "+" {
                assert_eq!(old[at].trim_end_matches('\n'), text.trim_end_matches('\n'));
                at += 1;
            }
            if is_new {
                lines.push(text.to_owned());
            }
        }
    }
    lines.extend(old[at..].iter().map(|line| (*line).to_owned()));
    lines.concat()
}

proptest! {
    #[test]
    fn is_a_plain_replacement_where_line_ends_are_plain(
        content in "[ab\n ]{0,60}", old in "[ab\n]{1,4}", new in "[abc\n]{0,6}", replace_all: bool,
    ) {
        prop_assume!(old != new);
        let outcome = applied(&content, Edit { replace_all, ..edit(&old, &new) });
        let places = (0..content.len()).filter(|at| content[*at..].starts_with(&old)).count();
        match outcome {
            Ok(seen) if replace_all => prop_assert_eq!(seen, content.replace(&old, &new)),
            Ok(seen) => {
                prop_assert_eq!(places, 1);
                prop_assert_eq!(seen, content.replacen(&old, &new, 1));
            }
            Err(Refusal::NoMatch { .. }) => prop_assert_eq!(places, 0),
            Err(Refusal::MultipleMatches { lines }) => {
                prop_assert!(places > 1 && !replace_all);
                prop_assert!(lines.is_sorted());
            }
        }
    }

    /// A file with `\r\n` and a mark is edited as the one without, and keeps both.
    #[test]
    fn crlf_and_bom_make_no_difference(
        content in "[ab\n ]{0,60}", old in "[ab\n]{1,4}", new in "[abc\n]{0,6}", bom: bool, replace_all: bool,
    ) {
        prop_assume!(old != new && content.contains('\n'));
        let edit = Edit { replace_all, ..edit(&old, &new) };
        let dress = |text: String| {
            format!("{}{}", if bom { "\u{feff}" } else { "" }, text.replace('\n', "\r\n"))
        };
        let expected = applied(&content, edit).map(dress);
        prop_assert_eq!(applied(&dress(content), edit).ok(), expected.ok());
    }

    #[test]
    fn the_diff_leads_from_the_old_to_the_new(
        content in "([abk]?\r?\n){0,40}[ab]{0,2}", old in "[abk\n]{1,3}", new in "[abc\n]{0,9}",
    ) {
        prop_assume!(old != new);
        if let Ok(applied) = apply(content.as_bytes(), Edit { replace_all: true, ..edit(&old, &new) }) {
            let new = String::from_utf8(new_content(content.as_bytes(), &applied)).unwrap();
            let diff = diff(content.as_bytes(), &applied.changes);
            prop_assert_eq!(patched(&content, &diff.text), new);
        }
    }

    /// Wherever the boundaries between blocks are, the edit and the diff are those of the
    /// whole, and the edit is what a plain replacement does where line ends do not count.
    #[test]
    fn boundaries_make_no_difference(
        content in "\u{feff}?([abk ]{0,3}\r{0,2}\n?){0,20}", old in "[abk\n]{1,4}|[ab]\r\n[ab]?",
        new in "[abc\n]{0,6}|x\r\ny", replace_all: bool, fuzzy: bool, first in 0..6usize, size in 1..9usize,
    ) {
        prop_assume!(old != new);
        let edit = Edit { old: &old, new: &new, replace_all, fuzzy };
        let whole = apply(content.as_bytes(), edit);
        let mut chopped = Chopped { bytes: content.as_bytes(), first, size };
        prop_assert_eq!(&apply_to(&mut chopped, edit), &whole);
        let Ok(applied) = whole else { return Ok(()) };
        prop_assert_eq!(diff_of(&mut chopped, &applied.changes), diff(content.as_bytes(), &applied.changes));
        if applied.rule == Rule::Exact && replace_all {
            let unified = |text: &str| text.replace("\r\n", "\n");
            let seen = String::from_utf8(new_content(content.as_bytes(), &applied)).unwrap();
            if !content.contains("\r\r") && !unified(&content).contains('\r') {
                prop_assert_eq!(unified(&seen), unified(&content).replace(&unified(&old), &unified(&new)));
            }
        }
    }

    /// Lines that an edit does not name keep their ends; a line that had `\n` does not get `\r\n`.
    #[test]
    fn lines_one_for_one_keep_their_ends(ends in prop::collection::vec(any::<bool>(), 1..12), from in 0..12usize, count in 1..12usize) {
        let line = |number: usize, text: &str| {
            format!("{text}{number:02}{}", if ends[number] { "\r\n" } else { "\n" })
        };
        let from = from % ends.len();
        let named = from..(from + count).min(ends.len());
        let content: String = (0..ends.len()).map(|number| line(number, "old")).collect();
        let plain = |text: &str| named.clone().map(|number| line(number, text).replace('\r', "")).collect::<String>();
        let expect: String =
            (0..ends.len()).map(|number| line(number, if named.contains(&number) { "new" } else { "old" })).collect();
        let (old, new) = (plain("old"), plain("new"));
        prop_assert_eq!(applied(&content, edit(&old, &new)), Ok(expect.clone()));
        let (old, new) = (old.trim_end_matches('\n'), new.trim_end_matches('\n'));
        prop_assert_eq!(applied(&content, edit(old, new)), Ok(expect));
    }

    /// Lines are found by their bare text wherever stretches of the content end.
    #[test]
    fn stretches_make_no_difference(
        content in "([abk ]{0,3}\r?\n){0,20}", old in "([abk]{1,2} {0,2}\n){1,2}[ab]?", length in 32..80u64,
    ) {
        for rule in [Rule::TrailingBlanks, Rule::Indentation] {
            let edit = Edit { fuzzy: true, ..edit(&old, "new\nlines\n") };
            let find = |length| {
                let found = fuzzy::find_in_stretches(&mut content.as_bytes(), 0, edit, rule, length);
                match found {
                    Ok(found) => Ok(found),
                    Err(Stopped::Refused(refusal)) => Err(refusal),
                    Err(Stopped::Failed(error)) => panic!("{error}"),
                }
            };
            prop_assert_eq!(find(length), find(u64::MAX));
        }
    }

    #[test]
    fn nothing_panics(content in prop::collection::vec(any::<u8>(), 0..60), old in ".{1,5}", new in ".{0,5}") {
        for (replace_all, fuzzy) in [(true, true), (false, false), (false, true)] {
            if let Ok(applied) = apply(&content, Edit { old: &old, new: &new, replace_all, fuzzy }) {
                diff(&content, &applied.changes);
            }
        }
    }
}

/// An edit that waited for its turn until nobody waited for it changes nothing.
#[tokio::test]
async fn an_edit_that_was_given_up_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "old").unwrap();
    let request =
        v1::EditRequest { old_string: "old".to_owned(), new_string: "new".to_owned(), ..Default::default() };
    let turn = Turn::of_path(&path).await.unwrap();
    let attempt =
        |given_up| replace(&path, path.clone(), &request, &turn, Arc::new(AtomicBool::new(given_up)));
    let error = attempt(true).unwrap_err();
    assert!(matches!(error, CallError::File { errno: Errno::CANCELED, .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    attempt(false).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
}
