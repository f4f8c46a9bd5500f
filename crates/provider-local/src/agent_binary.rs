//! The agent's program on the host's disk, from where sandboxes bind-mount it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::layout::AGENT_PROGRAM;
use crate::options::AgentSource;

/// Writes the agent's program once per content and returns the folder it is in. The folder's
/// name is the program's hash, so sandboxes that run keep theirs when a new server brings a
/// new one.
pub(crate) fn install(source: &AgentSource, agents: &Path) -> io::Result<PathBuf> {
    let read;
    let bytes: &[u8] = match source {
        AgentSource::Bytes(bytes) => bytes,
        AgentSource::Path(path) => {
            read = fs::read(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            &read
        }
    };
    if bytes.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty: this build carries no agent"));
    }
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = agents.join(hash);
    let program = folder.join(AGENT_PROGRAM);
    if fs::metadata(&program).is_ok_and(|found| found.len() == bytes.len() as u64) {
        return Ok(folder);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(agents)?;
    fs::DirBuilder::new().recursive(true).create(&folder)?;
    // Seen by sandboxes, whose ids own nothing here: the folder and the program are open to
    // all whatever the umask, the way to them on the host is not.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let partial = folder.join(format!(".{AGENT_PROGRAM}.{}", std::process::id()));
    let mut file = fs::File::create(&partial)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&partial, &program)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_written_once_and_a_torn_one_again() {
        let agents = tempfile::tempdir().unwrap();
        let source = AgentSource::Bytes(b"program"[..].into());
        let folder = install(&source, agents.path()).unwrap();
        let program = folder.join(AGENT_PROGRAM);
        assert_eq!(fs::read(&program).unwrap(), b"program");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);

        fs::write(&program, b"pro").unwrap();
        assert_eq!(install(&source, agents.path()).unwrap(), folder);
        assert_eq!(fs::read(&program).unwrap(), b"program");

        let same = AgentSource::Path(program);
        assert_eq!(install(&same, agents.path()).unwrap(), folder);
        assert!(install(&AgentSource::Path("/nonexistent".into()), agents.path()).is_err());
        assert!(install(&AgentSource::Bytes(b""[..].into()), agents.path()).is_err());
    }
}
