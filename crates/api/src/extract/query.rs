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
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| super::invalid(error, "query"))
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
    }
}
