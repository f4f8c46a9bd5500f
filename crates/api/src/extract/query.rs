//! The query of a request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::errors::ApiError;

/// The query, whole: a parameter that means nothing here is an error.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        from_query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

pub(crate) fn from_query<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    // What is not text would be changed into other text, and that names another file.
    if let Some(part) = query.split('&').find(|part| !is_text(part)) {
        let name = part.split('=').next().filter(|name| is_text(name)).unwrap_or("query");
        return Err(ApiError::invalid(name, "is not UTF-8"));
    }
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| super::invalid(error, "query"))
}

/// Whether it is UTF-8 once it is decoded.
fn is_text(encoded: &str) -> bool {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16);
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        _limit: Option<u32>,
        _wait: Option<bool>,
    }

    #[test]
    fn errors_name_the_parameter() {
        let check = |query: &str, expect: Option<&str>| {
            let error = from_query::<Sample>(query).err();
            assert_eq!(error.as_ref().and_then(ApiError::field), expect, "{query:?}: {error:?}");
        };
        check("", None);
        check("_limit=5&_wait=false", None);
        check("_limit=x", Some("_limit"));
        check("_limit=-1", Some("_limit"));
        check("_wait=maybe", Some("_wait"));
        check("_limit=1&_limit=2", Some("_limit"));
        check("other=1", Some("other"));
        check("_wait=%ff", Some("_wait"));
        check("%ff=1", Some("query"));
        check("_limit=%35", None);
        check("_limit=5%", Some("_limit"));
    }
}
