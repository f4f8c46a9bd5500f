//! What stands in the way of rules.
#![expect(unsafe_code, reason = "leaving a namespace is unsafe by nature")]

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::world::run;

/// Somebody who has removed a table and holds one of that name for himself: the kernel refuses to let
/// anybody else touch it until he ends.
pub(crate) struct Occupier(Child);

impl Occupier {
    /// Takes a table of the family `inet`.
    pub(crate) fn of(table: &str) -> Self {
        let child = Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut occupier = Self(child);
        // Line by line, in one transaction each; in between the watch may put the table back.
        let stdin = occupier.0.stdin.as_mut().unwrap();
        for attempt in 0..50 {
            writeln!(stdin, "destroy table inet {table}\ndelete table inet {table}").unwrap();
            writeln!(stdin, "add table inet {table} {{ flags owner; }}").unwrap();
            std::thread::sleep(Duration::from_millis(100));
            if run("nft", "list ruleset").contains("flags owner") {
                println!("taken at attempt {attempt}");
                return occupier;
            }
        }
        panic!("the table could not be taken:\n{}", run("nft", "list ruleset"));
    }

    pub(crate) fn end(self) {}
}

impl Drop for Occupier {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs `work` on a thread for which, and for what it starts, `nft` is a program that fails: nobody can
/// tell what the rules are. The calling thread must be the test's own.
pub(crate) fn with_failing_nft(work: impl FnOnce()) {
    // SAFETY: only the mounts of a thread that ends with the test change; descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    let nft = ["/usr/sbin/nft", "/usr/bin/nft"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    run("mount", "--make-rprivate /");
    run("mount", &format!("--bind /bin/false {nft}"));
    work();
    run("umount", nft);
}
