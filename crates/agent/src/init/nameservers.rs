//! Whom programs ask for names. A container engine puts a resolver of its own there, which a sandbox
//! with its own network stack does not reach.

use std::fmt::Write;
use std::net::IpAddr;
use std::{fs, io};

/// Where programs look.
pub(super) const FILE: &str = "/etc/resolv.conf";

/// Writes the file anew; with nobody to ask it stays as it is.
pub(super) fn write(nameservers: &[IpAddr]) -> io::Result<()> {
    match nameservers {
        [] => Ok(()),
        // In place: it may be a mount of the engine's.
        some => fs::write(FILE, content(some)),
    }
}

fn content(nameservers: &[IpAddr]) -> String {
    nameservers.iter().fold(String::new(), |mut text, address| {
        let _ = writeln!(text, "nameserver {address}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each() {
        let text = content(&[[10, 1, 0, 1].into(), "fd00::1".parse().unwrap()]);
        assert_eq!(text, "nameserver 10.1.0.1\nnameserver fd00::1\n");
    }
}
