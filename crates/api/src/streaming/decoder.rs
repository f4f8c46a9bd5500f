//! Bytes that come in pieces, as text.

/// The longest beginning of a character whose rest is still to come.
const MAX_BEGUN: usize = 3;

/// Turns bytes that come in pieces into text. What is not UTF-8 is replaced; a character that
/// lies across two pieces is not.
#[derive(Default)]
pub(crate) struct TextDecoder {
    begun: Vec<u8>,
}

impl TextDecoder {
    /// The text of the next bytes, as far as it is whole. May be empty.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> String {
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        let keep = begun(&whole);
        self.begun = whole.split_off(whole.len() - keep);
        match String::from_utf8(whole) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// What is left when there is no more to come. May be empty.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }

    /// How many of the bytes that were given are not in a text yet.
    pub(crate) fn held(&self) -> usize {
        self.begun.len()
    }
}

/// How many bytes at the end are the beginning of a character.
fn begun(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(MAX_BEGUN)..];
    (1..=tail.len())
        .rev()
        .find(|length| {
            let end = &tail[tail.len() - length..];
            matches!(std::str::from_utf8(end), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], expect: &[&str]) {
        let mut decoder = TextDecoder::default();
        let mut texts: Vec<String> = pieces.iter().map(|piece| decoder.decode(piece)).collect();
        texts.push(decoder.finish());
        assert_eq!(texts, expect, "{pieces:?}");
    }

    #[test]
    fn characters_across_pieces_stay_whole() {
        check(&[b"abc"], &["abc", ""]);
        check(&[b"a\xc3", b"\xa4b"], &["a", "äb", ""]);
        check(&[b"\xf0", b"\x9f", b"\x98", b"\x80"], &["", "", "", "😀", ""]);
        check(&["ä".as_bytes(), "😀".as_bytes()], &["ä", "😀", ""]);
    }

    #[test]
    fn what_is_not_text_is_replaced() {
        check(&[b"a\xff", b"b"], &["a\u{fffd}", "b", ""]);
        check(&[b"a\xc3", b"b"], &["a", "\u{fffd}b", ""]);
        check(&[b"a\xf0\x9f"], &["a", "\u{fffd}"]);
        check(&[b"\x80\x80\x80\x80"], &["\u{fffd}\u{fffd}\u{fffd}\u{fffd}", ""]);
        check(&[b"\xc3\xc3"], &["\u{fffd}", "\u{fffd}"]);
    }

    #[test]
    fn any_cut_of_any_text_gives_the_same() {
        let text = "aä€😀\u{fffd}z".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let mut decoder = TextDecoder::default();
                let mut whole = decoder.decode(&text[..first]);
                whole += &decoder.decode(&text[first..second]);
                whole += &decoder.decode(&text[second..]);
                assert_eq!(whole.as_bytes(), text);
                assert_eq!(decoder.held(), 0);
            }
        }
    }
}
