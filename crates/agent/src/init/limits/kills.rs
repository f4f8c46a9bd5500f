//! The count of kills, in the words of a control group: the agent reads it as it reads the kernel's
//! elsewhere, and it outlives the agent.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::exec;

pub(super) struct Kills {
    file: File,
    number: u64,
}

impl Kills {
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"kills", MemfdFlags::CLOEXEC)?);
        let kills = Self { file, number: 0 };
        kills.write()?;
        Ok(kills)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn add(&mut self) {
        self.number += 1;
        // A page that is there already. What cannot be counted is killed all the same.
        let _ = self.write();
    }

    /// The last one was none.
    pub(super) fn take_back(&mut self) {
        self.number = self.number.saturating_sub(1);
        let _ = self.write();
    }

    /// Always as long, so that nothing is left of what was there.
    fn write(&self) -> io::Result<()> {
        let line = format!("{} {:020}\n", exec::KILLS, self.number);
        self.file.write_all_at(line.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exec::OomCounter;

    #[test]
    fn the_agent_reads_what_init_counts() {
        let mut kills = Kills::new().expect("a file in memory");
        let counter = OomCounter::of_init(Arc::new(kills.file().try_clone().expect("open")), Some(1 << 30));
        assert_eq!(counter.read(), Some(0));
        kills.add();
        kills.add();
        assert_eq!(counter.read(), Some(2));
        kills.take_back();
        assert_eq!(counter.read(), Some(1));
    }
}
