//! How often.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use emergent_store::{TokenId, TokenKind};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::too_many;
use crate::auth::Caller;
use crate::errors::ApiError;

/// Wrong tokens per second and address, and how many at once.
const FAILURES_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).unwrap();
const FAILURES_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// How many keys are kept before those that are not needed any more are thrown away.
const KEYS: usize = 4096;

type Keyed<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// How often a caller may ask.
pub(crate) struct Rates {
    clock: DefaultClock,
    tokens: Option<Keyed<TokenId>>,
    failures: Keyed<IpAddr>,
}

impl Rates {
    /// `per_second` for every token but an administrator's; `None` is without a limit.
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        let burst = |rate: NonZeroU32| rate.saturating_mul(NonZeroU32::MIN.saturating_add(1));
        Self {
            clock: DefaultClock::default(),
            tokens: per_second
                .map(|rate| RateLimiter::hashmap(Quota::per_second(rate).allow_burst(burst(rate)))),
            failures: RateLimiter::hashmap(
                Quota::per_second(FAILURES_PER_SECOND).allow_burst(FAILURES_AT_ONCE),
            ),
        }
    }

    /// One request of a valid token.
    pub(crate) fn request(&self, caller: &Caller) -> Result<(), ApiError> {
        match &self.tokens {
            Some(tokens) if caller.kind() != TokenKind::Admin => check(tokens, &caller.id(), &self.clock)
                .map_err(|wait| too_many("token", "too many requests with this token", whole_seconds(wait))),
            _ => Ok(()),
        }
    }

    /// One token that is not valid, from this address. Valid ones are never asked here, so
    /// guesses hold up nobody else, whatever address they share.
    pub(crate) fn failure(&self, peer: Option<IpAddr>) -> Result<(), ApiError> {
        let network = peer.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), network);
        check(&self.failures, &network, &self.clock).map_err(|wait| {
            too_many("failures", "too many tokens that are not valid from this address", whole_seconds(wait))
        })
    }
}

fn check<K: Hash + Eq + Clone>(limiter: &Keyed<K>, key: &K, clock: &DefaultClock) -> Result<(), Duration> {
    if limiter.len() > KEYS {
        limiter.retain_recent();
        limiter.shrink_to_fit();
    }
    limiter.check_key(key).map_err(|not_until| not_until.wait_time_from(clock.now()))
}

/// An IPv6 host has a whole network of addresses to guess from.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_limited_by_network() {
        let rates = Rates::new(None);
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..FAILURES_AT_ONCE.get() {
            rates.failure(Some(one)).unwrap();
        }
        let refused = (0..50).any(|_| rates.failure(Some(neighbour)).is_err());
        assert!(refused);
        assert!(rates.failure(Some(other)).is_ok());
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), other);
    }

    #[test]
    fn keys_do_not_pile_up() {
        let rates = Rates::new(None);
        for number in 0..3 * KEYS as u32 {
            let _ = rates.failure(Some(IpAddr::V4(number.into())));
        }
        // A guess is forgotten when it makes no difference any more: here, or while a slow machine was
        // still guessing.
        std::thread::sleep(Duration::from_millis(200));
        let _ = rates.failure(Some(IpAddr::V4(u32::MAX.into())));
        assert!(rates.failures.len() <= KEYS + 1, "{}", rates.failures.len());
    }
}
