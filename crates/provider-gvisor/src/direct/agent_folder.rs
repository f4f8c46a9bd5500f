//! The agent's program on the host, and how sandboxes see it.
//!
//! A folder named after the program's hash, so that a server of another version brings one of its own and
//! sandboxes that run keep theirs. A sandbox gets a read-only mount of it from the host's own kernel: whatever
//! a runtime lets through, the program stays as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use sha2::{Digest, Sha256};

use super::layout::{AGENT, private_folder, write_file};

const FILE: &str = "emergent-agent";
const MODE: u32 = 0o755;

/// The program, and where it is kept.
pub(super) struct AgentFolder {
    agents: PathBuf,
    program: std::borrow::Cow<'static, [u8]>,
    hash: String,
}

impl AgentFolder {
    pub(super) fn new(agents: PathBuf, program: std::borrow::Cow<'static, [u8]>) -> Self {
        let hash: String = Sha256::digest(&program).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { agents, program, hash }
    }

    /// Where the program is.
    pub(super) fn folder(&self) -> PathBuf {
        self.agents.join(self.hash.get(..16).unwrap_or(&self.hash))
    }

    /// Makes sure that the program is there and whole; where it is.
    pub(super) fn ensure(&self) -> io::Result<PathBuf> {
        let folder = self.folder();
        let file = folder.join(FILE);
        let is_whole = fs::metadata(&file).is_ok_and(|found| found.len() == self.program.len() as u64);
        if !is_whole {
            private_folder(&self.agents)?;
            private_folder(&folder)?;
            // Whoever is root inside is root here; others inside must be able to run it.
            fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(MODE))?;
            write_file(&file, &self.program, MODE)?;
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(MODE))?;
        }
        Ok(folder)
    }
}

/// Mounts a folder in that of a sandbox, where nobody can write to it; returns where.
pub(super) fn mount(program: &Path, sandbox: &Path) -> io::Result<PathBuf> {
    let place = sandbox.join(AGENT);
    take_off(sandbox)?;
    private_folder(&place)?;
    mount_bind(program, &place)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = mount_remount(&place, flags, "") {
        take_off(sandbox)?;
        return Err(error.into());
    }
    Ok(place)
}

/// Takes it out of its place; none is success.
pub(super) fn take_off(sandbox: &Path) -> io::Result<()> {
    let place = sandbox.join(AGENT);
    loop {
        // What still runs keeps what it has; nothing is written there, so nothing is waited for.
        match unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match fs::remove_dir(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
