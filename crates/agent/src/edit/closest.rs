//! The lines of a file that are most like a text that is not in it.

use std::time::{Duration, Instant};

use crate::error::CallError;

use super::content::Content;

/// How many are offered.
const OFFERED: usize = 3;

/// How long lines are looked at: some hundred megabytes. Whoever waits wants to know soon that
/// nothing was changed.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of a line is looked at, and shown.
const LINE_BYTES: usize = 400;

/// How much of a line is kept: what is looked at begins after the blanks.
const KEPT_BYTES: usize = 2 * LINE_BYTES;

/// Of a hundred; less alike is not worth showing.
const LEAST_LIKENESS: usize = 45;

/// The lines that are most like a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closest {
    /// The best first, with their 1-based numbers.
    pub lines: Vec<(u64, String)>,
    /// How many lines were looked at, where not all were: it would have taken too long.
    pub only_first: Option<u64>,
}

/// The lines most like the first line of `wanted` that is not blank. The text begins at `from`.
pub(super) fn lines<C: Content>(content: &mut C, from: u64, wanted: &str) -> Result<Closest, CallError> {
    lines_within(content, from, wanted, Instant::now() + PATIENCE)
}

fn lines_within<C: Content>(
    content: &mut C,
    from: u64,
    wanted: &str,
    deadline: Instant,
) -> Result<Closest, CallError> {
    let Some(wanted) = wanted.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return Ok(Closest::default());
    };
    let mut best = Best { wanted: Pairs::of(looked_at(wanted.as_bytes())), number: 0, lines: Vec::new() };
    let end = content.length();
    let mut at = from;
    // Of a line that goes on in the next block.
    let mut begun = Vec::new();
    while at < end {
        if Instant::now() > deadline {
            return Ok(Closest { only_first: Some(best.number), lines: best.shown() });
        }
        let piece = content.piece(at..end)?;
        at += piece.len() as u64;
        let mut rest = piece;
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(newline);
            if begun.is_empty() {
                best.look_at(line);
            } else {
                keep(&mut begun, line);
                best.look_at(&begun);
                begun.clear();
            }
            rest = after.get(1..).unwrap_or_default();
        }
        keep(&mut begun, rest);
    }
    best.look_at(&begun);
    Ok(Closest { lines: best.shown(), only_first: None })
}

/// Adds to the beginning of a line.
fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = KEPT_BYTES - line.len();
    line.extend_from_slice(more.get(..room).unwrap_or(more));
}

/// The best lines so far.
struct Best {
    wanted: Pairs,
    /// How many were looked at.
    number: u64,
    lines: Vec<(usize, u64, Vec<u8>)>,
}

impl Best {
    fn look_at(&mut self, line: &[u8]) {
        self.number += 1;
        let line = line.get(..KEPT_BYTES).unwrap_or(line);
        let likeness = self.wanted.likeness(looked_at(line));
        if likeness < LEAST_LIKENESS {
            return;
        }
        let place = self.lines.partition_point(|(known, _, _)| *known >= likeness);
        if place < OFFERED {
            self.lines.insert(place, (likeness, self.number, line.to_vec()));
            self.lines.truncate(OFFERED);
        }
    }

    fn shown(self) -> Vec<(u64, String)> {
        let shown = |line: &[u8]| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            String::from_utf8_lossy(line.get(..LINE_BYTES).unwrap_or(line)).into_owned()
        };
        self.lines.into_iter().map(|(_, number, line)| (number, shown(&line))).collect()
    }
}

/// Without the blanks around it, and not all of a long one.
fn looked_at(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    line.get(..LINE_BYTES).unwrap_or(line)
}

/// How often each pair of neighbouring bytes occurs, roughly: pairs share places.
struct Pairs {
    counts: [u16; 256],
    total: usize,
    only: Option<u8>,
}

impl Pairs {
    fn of(line: &[u8]) -> Self {
        let mut counts = [0u16; 256];
        for pair in line.windows(2) {
            counts[place(pair)] += 1;
        }
        let only = if let [byte] = line { Some(*byte) } else { None };
        Self { counts, total: line.len().saturating_sub(1), only }
    }

    /// In hundredths: twice the common pairs over all pairs.
    fn likeness(&self, line: &[u8]) -> usize {
        if let Some(only) = self.only {
            return if line == [only] { 100 } else { 0 };
        }
        let pairs = line.len().saturating_sub(1);
        // Too different in length to be alike.
        if 200 * self.total.min(pairs) < LEAST_LIKENESS * (self.total + pairs) || pairs == 0 {
            return 0;
        }
        let mut left = self.counts;
        let mut common = 0;
        for pair in line.windows(2) {
            let count = &mut left[place(pair)];
            if *count > 0 {
                *count -= 1;
                common += 1;
            }
        }
        200 * common / (self.total + pairs)
    }
}

fn place(pair: &[u8]) -> usize {
    let pair = u32::from(pair[0]) << 8 | u32::from(pair[1]);
    (pair.wrapping_mul(0x9e37_79b1) >> 24) as usize
}

#[cfg(test)]
mod tests {
    use super::super::tests::Chopped;
    use super::*;

    #[test]
    fn the_closest_come_first() {
        let text =
            b"fn main() {\n    let total = count(1);\n    let totals = counts(1);\n\tprint(total);\n}\n";
        let check = |wanted: &str, expect: &[u64]| {
            for (first, size) in [(1000, 1000), (0, 1), (5, 7)] {
                let closest = lines(&mut Chopped { bytes: text, first, size }, 0, wanted).unwrap();
                let numbers: Vec<_> = closest.lines.into_iter().map(|(number, _)| number).collect();
                assert_eq!((numbers.as_slice(), closest.only_first), (expect, None), "{wanted:?}");
            }
        };
        check("let total = count(2);", &[2, 3]);
        check("\n\n  fn main () {\n  x", &[1]);
        check("print(totals)", &[4]);
        check("nothing of the kind", &[]);
        check("}", &[5]);
        check("  \n", &[]);
    }

    /// Also at the end of a file that is much larger than what is held of it.
    #[test]
    fn all_of_a_file_is_looked_at() {
        let mut text = "0123456789 something else\n".repeat(400_000).into_bytes();
        text.extend_from_slice(format!("{}\n\tlet total = 1;\r\n", "x".repeat(2_000_000)).as_bytes());
        let mut chopped = Chopped { bytes: &text, first: 0, size: 256 << 10 };
        let closest = lines(&mut chopped, 0, "let total = 2;").unwrap();
        assert_eq!(closest.lines, [(400_002, "\tlet total = 1;".to_owned())]);
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let past = Instant::now().checked_sub(Duration::from_secs(1)).expect("the machine has been up");
        let closest = lines_within(&mut b"let total = 1;\n".as_slice(), 0, "let total = 2;", past).unwrap();
        assert_eq!(closest, Closest { lines: Vec::new(), only_first: Some(0) });
    }
}
