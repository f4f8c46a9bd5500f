//! Formatted disks to copy from: one per size, made when the size is first asked for.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use crate::geometry::Geometry;

/// How many templates are kept. One takes a few megabytes of real disk.
const KEPT: usize = 16;

/// Changes when disks are formatted differently, so that old templates are not used.
const FORMAT: u32 = 1;

/// Why a disk could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The program that formats is missing.
    #[error("mkfs.ext4 is not installed; install e2fsprogs")]
    NoMkfs,
    /// The program that formats has failed.
    #[error("mkfs.ext4 ended with {status}: {message}")]
    Mkfs {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        message: String,
    },
    /// A file could not be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl TemplateError {
    /// Whether the host's own disk is full.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull)
    }
}

/// What a new disk holds.
pub trait TemplateContent {
    /// Differs where the content differs; part of a file's name.
    fn fingerprint(&self) -> &str;

    /// Writes everything below a folder, which is made anew.
    fn write_to(&self, folder: &Path) -> io::Result<()>;
}

/// The templates with one content. Several may share a folder.
pub struct Templates<Content> {
    folder: PathBuf,
    content: Content,
}

impl<Content: TemplateContent> Templates<Content> {
    /// Templates that are kept in this folder, which is made when it is first needed.
    pub fn new(folder: PathBuf, content: Content) -> Self {
        Self { folder, content }
    }

    /// A formatted disk of this size with its content.
    pub fn get(&self, geometry: Geometry) -> Result<PathBuf, TemplateError> {
        let name = format!("{}-{FORMAT}-{}.img", self.content.fingerprint(), geometry.bytes());
        let path = self.folder.join(name);
        if let Ok(file) = fs::File::open(&path) {
            // The time tells which one to drop when there are too many.
            let _ = file.set_modified(SystemTime::now());
            return Ok(path);
        }
        // One template is made at a time: two creates of a new size share the work.
        let _making = self.lock_folder()?;
        if !path.exists() {
            self.make(&path, geometry)?;
            self.prune();
        }
        Ok(path)
    }

    /// Keeps every other maker out, in this process and in others, as long as the file is open.
    fn lock_folder(&self) -> Result<fs::File, TemplateError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .and_then(|()| fs::File::open(&self.folder))
            .and_then(|folder| {
                flock(&folder, FlockOperation::LockExclusive)?;
                Ok(folder)
            })
            .map_err(io_error(&self.folder))
    }

    fn make(&self, path: &Path, geometry: Geometry) -> Result<(), TemplateError> {
        let mkfs = find_mkfs().ok_or(TemplateError::NoMkfs)?;
        let content = self.folder.join(".content");
        self.content.write_to(&content).map_err(io_error(&content))?;
        let partial = self.folder.join(".partial.img");
        let _ = fs::remove_file(&partial);
        fs::File::create_new(&partial)
            .and_then(|file| file.set_len(geometry.bytes()))
            .map_err(io_error(&partial))?;

        let output = Command::new(mkfs)
            // A disk hardly ever grows, and the room to let it do so with ease would be most of what is copied.
            .args(["-q", "-F", "-b", "4096", "-m", "0", "-e", "remount-ro", "-O", "^resize_inode"])
            .args(["-N", &geometry.inodes().to_string()])
            .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"])
            .arg("-d")
            .args([&content, &partial])
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(io_error(Path::new("mkfs.ext4")))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().chars().take(500).collect();
            return Err(TemplateError::Mkfs { status: output.status, message });
        }
        // A name must never outlive its content: a template torn by a power cut would be copied
        // into every disk of its size.
        fs::File::open(&partial).and_then(|file| file.sync_all()).map_err(io_error(&partial))?;
        fs::rename(&partial, path).map_err(io_error(path))?;
        fs::remove_dir_all(&content).map_err(io_error(&content))
    }

    fn prune(&self) {
        let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "img"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        found.sort();
        for (_, path) in found.iter().rev().skip(KEPT) {
            let _ = fs::remove_file(path);
        }
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TemplateError {
    let path = path.to_owned();
    move |error| TemplateError::Io { path, error }
}

/// Where `mkfs.ext4` is. Looked for where packages put it: the folders of system programs
/// are often not in a service's `PATH`.
pub fn find_mkfs() -> Option<PathBuf> {
    find_program("mkfs.ext4")
}

pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}
