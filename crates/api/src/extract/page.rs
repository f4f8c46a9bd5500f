//! Pages of lists.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use emergent_store::Page;

use crate::errors::ApiError;

/// The page where a request names no size.
const DEFAULT_LIMIT: u32 = 50;

/// The largest page.
const MAX_LIMIT: u32 = 500;

/// How many items a page has at most.
pub(crate) fn limit(asked: Option<u32>) -> Result<NonZeroU32, ApiError> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    NonZeroU32::new(limit)
        .filter(|limit| limit.get() <= MAX_LIMIT)
        .ok_or_else(|| ApiError::invalid("limit", format!("must be between 1 and {MAX_LIMIT}, not {limit}")))
}

/// Where a page begins.
pub(crate) fn cursor<T: FromStr>(text: Option<&str>) -> Result<Option<T>, ApiError> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            ApiError::invalid("cursor", "not a cursor: expected the next_cursor of an earlier page")
        })
    };
    text.map(parse).transpose()
}

/// A page as clients see it: its items, and what asks for the next one.
pub(crate) fn shown<Row, Next: Display, Item: From<Row>>(
    page: Page<Row, Next>,
) -> (Vec<Item>, Option<String>) {
    let next_cursor = page.next.map(|cursor| cursor.to_string());
    (page.items.into_iter().map(Item::from).collect(), next_cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let check = |asked: Option<u32>, expect: Option<u32>| {
            assert_eq!(limit(asked).ok().map(NonZeroU32::get), expect, "{asked:?}");
        };
        check(None, Some(50));
        check(Some(1), Some(1));
        check(Some(500), Some(500));
        check(Some(0), None);
        check(Some(501), None);
    }
}
