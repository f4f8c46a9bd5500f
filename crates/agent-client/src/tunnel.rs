//! Byte streams between the control plane and programs in the sandbox.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use emergent_protocol::{CHUNK_BYTES, v1};
use futures::channel::mpsc;
use futures::{Stream, StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;

use crate::client::{CALL_LIMIT, STREAM_MESSAGE_BYTES};
use crate::{AgentClient, AgentError};

/// Messages to the agent that wait for the connection.
const QUEUED_INPUT: usize = 2;

/// The most services one offer names.
const MAX_SERVICES: usize = 64;

/// How long a closed tunnel is kept for the program to hear what was said.
const LINGER: Duration = Duration::from_secs(10);

/// How much of what the program still says is heard meanwhile, and thrown away.
const LINGER_BYTES: usize = 1 << 20;

/// A byte stream to a program in the sandbox. Shutting it down closes one direction; dropping
/// it closes both, and what was written before still arrives.
pub struct TunnelStream {
    outgoing: mpsc::Sender<v1::TunnelInput>,
    /// Gone at its end.
    incoming: Option<tonic::Streaming<v1::TunnelOutput>>,
    lingering: Arc<Semaphore>,
    /// Received and not yet read.
    unread: Bytes,
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            let Some(incoming) = &mut self.incoming else { return Poll::Ready(Ok(())) };
            match ready!(Pin::new(incoming).poll_next(context)) {
                None => {
                    self.incoming = None;
                    return Poll::Ready(Ok(()));
                }
                Some(Ok(v1::TunnelOutput { output: Some(v1::tunnel_output::Output::Data(data)) })) => {
                    self.unread = data;
                }
                Some(Ok(_)) => {
                    let error = AgentError::malformed("tunnel", "a message without data");
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
                Some(Err(status)) => {
                    let error = AgentError::from_status("tunnel", &status);
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, error)));
                }
            }
        }
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..length]);
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.outgoing.poll_ready(context)).map_err(|_| closed())?;
        let length = data.len().min(CHUNK_BYTES);
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        let piece = v1::tunnel_input::Input::Data(Bytes::copy_from_slice(&data[..length]));
        self.outgoing.start_send(v1::TunnelInput { input: Some(piece) }).map_err(|_| closed())?;
        Poll::Ready(Ok(length))
    }

    /// What was written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.disconnect();
        Poll::Ready(Ok(()))
    }
}

/// Giving up the incoming half resets the call, and a reset takes the place of what was written
/// and has not been sent. So that half is kept until the program has ended too.
impl Drop for TunnelStream {
    fn drop(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        let (Ok(runtime), Ok(place)) =
            (tokio::runtime::Handle::try_current(), self.lingering.clone().try_acquire_owned())
        else {
            return;
        };
        self.outgoing.disconnect();
        runtime.spawn(async move {
            let _ = tokio::time::timeout(LINGER, linger(incoming)).await;
            drop(place);
        });
    }
}

/// Until the program has ended. One that says much more is not listened to.
async fn linger(mut incoming: tonic::Streaming<v1::TunnelOutput>) {
    let mut heard = 0;
    while let Ok(Some(message)) = incoming.message().await {
        if let Some(v1::tunnel_output::Output::Data(data)) = message.output {
            heard += data.len();
        }
        if heard > LINGER_BYTES {
            std::future::pending::<()>().await;
        }
    }
}

/// Services offered to the sandbox, for as long as this lives.
pub struct ServiceOffer {
    client: AgentClient,
    names: Vec<String>,
    announced: tonic::Streaming<v1::ServiceConnection>,
}

/// A program in the sandbox connected to a service. Dropping it without accepting lets the
/// connection wait until the agent gives it up.
pub struct ServiceRequest {
    /// Which service: one of those that were offered.
    pub service: String,
    client: AgentClient,
    connection_id: u64,
}

impl ServiceRequest {
    /// Takes the connection.
    pub async fn accept(self) -> Result<TunnelStream, AgentError> {
        self.client.open_tunnel(v1::tunnel_header::Target::ConnectionId(self.connection_id)).await
    }
}

