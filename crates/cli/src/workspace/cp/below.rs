//! Folders below the one that is copied to.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The folder `path` below `top`, made where it is missing. A link on the way is refused: it leads out of
/// what was named, and the workspace says which names there are.
pub(super) fn make_folder(top: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    let mut folder = top.to_owned();
    for name in path {
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_symlink() => {
                bail!("{} is a link, and nothing is copied through it", folder.display());
            }
            Ok(_) => bail!("{} is in the way: it is not a folder", folder.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            }
            Err(error) => return Err(error).with_context(|| folder.display().to_string()),
        }
    }
    Ok(folder)
}

/// Where the file `path` goes below `top`, in a folder that is there.
pub(super) fn place_of_file(top: &Path, path: &Path) -> anyhow::Result<PathBuf> {
    let folder = make_folder(top, path.parent().unwrap_or(Path::new("")))?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_not_followed() {
        let here = tempfile::tempdir().unwrap();
        let (top, elsewhere) = (here.path().join("top"), here.path().join("elsewhere"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, top.join("link")).unwrap();
        fs::write(top.join("file"), "").unwrap();
        assert_eq!(make_folder(&top, Path::new("a/b")).unwrap(), top.join("a/b"));
        assert_eq!(place_of_file(&top, Path::new("a/b/c")).unwrap(), top.join("a/b/c"));
        assert_eq!(place_of_file(&top, Path::new("c")).unwrap(), top.join("c"));
        for path in ["link", "link/a", "file", "file/a"] {
            assert!(make_folder(&top, Path::new(path)).is_err(), "{path}");
        }
        assert!(place_of_file(&top, Path::new("link/x")).is_err());
        assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
