//! Tries to connect, for a control plane that wants to know what its sandboxes reach.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a target may say nothing.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether a connection to a target comes about.
pub fn reaches(target: &SocketAddr) -> bool {
    TcpStream::connect_timeout(target, LIMIT).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_is_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        assert!(reaches(&target));
        drop(listener);
        assert!(!reaches(&target));
    }
}
