//! Runs programs in an unpacked root.

use std::path::Path;
use std::process::Command;

/// The output of a command in a root, which must succeed.
pub(crate) fn run(root: &Path, command: &[&str]) -> String {
    let output = Command::new("chroot")
        .arg(root)
        .args(command)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
