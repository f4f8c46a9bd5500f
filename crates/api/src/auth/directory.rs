//! Recognises tokens. Every request asks, so what was found once is remembered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_store::{ApiToken, Store, StoreError, TokenHash, TokenId};
use tokio::sync::{Semaphore, watch};

use super::BearerToken;

/// How many tokens are remembered beyond those in use.
const REMEMBERED: usize = 1024;

/// How long what is remembered is used before the database is asked again, in case somebody
/// else has changed it there. What this server revokes ends at once.
const FRESH_FOR: Duration = Duration::from_secs(10);

/// How many tokens that are not remembered are looked up at once: guesses must not keep the
/// database from its work.
const LOOKUPS_AT_ONCE: usize = 8;

/// A token that exists, with the signal that ends what it is used for.
pub(crate) struct KnownToken {
    token: ApiToken,
    over: watch::Sender<bool>,
    checked_at: Mutex<Instant>,
}

impl KnownToken {
    fn new(token: ApiToken) -> Self {
        Self { token, over: watch::Sender::new(false), checked_at: Mutex::new(Instant::now()) }
    }

    /// The token, as it is kept.
    pub(crate) fn token(&self) -> &ApiToken {
        &self.token
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
            || self.token.revoked_at.is_some()
            || self.token.expires_at.is_some_and(|end| end <= emergent_store::now())
    }

    fn end(&self) {
        self.over.send_replace(true);
    }

    /// Whether it is time to ask the database again; the first who asks is told so.
    fn is_stale(&self) -> bool {
        let mut checked_at = self.checked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = checked_at.elapsed() >= FRESH_FOR;
        if stale {
            *checked_at = Instant::now();
        }
        stale
    }

    /// Returns when the token is revoked or its time is over.
    pub(crate) async fn ended(&self) {
        let mut over = self.over.subscribe();
        let revoked = async move {
            // The sender lives as long as `self`, so this only ends with the signal.
            let _ = over.wait_for(|over| *over).await;
        };
        match self.token.expires_at {
            None => revoked.await,
            Some(end) => {
                tokio::select! {
                    () = revoked => {}
                    () = until(end) => {}
                }
            }
        }
    }
}

/// Sleeps until a time of the clock on the wall, which may be set meanwhile.
async fn until(end: time::OffsetDateTime) {
    const LONGEST: Duration = Duration::from_secs(60);
    loop {
        let left = end - emergent_store::now();
        if left <= time::Duration::ZERO {
            return;
        }
        let left = Duration::try_from(left).unwrap_or(LONGEST);
        tokio::time::sleep(left.min(LONGEST) + Duration::from_millis(1)).await;
    }
}

/// Recognises tokens by their hash, so that how long it takes says nothing about a token.
///
/// Only tokens that exist are remembered: guesses cannot push them out. While the database
/// cannot be reached, what is remembered goes on working.
#[derive(Clone)]
pub(crate) struct TokenDirectory {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    remembered: Mutex<HashMap<TokenHash, Arc<KnownToken>>>,
    lookups: Semaphore,
    /// How often something was forgotten.
    forgotten: AtomicU64,
}

impl TokenDirectory {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                remembered: Mutex::default(),
                lookups: Semaphore::new(LOOKUPS_AT_ONCE),
                forgotten: AtomicU64::new(0),
            }),
        }
    }

    /// What is known of a token; `None` where there is none such, or its time is over.
    pub(crate) async fn find(&self, token: &BearerToken) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let hash = token.hash();
        let known = match self.recall(&hash) {
            Some(known) => {
                if known.is_stale() {
                    self.refresh(hash);
                }
                known
            }
            None => match self.look_up(&hash).await? {
                Some(known) => known,
                None => return Ok(None),
            },
        };
        Ok((!known.is_over()).then_some(known))
    }

    async fn look_up(&self, hash: &TokenHash) -> Result<Option<Arc<KnownToken>>, StoreError> {
        // Never closed.
        let _turn = self.inner.lookups.acquire().await;
        loop {
            let forgotten = self.inner.forgotten.load(Ordering::Acquire);
            let Some(found) = self.inner.store.find_token_by_hash(hash).await? else { return Ok(None) };
            // What was revoked between the answer and now must not be remembered.
            if let Some(known) = self.remember(found, forgotten) {
                return Ok(Some(known));
            }
        }
    }

    /// Ends a token here and now, with everything it is used for at this moment.
    pub(crate) fn forget(&self, id: TokenId) {
        let mut remembered = self.inner.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.forgotten.fetch_add(1, Ordering::AcqRel);
        remembered.retain(|_, known| {
            let keep = known.token.id != id;
            if !keep {
                known.end();
            }
            keep
        });
    }

    /// Asks the database in the background, so that no request waits for it.
    fn refresh(&self, hash: TokenHash) {
        let directory = self.clone();
        tokio::spawn(async move {
            let found = match directory.inner.store.find_token_by_hash(&hash).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%error, "a token could not be looked up again: {error}");
                    return;
                }
            };
            let Some(known) = directory.recall(&hash) else { return };
            if found.as_ref() != Some(&known.token) {
                known.end();
                directory.inner.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
            }
        });
    }

    fn recall(&self, hash: &TokenHash) -> Option<Arc<KnownToken>> {
        self.inner.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    /// `None` where something was forgotten since `forgotten` was read.
    fn remember(&self, token: ApiToken, forgotten: u64) -> Option<Arc<KnownToken>> {
        let mut remembered = self.inner.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.forgotten.load(Ordering::Acquire) != forgotten {
            return None;
        }
        if remembered.len() >= REMEMBERED {
            // Those in use must hear when they are revoked.
            remembered.retain(|_, known| Arc::strong_count(known) > 1);
        }
        // Of two who looked it up at once, both get the one that is remembered.
        let known = remembered.entry(token.hash).or_insert_with(|| Arc::new(KnownToken::new(token)));
        Some(Arc::clone(known))
    }
}
