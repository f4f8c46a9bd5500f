//! Loop devices that go away by themselves.
#![expect(unsafe_code, reason = "loop devices are set up by ioctls that no library offers safely")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// How often another process may snatch the free device first.
const ATTEMPTS: usize = 1000;

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A loop device that is detached by the kernel when the last user closes it: this handle,
/// or the mount made from it.
pub struct LoopDevice {
    path: PathBuf,
    _device: File,
}

impl LoopDevice {
    /// Attaches a file to a free loop device. The device keeps the file's own handle, with any
    /// lock on it.
    pub fn attach(image: &File) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        for _ in 0..ATTEMPTS {
            // SAFETY: the request takes no argument and returns a number.
            let free = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if free < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{free}"));
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            match configure(&device, image) {
                Ok(()) => return Ok(Self { path, _device: device }),
                // Someone else was given the same one.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::yield_now(),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "no free loop device could be claimed"))
    }

    /// The device that holds a file, held open; `None` where none does. As long as this is held, it is that
    /// file's.
    pub(crate) fn holding(image: &Path) -> io::Result<Option<Self>> {
        let wanted = std::fs::symlink_metadata(image)?;
        let wanted = (wanted.dev(), wanted.ino());
        for entry in std::fs::read_dir("/sys/block")? {
            let entry = entry?;
            // Others are not even opened: that would keep them for a moment from those who wait for them.
            if !std::fs::read(entry.path().join("loop/backing_file")).is_ok_and(|name| is_of(&name, image)) {
                continue;
            }
            let path = Path::new("/dev").join(entry.file_name());
            // Where it has been detached in between it may be gone, or another's.
            if let Ok(device) = File::open(&path)
                && behind(&device).is_ok_and(|behind| behind == wanted)
            {
                return Ok(Some(Self { path, _device: device }));
            }
        }
        Ok(None)
    }

    /// Its node below `/dev`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The file behind a loop device, by device and inode: names are not what they were once a file
/// has been moved.
pub(crate) fn file_behind(device: &Path) -> io::Result<(u64, u64)> {
    behind(&File::open(device)?)
}

/// Whether a name as the kernel gives it may be that of a file: by its own name and its folder's, since
/// what is above them may have another name elsewhere.
fn is_of(name: &[u8], image: &Path) -> bool {
    let name = Path::new(OsStr::from_bytes(name.trim_ascii_end()));
    let folder = |path: &Path| path.parent().and_then(Path::file_name).map(OsStr::to_owned);
    name.file_name() == image.file_name() && folder(name) == folder(image)
}

fn behind(device: &File) -> io::Result<(u64, u64)> {
    // SAFETY: the structure is made of integers, for which all-zero is a value.
    let mut info: LoopInfo = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `loop_info64`, whose layout this structure has.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) } {
        0 => Ok((info.device, info.inode)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn configure(device: &File, image: &File) -> io::Result<()> {
    // SAFETY: the structure is made of integers, for which all-zero is a value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = image.as_raw_fd() as u32;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the kernel reads one `loop_config`, whose layout this structure has, and keeps
    // no pointer to it.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

// The kernel's sizes.
const _: () = assert!(size_of::<LoopInfo>() == 232);
const _: () = assert!(size_of::<LoopConfig>() == 304);
