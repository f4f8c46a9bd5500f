//! Reaching a program that listens in the sandbox.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::error::CallError;

/// On the loopback an answer comes at once, unless the program's queue is full.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connects to a port on the loopback: IPv4, then IPv6.
pub(super) async fn connect(number: u32) -> Result<TcpStream, CallError> {
    let port = u16::try_from(number).ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| CallError::invalid(format!("{number} is not a port")))?;
    let mut reason = String::new();
    for address in
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
    {
        match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                // What is sent in small pieces is meant to arrive so.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            // IPv4's reason is the one to tell: there may be no IPv6 at all.
            Ok(Err(error)) if reason.is_empty() => reason = error.to_string(),
            Err(_) if reason.is_empty() => reason = format!("no answer within {CONNECT_LIMIT:?}"),
            _ => {}
        }
    }
    Err(CallError::PortClosed { reason: format!("port {port} of the sandbox: {reason}") })
}
