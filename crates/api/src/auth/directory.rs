//! Recognises tokens. Every request asks, so what was found once is remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_store::{ApiToken, Store, StoreError, TokenHash};

use super::BearerToken;

/// How many tokens are remembered.
const REMEMBERED: usize = 1024;

/// Recognises tokens by their hash, so that how long it takes says nothing about a token.
///
/// A token never changes once it is written, so what is remembered stays true. Only tokens
/// that exist are remembered: guesses cannot push them out.
pub(crate) struct TokenDirectory {
    store: Arc<dyn Store>,
    remembered: Mutex<HashMap<TokenHash, ApiToken>>,
}

impl TokenDirectory {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, remembered: Mutex::new(HashMap::new()) }
    }

    /// What is known of a token; `None` where there is none such, or its time is over.
    pub(crate) async fn find(&self, token: &BearerToken) -> Result<Option<ApiToken>, StoreError> {
        let hash = token.hash();
        let found = match self.recall(&hash) {
            Some(found) => found,
            None => match self.store.find_token_by_hash(&hash).await? {
                Some(found) => self.remember(found),
                None => return Ok(None),
            },
        };
        let is_over = found.expires_at.is_some_and(|end| end <= emergent_store::now());
        Ok((!is_over).then_some(found))
    }

    fn recall(&self, hash: &TokenHash) -> Option<ApiToken> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn remember(&self, token: ApiToken) -> ApiToken {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(token.hash, token.clone());
        token
    }
}
