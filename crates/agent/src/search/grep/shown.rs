//! Lines as they are shown: without their ends, cut when long, and valid text.

use std::ops::Range;

/// Stands for the rest of what was cut, and for what comes before it.
const CUT_MARK: &str = " … [line cut]";
const CUT_BEFORE_MARK: &str = "[line cut] … ";

/// Of the characters that are shown this part comes before the match.
const LEAD: usize = 4;

/// The beginning of a line.
pub(super) fn shown(line: &[u8], most: usize) -> String {
    let (text, is_cut) = beginning(without_end(line), most);
    if is_cut { text + CUT_MARK } else { text }
}

/// So much of a line that the match in it is seen: its beginning, if the match is there.
pub(super) fn shown_around(line: &[u8], found: Range<usize>, most: usize) -> String {
    let line = without_end(line);
    let end_of_beginning = forward(line, most);
    let start = back(line, found.start.min(line.len()), most / LEAD);
    if found.end <= end_of_beginning || start == 0 {
        return shown(line, most);
    }
    let (text, is_cut) = beginning(line.get(start..).unwrap_or_default(), most);
    format!("{CUT_BEFORE_MARK}{text}{}", if is_cut { CUT_MARK } else { "" })
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// So many characters, and whether there are more.
fn beginning(line: &[u8], most: usize) -> (String, bool) {
    // Enough for so many characters and one more, which tells that there is more.
    let head = line.get(..(most + 1) * 4).unwrap_or(line);
    let text = String::from_utf8_lossy(head);
    match text.char_indices().nth(most) {
        Some((cut, _)) => (text.get(..cut).unwrap_or_default().to_owned(), true),
        None => (text.into_owned(), false),
    }
}

/// Where characters begin; what is none counts as one where it is replaced.
fn starts(text: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    text.utf8_chunks().flat_map(move |chunk| {
        let start = at;
        at += chunk.valid().len() + chunk.invalid().len();
        let replaced = (!chunk.invalid().is_empty()).then_some(start + chunk.valid().len());
        chunk.valid().char_indices().map(move |(within, _)| start + within).chain(replaced)
    })
}

/// Where so many characters before a place begin.
fn back(line: &[u8], at: usize, characters: usize) -> usize {
    let mut from = at.saturating_sub(4 * characters);
    // Not within a character.
    from += line
        .get(from..at)
        .unwrap_or_default()
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    let starts: Vec<usize> = starts(line.get(from..at).unwrap_or_default()).collect();
    from + starts.get(starts.len().saturating_sub(characters)).copied().unwrap_or(0)
}

/// Where the first so many characters end.
fn forward(line: &[u8], characters: usize) -> usize {
    starts(line.get(..(characters + 1) * 4).unwrap_or(line)).nth(characters).unwrap_or(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut() {
        let check = |line: &[u8], expect: &str| assert_eq!(shown(line, 4), expect);
        check(b"abcd\n", "abcd");
        check(b"abcd\r\n", "abcd");
        check(b"abcde", "abcd … [line cut]");
        check("äöüßé".as_bytes(), "äöüß … [line cut]");
        check(b"\xff\n", "\u{fffd}");
    }

    #[test]
    fn the_match_is_seen() {
        let check = |line: &str, needle: &str, expect: &str| {
            let start = line.find(needle).unwrap();
            assert_eq!(shown_around(line.as_bytes(), start..start + needle.len(), 8), expect, "{line}");
        };
        check("0123456789", "67", "01234567 … [line cut]");
        check("0123456789", "78", "[line cut] … 56789");
        check("0123456789abcdef\r\n", "78", "[line cut] … 56789abc … [line cut]");
        check("äöüäöüäöüäöü-äöü", "-", "[line cut] … öü-äöü");
        // One that is longer than what is shown is shown from its beginning.
        check("0123456789abcdef", "123456789abc", "01234567 … [line cut]");
        check("0123456789abcdef", "456789abcdef", "[line cut] … 23456789 … [line cut]");
        // What is no text counts as it is shown.
        let odd = [b"\x80".repeat(20), b"needle".to_vec(), b"\x80".repeat(20)].concat();
        assert!(shown_around(&odd, 20..26, 8).contains("needle"), "{}", shown_around(&odd, 20..26, 8));
    }
}
