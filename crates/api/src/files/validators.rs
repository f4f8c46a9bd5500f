//! What a client recognises a version of a file by.

use axum::http::header::{HeaderName, IF_NONE_MATCH, IF_RANGE};
use axum::http::{HeaderMap, HeaderValue};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

/// A date in a header.
const HTTP_DATE: StaticFormatDescription =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// One version of a file.
pub(super) struct Version {
    pub(super) etag: String,
    pub(super) last_modified: String,
}

impl Version {
    /// From what the sandbox says of the file. Whoever controls the sandbox controls this.
    pub(super) fn new(size: u64, modified_unix_ms: i64) -> Self {
        let modified = OffsetDateTime::from_unix_timestamp(modified_unix_ms.div_euclid(1000))
            .ok()
            .filter(|date| (1..=9999).contains(&date.year()))
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self {
            etag: format!("\"{modified_unix_ms:x}-{size:x}\""),
            last_modified: modified.format(&HTTP_DATE).unwrap_or_default(),
        }
    }

    /// Whether the client has this version already.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|list| {
            list.split(',')
                .map(str::trim)
                .any(|etag| etag == "*" || etag.strip_prefix("W/").unwrap_or(etag) == self.etag)
        })
    }

    /// Whether a part of this version is what the client wants.
    pub(super) fn may_be_continued(&self, headers: &HeaderMap) -> bool {
        headers
            .get(IF_RANGE)
            .is_none_or(|value| value == self.etag.as_str() || value == self.last_modified.as_str())
    }

    pub(super) fn headers(&self) -> [(HeaderName, HeaderValue); 2] {
        let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        [
            (axum::http::header::ETAG, value(&self.etag)),
            (axum::http::header::LAST_MODIFIED, value(&self.last_modified)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn versions() {
        let version = Version::new(255, 784_111_777_123);
        assert_eq!(
            version.etag,
            "\"b690a32523-ff\"".to_owned().replace("b690a32523", &format!("{:x}", 784_111_777_123_i64))
        );
        assert_eq!(version.last_modified, "Sun, 06 Nov 1994 08:49:37 GMT");
        for odd in [i64::MIN, i64::MAX, -1] {
            assert!(!Version::new(0, odd).last_modified.is_empty());
        }
    }

    #[test]
    fn conditions() {
        let version = Version::new(1, 1000);
        let etag = version.etag.clone();
        for known in [etag.clone(), format!("\"x\", W/{etag}"), "*".to_owned()] {
            assert!(version.is_known(&headers(IF_NONE_MATCH, &known)), "{known}");
        }
        assert!(!version.is_known(&headers(IF_NONE_MATCH, "\"x\"")));
        assert!(!version.is_known(&HeaderMap::new()));
        assert!(version.may_be_continued(&HeaderMap::new()));
        assert!(version.may_be_continued(&headers(IF_RANGE, &etag)));
        assert!(version.may_be_continued(&headers(IF_RANGE, "Thu, 01 Jan 1970 00:00:01 GMT")));
        assert!(!version.may_be_continued(&headers(IF_RANGE, "\"x\"")));
    }
}
