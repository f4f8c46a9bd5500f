//! Files that only the owner may read.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};

const PRIVATE: u32 = 0o600;

/// Makes a folder for the owner alone, with its parents; one that is there stays as it is.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make the folder {}", path.display()))
}

/// What a file holds, without the line end; `None` where there is none. Takes away what
/// others may do with it.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mode = fs::metadata(path)
        .with_context(|| format!("cannot look at {}", path.display()))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        tracing::warn!("{} could be read by others; it is private now", path.display());
        fs::set_permissions(path, Permissions::from_mode(PRIVATE))
            .with_context(|| format!("cannot make {} private", path.display()))?;
    }
    Ok(Some(text.trim_end().to_owned()))
}

/// Replaces a file with one line, all or nothing.
pub(crate) fn replace(path: &Path, line: &str) -> Result<()> {
    write(path, line)
        .and_then(|file| Ok(file.persist(path).map(drop)?))
        .and_then(|()| sync_folder(path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Makes a file with one line; `false` where there is one already.
pub(crate) fn create(path: &Path, line: &str) -> Result<bool> {
    let context = || format!("cannot write {}", path.display());
    match write(path, line).with_context(context)?.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| true).with_context(context),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error).with_context(context),
    }
}

/// A temporary file beside `path`, with the line in it, on the disk.
fn write(path: &Path, line: &str) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(PRIVATE))
        .tempfile_in(folder_of(path))?;
    writeln!(file, "{line}")?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert_eq!(read(&path).unwrap(), None);
        assert!(create(&path, "one").unwrap());
        assert!(!create(&path, "two").unwrap());
        assert_eq!(read(&path).unwrap().as_deref(), Some("one"));
        replace(&path, "three").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("three"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        read(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
