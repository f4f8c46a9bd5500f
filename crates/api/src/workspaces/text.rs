//! Text that ends up in a system call inside the sandbox.

use emergent_protocol::MAX_PATTERN_BYTES;

use crate::audit::Summary;
use crate::errors::ApiError;

/// The longest path Linux takes.
const MAX_PATH_BYTES: usize = 4096;

/// The longest name of an account.
const MAX_USER_BYTES: usize = 256;

/// The most that one search answers with.
const MAX_FOUND: u32 = 10_000;

/// A field that must be there.
pub(crate) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::invalid(field, "is missing"))
}

/// Text that is not empty, not too long, and has no NUL in it.
pub(crate) fn checked(field: &'static str, text: String, max_bytes: usize) -> Result<String, ApiError> {
    if text.is_empty() {
        return Err(ApiError::invalid(field, "must not be empty"));
    }
    if text.len() > max_bytes {
        return Err(ApiError::invalid(
            field,
            format!("may have {max_bytes} bytes at most, not {}", text.len()),
        ));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid(field, "must not contain a NUL character"));
    }
    Ok(text)
}

/// A path inside the sandbox. What it names is the sandbox's own business.
pub(crate) fn path(field: &'static str, text: String) -> Result<String, ApiError> {
    checked(field, text, MAX_PATH_BYTES)
}

/// An account inside the sandbox.
pub(crate) fn user(field: &'static str, text: String) -> Result<String, ApiError> {
    checked(field, text, MAX_USER_BYTES)
}

/// What paths or lines look like.
pub(crate) fn pattern(field: &'static str, text: String) -> Result<String, ApiError> {
    checked(field, text, MAX_PATTERN_BYTES)
}

/// What is written down of a search.
pub(crate) fn search_summary(pattern: &str, path: Option<&str>) -> Summary {
    Summary::default().text("pattern", pattern).maybe("path", path)
}

/// How much a search may find.
pub(crate) fn search_limit(limit: Option<u32>) -> Result<Option<u32>, ApiError> {
    match limit {
        Some(limit) if !(1..=MAX_FOUND).contains(&limit) => {
            Err(ApiError::invalid("limit", format!("must be between 1 and {MAX_FOUND}, not {limit}")))
        }
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert!(checked("x", "a".to_owned(), 1).is_ok());
        for (text, max) in [("", 5), ("ab", 1), ("a\0b", 5)] {
            assert_eq!(checked("x", text.to_owned(), max).unwrap_err().field(), Some("x"), "{text:?}");
        }
        assert!(required::<u8>("x", None).is_err());
    }
}
