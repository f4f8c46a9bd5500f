//! Byte streams between the control plane and programs of the sandbox.
//!
//! ```text
//!  control plane ── Tunnel(port) ──────────► agent ── connect ──► 127.0.0.1:port, [::1]:port
//!
//!  control plane ── OfferServices(names) ──► agent: a socket for each name
//!                ◄─ announced(id, name) ────   ▲ ◄── connect ── a program
//!                ── Tunnel(id) ──────────────► │ taken, and joined with the program
//! ```
//!
//! Both directions are closed independently, and neither is read faster than the other end
//! takes it.

mod bridge;
mod port;
mod services;

pub(crate) use services::offer_services;

use std::sync::Arc;
use std::time::Duration;

use emergent_protocol::v1;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Status, Streaming};

use crate::agent::Shared;
use crate::body::BrokenOff;
use crate::error::CallError;

use services::{Services, Socket};

/// Tunnels open at once. Each holds a socket and a buffer.
const MAX_TUNNELS: usize = 150;

/// How long the first message may take.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// Messages waiting for the connection.
const QUEUED_OUTPUT: usize = 2;

/// What the tunnels of an agent share.
pub(crate) struct Tunnels {
    places: Arc<Semaphore>,
    services: Arc<Services>,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_TUNNELS)), services: Arc::default() }
    }
}

impl Tunnels {
    fn place(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let too_many = |_| CallError::TooMany { what: "tunnels", limit: MAX_TUNNELS };
        self.places.clone().try_acquire_owned().map_err(too_many)
    }
}

/// What a tunnel brings out of the sandbox.
pub(crate) type Output = mpsc::Receiver<Result<v1::TunnelOutput, Status>>;

/// Opens a tunnel. Dropping its output closes it.
pub(crate) async fn tunnel(
    shared: &Arc<Shared>,
    mut input: Streaming<v1::TunnelInput>,
    broken_off: BrokenOff,
) -> Result<Output, Status> {
    use v1::tunnel_header::Target;
    let place = shared.tunnels.place()?;
    let header = tokio::time::timeout(HEADER_LIMIT, input.message()).await;
    let header = header.map_err(|_| CallError::invalid("a tunnel must begin with its header"))??;
    let Some(v1::tunnel_input::Input::Header(v1::TunnelHeader { target: Some(target) })) =
        header.and_then(|message| message.input)
    else {
        return Err(CallError::invalid("the first message of a tunnel must say where it leads").into());
    };
    let (sender, output) = mpsc::channel(QUEUED_OUTPUT);
    match target {
        Target::Port(number) => {
            let socket = port::connect(number).await?;
            let (read, write) = socket.into_split();
            tokio::spawn(bridge::run(read, write, input, broken_off, sender, place));
        }
        Target::ConnectionId(id) => match shared.tunnels.services.take(id)? {
            Socket::Unix(socket) => {
                let (read, write) = socket.into_split();
                tokio::spawn(bridge::run(read, write, input, broken_off, sender, place));
            }
            Socket::Tcp(socket) => {
                let (read, write) = socket.into_split();
                tokio::spawn(bridge::run(read, write, input, broken_off, sender, place));
            }
        },
    }
    Ok(output)
}
