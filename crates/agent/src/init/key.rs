//! The sandbox's key, as it comes and as it is handed on.

#![expect(unsafe_code, reason = "the environment can only be scrubbed in place")]

use std::ffi::CString;

use emergent_protocol::{KEY_LENGTH, KEY_VARIABLE};

use super::InitError;

/// A key. Never printed.
pub(super) type Key = [u8; KEY_LENGTH];

/// Takes the key out of this process's environment. Its place there is overwritten, so that
/// `/proc/1/environ` does not show it.
pub(super) fn take() -> Result<Key, InitError> {
    let name = CString::new(KEY_VARIABLE).map_err(|_| InitError::Key)?;
    let mut text = Vec::new();
    // SAFETY: init has one thread. `getenv` gives null or a NUL-terminated string that stays
    // where it is; each byte is written only up to its NUL.
    unsafe {
        let mut byte = libc::getenv(name.as_ptr());
        while !byte.is_null() && *byte != 0 {
            text.push(byte.cast::<u8>().read());
            byte.cast::<u8>().write_volatile(b'x');
            byte = byte.add(1);
        }
    }
    from_hex(&text).ok_or(InitError::Key)
}

/// The key from its hexadecimal digits.
pub(super) fn from_hex(text: &[u8]) -> Option<Key> {
    let mut key = [0; KEY_LENGTH];
    if text.len() != 2 * KEY_LENGTH {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_of_the_right_length() {
        let check = |text: &str, expect: Option<Key>| assert_eq!(from_hex(text.as_bytes()), expect, "{text}");
        check(&"0f".repeat(KEY_LENGTH), Some([15; KEY_LENGTH]));
        check(&"AB".repeat(KEY_LENGTH), Some([0xab; KEY_LENGTH]));
        check(&"0f".repeat(KEY_LENGTH - 1), None);
        check(&"0g".repeat(KEY_LENGTH), None);
        check(&"+f".repeat(KEY_LENGTH), None);
        check("", None);
    }
}
