//! What the sandbox uses.
//!
//! `sysinfo` is the cheap truth: one call of some 30 µs under gVisor. It counts the memory of
//! processes, files on tmpfs, memfds and written shared mappings, and neither the host's cache of
//! files nor gVisor's own memory. Only memory that was freed stays in it for up to some 100 ms.
//! `/proc/meminfo` knows at once what is free, but reading it makes gVisor walk all memory.

#![expect(unsafe_code, reason = "sysinfo fills in a structure of the kernel's")]

/// Memory and processes of the whole sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    /// In bytes.
    pub(super) memory: u64,
    /// Threads included.
    pub(super) processes: u64,
}

impl Use {
    pub(super) fn now() -> Self {
        // SAFETY: plain numbers, all zero is a valid value.
        let mut said: libc::sysinfo = unsafe { std::mem::zeroed() };
        // SAFETY: a valid place to put them. It does not fail with one; if it did, nothing is in use.
        unsafe { libc::sysinfo(&raw mut said) };
        let used = said.totalram.saturating_sub(said.freeram);
        Self { memory: used.saturating_mul(said.mem_unit.max(1).into()), processes: said.procs.into() }
    }
}

/// Memory that somebody holds, without what was freed a moment ago.
pub(super) fn held() -> Option<u64> {
    held_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// gVisor counts files on tmpfs as anonymous.
fn held_in(meminfo: &str) -> Option<u64> {
    let kilobytes = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches("kB").trim_end().parse().ok()
    };
    Some((kilobytes("AnonPages")? + kilobytes("Mapped")?) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_read_from_gvisors_words() {
        let check = |meminfo: &str, expect: Option<u64>| assert_eq!(held_in(meminfo), expect, "{meminfo}");
        let freed = "MemTotal:  458752 kB\nMemFree:  355596 kB\nActive(anon):  272 kB\nAnonPages:  272 kB\n\
                     Mapped:   472 kB\nShmem:     0 kB\n";
        check(freed, Some(744 << 10));
        check("MemTotal: 458752 kB\n", None);
        check("AnonPages: many kB\nMapped: 1 kB\n", None);
    }
}
