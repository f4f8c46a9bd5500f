//! Whether a sandbox stands still although its workspace is ready: nobody has used it for a while, and whoever
//! comes next lets it go on first. Its state stays `ready`, because nobody has to ask for that.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::activity::Activity;

/// Whether it does. Its owner says so, before it lets it stand still and after it goes on.
#[derive(Default)]
pub(crate) struct Resting(AtomicBool);

impl Resting {
    /// From now on whoever comes asks the owner first. Returns whether nobody was there before: else nothing
    /// is changed.
    pub(crate) fn begin(&self, activity: &Activity) -> bool {
        self.0.store(true, Ordering::SeqCst);
        // Whoever has begun before this is seen here, and whoever begins after it sees this.
        fence(Ordering::SeqCst);
        let is_alone = activity.running() == 0;
        if !is_alone {
            self.end();
        }
        is_alone
    }

    /// It was found so, or is to be taken for it.
    pub(crate) fn found(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// It goes on, or there is nothing any more that could.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether it stands still. To be asked by a call after it has begun.
    pub(crate) fn is_so(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_does_not_rest_and_what_rests_says_so_to_whoever_comes() {
        let (resting, activity) = (Resting::default(), Activity::new(emergent_store::now(), None));
        assert!(activity.begin() && !resting.begin(&activity) && !resting.is_so());
        activity.end();
        assert!(resting.begin(&activity) && resting.is_so());
        resting.end();
        assert!(!resting.is_so());
    }
}
