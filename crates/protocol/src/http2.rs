//! HTTP/2 flow control. A stream that nobody reads fills its own window and stops; it must
//! not fill the connection's window too, or every other call on the stream freezes. With
//! the defaults of HTTP/2 (64 KiB for both) the first unread stream is enough, and with
//! hyper's the third. So the connection window holds far more streams than may be open.

use std::time::Duration;

/// What one stream may have in flight.
pub const STREAM_WINDOW: u32 = 256 << 10;

/// Streams open at once on one connection. The agent refuses more.
pub const MAX_CONCURRENT_STREAMS: u32 = 200;

/// What a whole connection may have in flight: more than every stream together.
pub const CONNECTION_WINDOW: u32 = 64 << 20;

/// How often an idle-looking connection with calls on it is pinged.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// How long a ping may take. Generous: a sandbox at its CPU limit answers late, not never.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

const _: () = assert!(CONNECTION_WINDOW as u64 >= STREAM_WINDOW as u64 * MAX_CONCURRENT_STREAMS as u64);
