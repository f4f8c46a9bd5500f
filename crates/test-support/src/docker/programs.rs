//! Finding the programs the suite drives.

use std::path::{Path, PathBuf};

/// Where Debian's packages put them. Looked at before `PATH`: a newer `docker` from elsewhere
/// may refuse to talk to the daemon of Debian's package, and `PATH` may lack the folders of
/// root's programs.
const PACKAGED: [&str; 2] = ["/usr/bin", "/usr/sbin"];

/// The program with this name. A machine that lacks it fails the test and is told what to
/// install; a test that runs nothing must not pass.
pub(super) fn find(name: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    PACKAGED
        .iter()
        .map(PathBuf::from)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| Path::is_file(program))
        .unwrap_or_else(|| {
            panic!("{name} is missing: install {package}, or run `cargo xtask test --tier gvisor`")
        })
}

#[cfg(test)]
mod tests {
    /// A machine without the runtime fails; it does not skip.
    #[test]
    #[should_panic(expected = "no-such-runtime is missing: install Debian's no-such-package")]
    fn a_missing_program_is_named_with_its_package() {
        super::find("no-such-runtime", "Debian's no-such-package");
    }
}
