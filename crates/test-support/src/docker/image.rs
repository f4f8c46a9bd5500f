//! An image for workspaces under test: Debian with what the tools need, made once per machine by
//! Debian's own means, because there is no registry.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs;

/// What the image is called.
pub const TEST_IMAGE: &str = "emergent/test-workspace:2";

/// What it has beside Debian's base.
const PACKAGES: &str = "bash,ca-certificates,git,iproute2,nftables,procps,python3";

/// Gives the daemon the image.
pub(super) fn import(daemon_address: &str) {
    let archive = archive();
    let docker = programs::find("docker", "Debian's docker.io");
    let mut import = Command::new(&docker);
    import.args(["--host", daemon_address, "import"]).arg(&archive).arg(TEST_IMAGE);
    run(&mut import);
    // Also by the name that workspaces start from when nothing is said.
    let mut tag = Command::new(docker);
    tag.args(["--host", daemon_address, "tag", TEST_IMAGE, "emergent/workspace:latest"]);
    run(&mut tag);
}

/// The archive of its root; made if it is not there yet.
pub(super) fn archive() -> PathBuf {
    let folder = cache_folder();
    fs::create_dir_all(&folder).expect("a folder below target can be made");
    let archive = folder.join("workspace-2.tar");
    // Several tests may want it at once; one makes it.
    let lock = File::create(folder.join("lock")).expect("a file below target can be made");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a file can be locked");
    if !archive.is_file() {
        let partial = folder.join("workspace-2.tar.partial");
        let mut build = Command::new(programs::find("mmdebstrap", "Debian's mmdebstrap"));
        build.args(["--quiet", "--variant=minbase", &format!("--include={PACKAGES}")]);
        build
            .args(["--customize-hook=chroot \"$1\" useradd --create-home --uid 1000 --shell /bin/bash user"]);
        build.args(["--customize-hook=mkdir \"$1/workspace\"", "--format=tar"]);
        build.arg(suite()).arg(&partial);
        run(&mut build);
        fs::rename(&partial, &archive).expect("a file can be renamed");
    }
    archive
}

/// Of the machine's own release, so that its own sources serve.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("stable").trim_matches('"').to_owned()
}

/// Below `target`, beside the tests.
fn cache_folder() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.ancestors().find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("test-images")
}

fn run(command: &mut Command) {
    let output: io::Result<_> = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