impl ServiceOffer {
    /// The next connection; `None` when the offer has ended. Waits as long as nobody connects.
    pub async fn next(&mut self) -> Result<Option<ServiceRequest>, AgentError> {
        let announced = self.announced.message().await;
        let announced = announced.map_err(|status| AgentError::from_status("offer_services", &status))?;
        let Some(announced) = announced else { return Ok(None) };
        if announced.connection_id == 0 || !self.names.contains(&announced.service) {
            return Err(AgentError::malformed("offer_services", "a connection to nothing that is offered"));
        }
        Ok(Some(ServiceRequest {
            service: announced.service,
            client: self.client.clone(),
            connection_id: announced.connection_id,
        }))
    }
}

impl AgentClient {
    /// Connects to a TCP port on the sandbox's loopback.
    pub async fn tunnel(&self, port: u16) -> Result<TunnelStream, AgentError> {
        self.open_tunnel(v1::tunnel_header::Target::Port(port.into())).await
    }

    async fn open_tunnel(&self, target: v1::tunnel_header::Target) -> Result<TunnelStream, AgentError> {
        let slot = Mutex::new(None);
        let opened = async {
            let mut incoming = self
                .call("tunnel", CALL_LIMIT, |stub| {
                    let (sender, written) = mpsc::channel(QUEUED_INPUT);
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
                    let header = v1::tunnel_input::Input::Header(v1::TunnelHeader { target: Some(target) });
                    let first = stream::iter([v1::TunnelInput { input: Some(header) }]);
                    let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                    async move { stub.tunnel(first.chain(written)).await }
                })
                .await?;
            let first =
                incoming.message().await.map_err(|status| AgentError::from_status("tunnel", &status))?;
            let is_open = matches!(
                first.and_then(|message| message.output),
                Some(v1::tunnel_output::Output::Opened(_))
            );
            let outgoing = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            match outgoing.filter(|_| is_open) {
                Some(outgoing) => Ok(TunnelStream {
                    outgoing,
                    incoming: Some(incoming),
                    lingering: self.lingering(),
                    unread: Bytes::new(),
                }),
                None => Err(AgentError::malformed("tunnel", "it does not begin by being open")),
            }
        };
        let opened = tokio::time::timeout(CALL_LIMIT, opened).await;
        opened.unwrap_or(Err(AgentError::TimedOut { call: "tunnel", limit: CALL_LIMIT }))
    }

    /// Makes services reachable in the sandbox, each at `/run/emergent/services/<name>`. When
    /// this returns the sockets are there.
    pub async fn offer_services(&self, names: &[&str]) -> Result<ServiceOffer, AgentError> {
        self.offer_services_at(names, &[]).await
    }

    /// The same, some also at a TCP port of the sandbox's loopback, as long as no program there has it.
    pub async fn offer_services_at(
        &self,
        names: &[&str],
        ports: &[(&str, u16)],
    ) -> Result<ServiceOffer, AgentError> {
        let names: Vec<String> = names.iter().take(MAX_SERVICES).map(|name| (*name).to_owned()).collect();
        let ports = ports.iter().map(|(name, port)| ((*name).to_owned(), u32::from(*port))).collect();
        let request = v1::OfferServicesRequest { names: names.clone(), ports };
        let opened = async {
            let mut announced = self
                .call("offer_services", CALL_LIMIT, |stub| {
                    let request = request.clone();
                    let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                    async move { stub.offer_services(request).await }
                })
                .await?;
            let first = announced.message().await;
            let first = first.map_err(|status| AgentError::from_status("offer_services", &status))?;
            match first {
                Some(first) if first.connection_id == 0 => {
                    Ok(ServiceOffer { client: self.clone(), names, announced })
                }
                _ => Err(AgentError::malformed("offer_services", "it does not begin by being offered")),
            }
        };
        let opened = tokio::time::timeout(CALL_LIMIT, opened).await;
        opened.unwrap_or(Err(AgentError::TimedOut { call: "offer_services", limit: CALL_LIMIT }))
    }
}
