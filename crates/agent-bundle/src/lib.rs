//! The static `emergent-agent` binary, as bytes.
//!
//! The build script builds it for this host (see `build.rs`), so that a server is one file and
//! every sandbox gets the agent that belongs to it.

/// The binary. Empty in a stub: see [`is_stub`].
pub fn bytes() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/emergent-agent"))
}

/// Its SHA-256, hexadecimal.
pub fn sha256() -> &'static str {
    env!("EMERGENT_AGENT_SHA256")
}

/// Whether this was built for clippy, where nothing will run: there is no binary then.
pub fn is_stub() -> bool {
    bytes().is_empty()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// The bytes are a program that runs without anything else in its file system.
    #[test]
    fn the_binary_runs() {
        assert!(!super::is_stub(), "tests were built with a stub");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(super::bytes()).unwrap();
        let path = file.into_temp_path();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&path).arg("version").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("emergent-agent "), "{output:?}");
        assert_eq!(super::sha256().len(), 64);
    }
}
