use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the first start, over all processes of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Lines that are no message.
    pub garbage_lines: u64,
    /// Lines that were longer than allowed.
    pub long_lines: u64,
    /// Lines with bytes that are not UTF-8; these were replaced.
    pub repaired_lines: u64,
    /// Answers that nobody waited for any more.
    pub late_answers: u64,
    /// Notifications that belong to nobody.
    pub unrouted: u64,
    /// Messages that a slow client did not get.
    pub missed: u64,
    /// Requests of the server that were refused, or dropped because it does not read the answers.
    pub refused_requests: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The counts as they are kept.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter),* }

        impl Stats {
            /// Each count with its name.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.0.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters!(garbage_lines, long_lines, repaired_lines, late_answers, unrouted, missed, refused_requests);

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
