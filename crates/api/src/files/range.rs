//! Parts of a file, as a client asks for them.

/// A part of a file of a known size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    /// At least 1.
    pub(super) length: u64,
}

impl Part {
    /// The header `Content-Range`.
    pub(super) fn describe(self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.offset, self.offset + (self.length - 1))
    }
}

/// What the header `Range` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Everything. Also where it asks for several parts, or makes no sense: a server may ignore
    /// it.
    Whole,
    /// One part.
    Part(Part),
    /// A part that is not there.
    Beyond,
}

/// What `Range: text` means for a file of this size.
pub(super) fn asked(text: &str, size: u64) -> Asked {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::Whole;
    };
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (offset, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Some(first), None) if last.is_empty() => (first, size),
        (None, Some(count)) if first.is_empty() => (size.saturating_sub(count), size),
        _ => return Asked::Whole,
    };
    match end.checked_sub(offset) {
        Some(length @ 1..) => Asked::Part(Part { offset, length }),
        _ => Asked::Beyond,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let part = |offset, length| Asked::Part(Part { offset, length });
        for (text, expect) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-99", part(0, 10)),
            ("bytes=3-5", part(3, 3)),
            ("bytes=9-", part(9, 1)),
            ("bytes=-4", part(6, 4)),
            ("bytes=-400", part(0, 10)),
            ("bytes=0-18446744073709551615", part(0, 10)),
            ("bytes=0-99999999999999999999999", part(0, 10)),
            ("bytes=10-", Asked::Beyond),
            ("bytes=10-20", Asked::Beyond),
            ("bytes=99999999999999999999999-", Asked::Beyond),
            ("bytes=-0", Asked::Beyond),
            ("bytes=5-3", Asked::Whole),
            ("bytes=0-1,3-4", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=", Asked::Whole),
            ("bytes=a-b", Asked::Whole),
            ("bytes=+1-2", Asked::Whole),
            ("lines=1-2", Asked::Whole),
            ("", Asked::Whole),
        ] {
            assert_eq!(asked(text, 10), expect, "{text:?}");
        }
        assert_eq!(asked("bytes=0-", 0), Asked::Beyond);
        assert_eq!(Part { offset: 3, length: 3 }.describe(10), "bytes 3-5/10");
    }
}
