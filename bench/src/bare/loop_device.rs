//! Attaching a file to a loop device, in the fewest calls there are.
#![expect(unsafe_code, reason = "loop devices are set up by ioctls that no library offers safely")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// How often another process may snatch the free device first.
const ATTEMPTS: usize = 100;

/// `struct loop_config` of the kernel, as far as it is not zero: the file at its beginning and
/// the flags in the `loop_info64` that follows.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info_before_flags: [u32; 13],
    flags: u32,
    info_after_flags: [u64; 22],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);
const _: () = assert!(std::mem::offset_of!(LoopConfig, flags) == 60);

/// A loop device that the kernel detaches when the last user closes it: this handle, or the
/// mount made from it.
pub(super) struct LoopDevice {
    path: PathBuf,
    _device: File,
}

impl LoopDevice {
    pub(super) fn attach(image: &File) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        for _ in 0..ATTEMPTS {
            // SAFETY: the request takes no argument and returns a number.
            let free = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if free < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{free}"));
            let device = OpenOptions::new().read(true).write(true).open(&path)?;
            match configure(&device, image) {
                Ok(()) => return Ok(Self { path, _device: device }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "no free loop device could be claimed"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn configure(device: &File, image: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: image.as_raw_fd() as u32,
        block_size: 0,
        info_before_flags: [0; 13],
        flags: LO_FLAGS_AUTOCLEAR,
        info_after_flags: [0; 22],
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads one `loop_config`, whose size and offsets this structure has,
    // and keeps no pointer to it.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
