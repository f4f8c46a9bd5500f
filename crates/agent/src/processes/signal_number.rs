//! Signals by number, real-time ones included.

#![expect(unsafe_code, reason = "rustix has no safe way to name a real-time signal")]

use rustix::process::Signal;

/// The signal with this number, if it is one that can be sent.
pub(super) fn from_number(number: u32) -> Option<Signal> {
    let number = i32::try_from(number).ok()?;
    // 32 and 33 are glibc's own; a program built with it cannot catch them.
    let is_real_time = (34..=64).contains(&number);
    // SAFETY: a valid, nonzero number that libc does not reserve; it is only ever sent.
    Signal::from_named_raw(number)
        .or_else(|| is_real_time.then(|| unsafe { Signal::from_raw_unchecked(number) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_sixty_four() {
        let check = |number: u32, expect: bool| {
            let signal = from_number(number);
            assert_eq!(signal.map(|signal| signal.as_raw().unsigned_abs()), expect.then_some(number));
        };
        (1..=31).chain(34..=64).for_each(|number| check(number, true));
        [0, 32, 33, 65, u32::MAX].into_iter().for_each(|number| check(number, false));
    }
}
