//! What is known of the control plane, where it outlives the agent.
//!
//! A file in memory that init makes and every agent inherits: the agent writes, init and the next
//! agent read. Root in the sandbox can write to it as well, as it can replace the agent; so whatever
//! is there is parsed with care, and says no more than how long the sandbox lives on its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};

use super::{State, Told};

const NOTHING: &str = "unset";
const NO_DEADLINE: &str = "never";
const DEADLINE: &str = "until";

/// A word, a deadline, whether somebody is connected, and when somebody was heard of last, in
/// nanoseconds of the steady clock, which all processes of a sandbox share.
const LENGTH: usize = "until 01234567890123456789 0 01234567890123456789\n".len();

/// Clones are the same record.
#[derive(Clone)]
pub(crate) struct Record {
    file: Arc<File>,
}

impl Record {
    /// One that says nothing.
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create(c"lease", MemfdFlags::CLOEXEC)?;
        Ok(Self::of(Arc::new(File::from(file))))
    }

    /// The one in a file that was inherited.
    pub(crate) fn of(file: Arc<File>) -> Self {
        Self { file }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Always as long, so that nothing is left of what was there.
    pub(crate) fn write(&self, state: &State) -> io::Result<()> {
        let (word, unix_ms) = match state.told {
            Told::Nothing => (NOTHING, 0),
            Told::NoDeadline => (NO_DEADLINE, 0),
            Told::Deadline { unix_ms } => (DEADLINE, unix_ms),
        };
        let connected = u8::from(state.connections > 0);
        // In this order, and in the other one when it is read: what takes time between the two makes it
        // later, and nobody ends too early.
        let ago = state.last_heard.elapsed();
        let heard_ns = steady_clock().saturating_sub(ago).as_nanos();
        let line = format!("{word} {unix_ms:020} {connected} {heard_ns:020}\n");
        self.file.write_all_at(line.as_bytes(), 0)
    }

    /// `None` where it does not say anything that makes sense.
    pub(crate) fn read(&self) -> Option<State> {
        let mut line = [0; LENGTH];
        self.file.read_exact_at(&mut line, 0).ok()?;
        let mut words = str::from_utf8(&line).ok()?.strip_suffix('\n')?.split(' ');
        let (word, unix_ms) = (words.next()?, words.next()?.parse().ok()?);
        let (connected, heard_ns) = (words.next()?, words.next()?.parse().ok()?);
        let told = match word {
            NOTHING => Told::Nothing,
            NO_DEADLINE => Told::NoDeadline,
            DEADLINE => Told::Deadline { unix_ms },
            _ => return None,
        };
        let connections = match connected {
            "0" => 0,
            "1" => 1,
            _ => return None,
        };
        // What is said to have been heard later is heard now.
        let ago = steady_clock().saturating_sub(Duration::from_nanos(heard_ns));
        let last_heard = Instant::now().checked_sub(ago)?;
        words.next().is_none().then_some(State { told, connections, last_heard })
    }
}

/// What [`Instant`] reads, as a number that another process understands.
fn steady_clock() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_written_is_read() {
        let record = Record::new().expect("a file in memory");
        assert_eq!(record.read(), None);
        let longest = Told::Deadline { unix_ms: u64::MAX };
        let shortest = Told::Deadline { unix_ms: 1 };
        for told in [longest, Told::Nothing, shortest, Told::NoDeadline] {
            for connections in [0, 1] {
                let state = State { told, connections, last_heard: Instant::now() - SECOND };
                record.write(&state).expect("writable");
                let read = record.read().expect("readable");
                assert_eq!((read.told, read.connections), (told, connections));
                let ago = read.last_heard.elapsed();
                assert!((SECOND..10 * SECOND).contains(&ago), "{ago:?}");
            }
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        let digits = "00000000000000000001";
        let check = |line: &str, is_read: bool| {
            let record = Record::new().expect("a file in memory");
            record.file.write_all_at(line.as_bytes(), 0).expect("writable");
            assert_eq!(record.read().is_some(), is_read, "{line:?}");
        };
        check(&format!("until {digits} 0 {digits}\n"), true);
        check(&format!("until {digits} 0 {digits}\nand more"), true);
        check("", false);
        check(&format!("until {digits} 0 {digits}"), false);
        check(&format!("often {digits} 0 {digits}\n"), false);
        check(&format!("until {digits} 2 {digits}\n"), false);
        check(&format!("until 99999999999999999999 0 {digits}\n"), false);
        check(&format!("until -0000000000000000001 0 {digits}\n"), false);
        check(&format!("until {digits} 0 0000000000000000 001\n"), false);
        check(&"\0".repeat(LENGTH), false);
        check(&"é".repeat(LENGTH), false);
    }

    /// A record from the future would else be one of a sandbox that never ends.
    #[test]
    fn nobody_is_heard_of_later_than_now() {
        let record = Record::new().expect("a file in memory");
        let line = format!("until {:020} 0 {:020}\n", 1, u64::MAX);
        record.file.write_all_at(line.as_bytes(), 0).expect("writable");
        let before = Instant::now();
        let heard = record.read().expect("readable").last_heard;
        assert!((before..=Instant::now()).contains(&heard));
    }
}
