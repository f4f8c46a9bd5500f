//! Many MCP clients on one stdio MCP server, for both eras of the protocol.
//!
//! ```text
//!  HTTP                  this crate                                    a process
//!  ┌────────┐  ┌───────┐  ┌────────┐  ┌────────────────────────┐        ┌────────┐
//!  │ client ├─►│ Front ├─►│ Client ├─►│ Bridge: one task       │ stdin  │        │
//!  └────────┘  │       │  └────────┘  │  ids, tokens, turns,   ├───────►│ server │
//!  ┌────────┐  │       │  ┌────────┐  │  subscriptions, levels │        │        │
//!  │ client ├─►│       ├─►│ Client ├─►│                        │◄───────┤        │
//!  └────────┘  └───────┘  └────────┘  └───────────┬────────────┘ stdout └────────┘
//!  POST /call ─► Handle::call_tool ───────────────┘
//!
//!  Starting ──handshake──► Ready ──the process ends──► Ended ──restart──► Starting
//! ```
//!
//! The happy path: [`Bridge::start`] takes the streams of a process and shakes hands with it, once.
//! [`Handle::connect`] makes a [`Client`] for each client; its `initialize` and `server/discover` are
//! answered from what the server said then. Every other request goes to the server under an id of the
//! bridge's, and its answer back under the client's. What passes through keeps its bytes: only ids,
//! progress tokens and what the other era requires are changed, in place.
//!
//! The failures: a line that is no message is skipped, one that is too long is dropped. A call that is
//! not answered in time is given up, and its late answer is nobody's. When the process ends, every open
//! call fails at once with the reason and none is repeated; clients stay, [`Ended::restart`] takes the
//! next process and applies their subscriptions to it.
//!
//! What is bounded: lines, bytes that wait for the server, open calls, subscriptions, and each client's
//! mailbox. Who is over a bound waits, or, where waiting would make others wait, misses something. The
//! most memory that answers can take is `max_calls` times `max_line_bytes`.
//!
//! [`front`] is the bridge over HTTP. [`remote`] lets a server that speaks HTTP itself look like a process. Who starts processes, drains stderr and listens on a port sits
//! on top of this.

mod actor;
mod bridge;
mod call;
mod client;
mod command;
mod era;
mod error;
mod framing;
pub mod front;
mod handle;
mod handshake;
mod hub;
mod json;
mod link;
mod live;
mod mailbox;
mod options;
pub mod remote;
mod rounds;
mod rules;
mod session;
mod stats;
mod translate;

pub use bridge::{Bridge, Ended};
pub use call::Call;
pub use client::Client;
pub use era::{Era, Server};
pub use error::{CallError, ConnectError, EndReason, Exit, HandshakeError};
pub use handle::{Handle, Reply};
pub use hub::Phase;
pub use json::{Malformed, RawJson};
pub use link::ServerIo;
pub use live::Live;
pub use mailbox::Incoming;
pub use options::{Declaration, EraChoice, Mode, Options};
pub use rules::ToolRules;
pub use session::CallNumber;
pub use stats::Stats;
