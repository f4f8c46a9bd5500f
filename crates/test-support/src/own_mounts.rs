//! Mounts that nobody else on the machine sees.
#![expect(unsafe_code, reason = "leaving a namespace is unsafe by nature")]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use emergent_types::ByteSize;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

/// Where programs of the host are looked for beside the path.
const PROGRAM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The mounts of a test's own. Proof that what is mounted is not mounted for everybody.
pub struct OwnMounts(());

/// Runs a test with mounts of its own. All threads of its runtime have them, and the servers that it
/// starts. They go with the last of these, however it ends.
///
/// # Panics
///
/// When the test does, or where there is no root.
pub fn with_own_mounts<T: Send, F: Future<Output = T>>(test: impl FnOnce(OwnMounts) -> F + Send) -> T {
    let on_own_thread = || {
        // SAFETY: only the mounts and the working folder of a thread that ends right after change;
        // descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("root can have mounts of its own");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .expect("mounts of its own can be kept from others");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime can be made").block_on(test(OwnMounts(())))
    };
    let ended = thread::scope(|scope| scope.spawn(on_own_thread).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

impl OwnMounts {
    /// Makes a program one that is not installed: there is no file any more wherever it is looked for.
    ///
    /// # Panics
    ///
    /// When it cannot be hidden.
    pub fn hide_program(&self, name: &str) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(PROGRAM_FOLDERS.map(PathBuf::from));
        // One file may be found by several names, and is to be covered once.
        let found: BTreeSet<PathBuf> =
            folders.filter_map(|folder| folder.join(name).canonicalize().ok()).collect();
        for file in found {
            mount_bind("/dev/null", &file)
                .unwrap_or_else(|error| panic!("cannot hide {}: {error}", file.display()));
        }
    }

    /// A file system of this size, in memory.
    ///
    /// # Panics
    ///
    /// When it cannot be mounted.
    pub fn small_disk(&self, size: ByteSize) -> SmallDisk {
        let folder = TempDir::with_prefix("emergent-disk-").expect("a temporary folder can be made");
        let options = CString::new(format!("size={}", size.bytes())).expect("a number has no zero byte");
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(options.as_c_str()))
            .expect("root can mount");
        SmallDisk { folder }
    }
}

/// A file system that is soon full. Unmounted when it is dropped.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whatever still has a file open there keeps it until it ends.
        if let Err(error) = unmount(self.folder.path(), UnmountFlags::DETACH) {
            eprintln!("{} stays mounted: {error}", self.folder.path().display());
        }
    }
}
