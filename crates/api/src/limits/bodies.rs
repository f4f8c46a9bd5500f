//! Memory for bodies, from their arrival to the end of the call they are for. Many at once must not
//! use it up, whether they arrive slowly or are dealt with slowly.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use emergent_store::{TokenId, TokenKind};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::too_many;
use crate::auth::Caller;
use crate::errors::ApiError;

/// Memory of all bodies together, in KiB: 12 of the largest.
static EVERYBODY: Semaphore = Semaphore::const_new(192 << 10);

/// The administrator's share.
static ADMINISTRATOR: Semaphore = Semaphore::const_new(64 << 10);

/// The most that the bodies of one token may take, in KiB: 4 of the largest.
const PER_TOKEN_KIB: usize = 64 << 10;

/// What the bodies of each token take, in KiB.
static TAKEN: LazyLock<Mutex<HashMap<TokenId, usize>>> = LazyLock::new(Mutex::default);

/// When a body may have been dealt with.
const RETRY_SECONDS: u32 = 1;

/// Memory that a body takes. Free again when dropped.
pub(crate) struct Memory {
    pool: &'static Semaphore,
    /// Whose share it is part of; administrators have a pool of their own.
    token: Option<TokenId>,
    taken: Option<SemaphorePermit<'static>>,
    bytes: usize,
}

impl Memory {
    pub(crate) fn for_caller(caller: Option<&Caller>) -> Self {
        match caller.map(|caller| (caller.kind(), caller.id())) {
            Some((TokenKind::Admin, _)) => Self::of(&ADMINISTRATOR, None),
            other => Self::of(&EVERYBODY, other.map(|(_, id)| id)),
        }
    }

    fn of(pool: &'static Semaphore, token: Option<TokenId>) -> Self {
        Self { pool, token, taken: None, bytes: 0 }
    }

    /// Takes so many bytes more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let more = kib(self.bytes + bytes) - kib(self.bytes);
        if more == 0 {
            self.bytes += bytes;
            return Ok(());
        }
        if let Some(token) = self.token
            && with_taken(|taken| taken.get(&token).copied().unwrap_or(0)) + more > PER_TOKEN_KIB
        {
            return Err(too_many(
                "bodies",
                "the server has as many bodies of this token as it takes",
                RETRY_SECONDS,
            ));
        }
        let permits = u32::try_from(more).unwrap_or(u32::MAX);
        let permit = self.pool.try_acquire_many(permits).map_err(|_| {
            too_many("bodies", "the server is taking in as many bodies as it can", RETRY_SECONDS)
        })?;
        match &mut self.taken {
            Some(taken) => taken.merge(permit),
            taken => *taken = Some(permit),
        }
        self.bytes += bytes;
        if let Some(token) = self.token {
            with_taken(|taken| *taken.entry(token).or_default() += more);
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let (Some(token), Some(_)) = (self.token, &self.taken) else { return };
        with_taken(|taken| {
            let left = taken.get(&token).copied().unwrap_or(0).saturating_sub(kib(self.bytes));
            if left == 0 {
                taken.remove(&token);
            } else {
                taken.insert(token, left);
            }
        });
    }
}

fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1 << 10)
}

fn with_taken<T>(change: impl FnOnce(&mut HashMap<TokenId, usize>) -> T) -> T {
    change(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let before = ADMINISTRATOR.available_permits();
        let mut memory = Memory::of(&ADMINISTRATOR, None);
        memory.grow(1).unwrap();
        memory.grow(1000).unwrap();
        assert_eq!(ADMINISTRATOR.available_permits(), before - 1);
        memory.grow(1 << 10).unwrap();
        assert_eq!(ADMINISTRATOR.available_permits(), before - 2);
        assert!(Memory::of(&ADMINISTRATOR, None).grow(1 << 30).is_err());
        drop(memory);
        assert_eq!(ADMINISTRATOR.available_permits(), before);
    }

    #[test]
    fn one_token_leaves_room_for_others() {
        let (one, other) = (TokenId::generate(), TokenId::generate());
        let of = |token| Memory::of(&EVERYBODY, Some(token));
        let mut held: Vec<Memory> = (0..4).map(|_| of(one)).collect();
        for memory in &mut held {
            memory.grow(16 << 20).unwrap();
        }
        assert!(of(one).grow(1).is_err());
        of(other).grow(16 << 20).unwrap();
        held.pop();
        of(one).grow(16 << 20).unwrap();
        drop(held);
        assert!(with_taken(|taken| !taken.contains_key(&one) && !taken.contains_key(&other)));
    }
}
