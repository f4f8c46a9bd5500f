//! The token in a request's head.

use axum::http::{HeaderMap, HeaderName, header};

use super::BearerToken;

/// Where the E2B SDKs send their token.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The longest token that is looked at.
const MAX_BYTES: usize = 512;

/// The one token of a request: `Authorization: Bearer …`, or `X-API-Key` with an E2B token. Two
/// that differ are none: which of them counts must not be a matter of taste.
pub(crate) fn token(headers: &HeaderMap) -> Option<BearerToken> {
    let bearer = headers.contains_key(header::AUTHORIZATION).then(|| bearer(headers));
    let key = headers.contains_key(API_KEY).then(|| api_key(headers));
    match (bearer, key) {
        (Some(one), None) | (None, Some(one)) => one,
        (Some(Some(one)), Some(Some(other))) if one.expose() == other.expose() => Some(one),
        _ => None,
    }
}

fn bearer(headers: &HeaderMap) -> Option<BearerToken> {
    let (scheme, token) = single(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token).and_then(bounded)
}

fn api_key(headers: &HeaderMap) -> Option<BearerToken> {
    single(headers, API_KEY).filter(|text| text.trim().starts_with(BearerToken::E2B_PREFIX)).and_then(bounded)
}

fn bounded(text: &str) -> Option<BearerToken> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_BYTES).then(|| BearerToken::from(text.to_owned()))
}

/// A header that is there exactly once and is text.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sent: &[(&'static str, &str)], expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, value.parse().unwrap());
        }
        let found = token(&headers);
        assert_eq!(found.as_ref().map(BearerToken::expose), expect, "{sent:?}");
    }

    #[test]
    fn one_bearer_token() {
        check(&[("authorization", "Bearer abc")], Some("abc"));
        check(&[("authorization", "bearer  abc ")], Some("abc"));
        check(&[], None);
        for value in ["", "Bearer", "Bearer ", "abc", "Basic YTpi"] {
            check(&[("authorization", value)], None);
        }
        check(&[("authorization", "Bearer abc"), ("authorization", "Bearer abc")], None);
        check(&[("authorization", &format!("Bearer {}", "x".repeat(MAX_BYTES + 1)))], None);
    }

    #[test]
    fn a_key_of_an_e2b_sdk() {
        check(&[("x-api-key", "e2b_abc")], Some("e2b_abc"));
        check(&[("x-api-key", "emergent_abc")], None);
        check(&[("x-api-key", "e2b_abc"), ("x-api-key", "e2b_abc")], None);
        check(&[("x-api-key", "e2b_abc"), ("authorization", "Bearer e2b_abc")], Some("e2b_abc"));
        check(&[("x-api-key", "e2b_abc"), ("authorization", "Bearer other")], None);
        check(&[("x-api-key", "e2b_abc"), ("authorization", "Basic YTpi")], None);
    }
}
