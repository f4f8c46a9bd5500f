//! Any edit of any content: what changes is what was asked for, and nothing else.

#![no_main]

use arbitrary::Arbitrary;
use emergent_agent::edit::{Edit, Rule, apply, diff};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    content: &'a [u8],
    old: &'a str,
    new: &'a str,
    replace_all: bool,
    fuzzy: bool,
}

fuzz_target!(|input: Input| {
    let Input { content, old, new, replace_all, fuzzy } = input;
    if old.is_empty() || old == new {
        return;
    }
    let Ok(applied) = apply(content, Edit { old, new, replace_all, fuzzy }) else { return };
    assert!(!applied.changes.is_empty());
    assert!(applied.changes.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
    let changed = applied.new_content(content);
    // Without line ends in the way, it is what the standard library does.
    let plain = !content.contains(&b'\r') && !old.contains('\r') && !new.contains('\r');
    if let (true, Rule::Exact, Ok(text)) = (plain, applied.rule, std::str::from_utf8(content)) {
        let expect = if replace_all { text.replace(old, new) } else { text.replacen(old, new, 1) };
        if !text.starts_with('\u{feff}') {
            assert_eq!(changed, expect.as_bytes());
        }
    }
    let _ = diff(content, &applied.changes);
});
