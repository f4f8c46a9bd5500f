//! Disks with more room than what they are copies of.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::template::find_program;

/// Makes a file system larger that nobody has mounted; one that is as large already stays. What is new of the
/// file is a hole. Not by the kernel, which asks for a privilege that a server in a container may lack.
pub fn grow(image: &Path, bytes: u64) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(image)?;
    if file.metadata()?.len() >= bytes {
        return Ok(());
    }
    file.set_len(bytes)?;
    drop(file);
    let program = find_program("resize2fs")
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "resize2fs is missing (package e2fsprogs)"))?;
    // Forced, because it would have it checked first: a copy was made of a file system that was mounted, and
    // whole.
    let output = Command::new(program).arg("-f").arg(image).env_clear().stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(500).collect();
            Err(io::Error::other(said))
        }
    }
}
