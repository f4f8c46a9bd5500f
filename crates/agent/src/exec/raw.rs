//! System calls without libc.
//!
//! A supervisor shares its memory with the agent, the calling thread's own included, and that is where
//! libc puts `errno`: a failure here would become one of the agent's. So whatever rustix has no safe
//! form of is called directly, and gives its error back.

#![expect(unsafe_code, reason = "system calls and clone have no safe form")]

use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};

use rustix::io::Errno;

/// Where a new process begins. It has nowhere to return to.
pub(super) type Entry = extern "C" fn(*mut c_void) -> !;

/// A call with up to four arguments.
///
/// # Safety
///
/// As the call demands of its arguments.
pub(super) unsafe fn call(number: c_long, arguments: [usize; 4]) -> Result<usize, Errno> {
    let [first, second, third, fourth] = arguments;
    let result: isize;
    // SAFETY: the registers are the kernel's convention; what the call does is the caller's matter.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            options(nostack),
        );
    }
    outcome(result)
}

/// A new process that begins at `entry` on the stack that ends at `top`; its number.
///
/// # Safety
///
/// `top` is aligned to 16 bytes. With `CLONE_VM` the stack and whatever `argument` leads to stay
/// where they are until the process has ended or executed a program.
pub(super) unsafe fn clone(
    flags: c_int,
    top: *mut u8,
    entry: Entry,
    argument: *mut c_void,
) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the parent goes on behind the block as after any system call; the child has registers
    // and a stack of its own and never comes that far.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as usize,
            in("rsi") top,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") entry,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x11",
            "blr x10",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags as usize => result,
            in("x1") top,
            in("x2") 0usize,
            in("x3") 0usize,
            in("x4") 0usize,
            in("x10") entry,
            in("x11") argument,
            options(nostack),
        );
    }
    outcome(result)
}

/// Ends the process at once; nothing is flushed or unwound.
pub(super) fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: takes a number, and does not return.
        let _ = unsafe { call(libc::SYS_exit_group, [code as usize, 0, 0, 0]) };
    }
}

/// The kernel's own numbers for errors are the last 4095.
fn outcome(result: isize) -> Result<usize, Errno> {
    match i32::try_from(result) {
        Ok(error @ -4095..=-1) => Err(Errno::from_raw_os_error(-error)),
        _ => Ok(result as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_results() {
        // SAFETY: neither touches memory; the second is refused.
        let (own, refused) =
            unsafe { (call(libc::SYS_getpid, [0; 4]), call(libc::SYS_close, [usize::MAX, 0, 0, 0])) };
        assert_eq!(own, Ok(std::process::id() as usize));
        assert_eq!(refused, Err(Errno::BADF));
    }
}
