//! What a host wants to be shown. It is known in the control plane and nowhere else.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use emergent_store::{SecretText, Store};
use http::HeaderValue;

use crate::hosts::Standing;
use crate::refusal::Refusal;
use crate::url::RepositoryUrl;

/// What git does with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A name and a token.
pub(crate) struct Credential {
    username: String,
    token: SecretText,
}

impl Credential {
    /// As a header, which is never printed.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let plain = format!("{}:{}", self.username, self.token.expose());
        let mut header = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(plain))).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

/// Where credentials come from.
pub(crate) struct Credentials {
    store: Arc<dyn Store>,
}

impl Credentials {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// What to show for this repository; `None` where nothing is known, and it may be public.
    pub(crate) async fn find(
        &self,
        url: &RepositoryUrl,
        _standing: Standing,
        _access: Access,
    ) -> Result<Option<Credential>, Refusal> {
        let kept = self.store.git_credential(&url.origin().to_string()).await;
        let kept = kept.map_err(|error| {
            tracing::warn!(%error, "the token of {} cannot be read: {error}", url.origin());
            match error.is_retryable() {
                true => Refusal::NoTokenNow,
                false => Refusal::NoToken { reason: "what is stored of it cannot be read".to_owned() },
            }
        })?;
        Ok(kept.map(|kept| Credential { username: kept.username, token: kept.token }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_header_that_does_not_show() {
        let credential =
            Credential { username: "git".to_owned(), token: SecretText::from("t0ken".to_owned()) };
        let header = credential.header().unwrap();
        assert_eq!(header, "Basic Z2l0OnQwa2Vu");
        assert_eq!(format!("{header:?}"), "Sensitive");
    }
}
