//! Where a text is, and what stands there instead. No file is touched.
//!
//! ```text
//!  exact ─┬─ bytes as they are ──────────────────────┐
//!         └─ where there are none: "\n" is also "\r\n" ┤ ┌─ unique, or replace_all ──► changes
//!  fuzzy (asked for, nothing exact): see fuzzy.rs ────┴─┴─ none, or several ────────► refusal
//! ```
//!
//! Places whose bytes are those of the text come first: beside them no other counts, unless
//! every place is meant.
//!
//! Changes are told one by one, so that memory does not grow with them.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::error::CallError;

use super::closest::Closest;
use super::content::Content;
use super::line_ends::{Dressing, ends_of, to_lf};
use super::window::{Look, Place, find, line_numbers};
use super::{closest, fuzzy};

/// Of so many places the lines are named.
const NAMED_LINES: usize = 100;

const BOM: &str = "\u{feff}";

/// What to replace by what.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// Not empty.
    pub old: &'a str,
    /// Not equal to the old.
    pub new: &'a str,
    /// Every place.
    pub replace_all: bool,
    /// Where nothing matches exactly, lines that differ in blanks match.
    pub fuzzy: bool,
}

/// How a text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// As it was given, but for line ends.
    Exact,
    /// Lines equal but for blanks at their ends.
    TrailingBlanks,
    /// Lines equal but for blanks at their ends and beginnings.
    Indentation,
}

/// One place of the content, and what stands there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Bytes of the old content.
    pub range: Range<u64>,
    /// What stands there instead.
    pub text: Arc<[u8]>,
}

/// Why nothing is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not there.
    NoMatch {
        /// The lines that are most like it.
        closest: Closest,
    },
    /// It is there more than once, on these 1-based lines (the first of them).
    MultipleMatches {
        /// The lines.
        lines: Vec<u64>,
    },
}

/// Why an edit did not come to its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The content is not such that it could be done.
    Refused(Refusal),
    /// The content could not be read, or what it becomes could not be written.
    Failed(CallError),
}

impl From<CallError> for Stopped {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Who is told of the changes, in order. They do not overlap, and there is at least one
/// before [`apply`] returns well.
pub(super) trait Changes<C> {
    fn change(&mut self, content: &mut C, change: Change) -> Result<(), CallError>;
}

/// Tells what the edit does to the content. When it is refused, no change was told.
pub(super) fn apply<C: Content>(
    content: &mut C,
    edit: Edit<'_>,
    changes: &mut impl Changes<C>,
) -> Result<Rule, Stopped> {
    // A byte order mark is no part of the text: whether it is in the strings or not, it stays.
    let start = content.length().min(BOM.len() as u64);
    let (from, edit) = if content.gather(0..start)? == BOM.as_bytes() {
        let bare = |text: &'_ str| text.len() - text.strip_prefix(BOM).unwrap_or(text).len();
        let (old, new) = (&edit.old[bare(edit.old)..], &edit.new[bare(edit.new)..]);
        (start, Edit { old, new, ..edit })
    } else {
        (0, edit)
    };
    if edit.old.is_empty() {
        return Err(Refusal::NoMatch { closest: Closest::default() }.into());
    }
    if exact(content, from, edit, changes)? {
        return Ok(Rule::Exact);
    }
    if edit.fuzzy {
        for rule in [Rule::TrailingBlanks, Rule::Indentation] {
            if let Some(change) = fuzzy::find(content, from, edit, rule)? {
                changes.change(content, change)?;
                return Ok(rule);
            }
        }
    }
    Err(Refusal::NoMatch { closest: closest::lines(content, from, edit.old)? }.into())
}

/// Tells the places where the old text stands; `false` when there is none.
fn exact<C: Content>(
    content: &mut C,
    from: u64,
    edit: Edit<'_>,
    changes: &mut impl Changes<C>,
) -> Result<bool, Stopped> {
    let old = to_lf(edit.old);
    let look = Look {
        needle: old.as_bytes(),
        from,
        unified: old.contains('\n'),
        // Also one that overlaps makes it ambiguous.
        overlapping: !edit.replace_all,
    };
    let own_ends = ends_of(edit.old);
    // Who changes nothing but line ends means them byte by byte.
    let is_verbatim = old == to_lf(edit.new);
    let mut dressing = if is_verbatim { Dressing::verbatim(edit.new) } else { Dressing::new(&old, edit.new) };
    if edit.replace_all {
        let mut any = false;
        find(content, look, |content, place| {
            if !is_verbatim || place.ends == own_ends {
                any = true;
                replace(content, place, &mut dressing, changes)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        return Ok(any);
    }
    let (mut as_given, mut tolerated) = (Candidates::default(), Candidates::default());
    find(content, look, |_, place| {
        if place.ends == own_ends {
            as_given.add(place);
        } else if !is_verbatim {
            tolerated.add(place);
        }
        let is_enough = as_given.starts.len() == NAMED_LINES;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let Candidates { starts, first } = if as_given.starts.is_empty() { tolerated } else { as_given };
    if starts.len() > 1 {
        return Err(Refusal::MultipleMatches { lines: line_numbers(content, &starts)? }.into());
    }
    let Some(place) = first else { return Ok(false) };
    replace(content, place, &mut dressing, changes)?;
    Ok(true)
}

/// Places of which there should be one.
#[derive(Default)]
struct Candidates {
    /// Where the first of them begin.
    starts: Vec<u64>,
    first: Option<Place>,
}

impl Candidates {
    fn add(&mut self, place: Place) {
        if self.starts.len() < NAMED_LINES {
            self.starts.push(place.range.start);
            self.first.get_or_insert(place);
        }
    }
}

fn replace<C: Content>(
    content: &mut C,
    place: Place,
    dressing: &mut Dressing<'_>,
    changes: &mut impl Changes<C>,
) -> Result<(), CallError> {
    let text = dressing.text(content, place.range.end, place.ends)?;
    changes.change(content, Change { range: place.range, text })
}
