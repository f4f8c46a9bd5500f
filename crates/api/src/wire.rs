//! A connection's bytes, so that neither end can hold the other up for ever.
//!
//! - A client that takes nothing of what is written for it is not waited for longer than a
//!   limit: an answer, a download, events or a WebSocket end then, with everything they hold.
//! - A client that is busy sending when its answer is already written (a body that is too large,
//!   a message that is too long) must be able to read that answer. Closing a connection on which
//!   unread bytes lie destroys what was written, so those bytes are taken in for a while and
//!   thrown away.
//! - What the HTTP layer says by itself about a head that it cannot read gets the
//!   [body](crate::refused_head) of every other refusal. That it is the HTTP layer who speaks is
//!   known from nobody else having anything to say, not from what is said.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, Sleep};

use crate::connections::Connection;
use crate::metrics::names;
use crate::refused_head;

/// How much of what nobody needs any more is taken in, and for how long.
const LINGER_BYTES: usize = 128 << 20;
const LINGER_LIMIT: Duration = Duration::from_secs(5);

/// How many connections linger at once; one more is closed at once.
static LINGERING: Semaphore = Semaphore::const_new(128);

/// How much is thrown away at a time.
const LINGER_STEP: usize = 16 << 10;

/// How much the kernel keeps that is not sent yet. It takes no more before half of that is gone,
/// so a client that reads slowly is seen to read.
const UNSENT_BYTES: u32 = 128 << 10;

/// Sets a connection up before it is served.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// One connection's bytes.
pub(crate) struct Wire {
    /// Until it lingers.
    stream: Option<TcpStream>,
    connection: Arc<Connection>,
    /// How long the client may take nothing.
    stall_limit: Duration,
    /// When that is over; set while something waits to be taken.
    stalled: Option<Pin<Box<Sleep>>>,
    /// The client sends no more, or cannot be written to: nothing to linger for.
    is_over: bool,
    /// How many requests had been answered when everything that was to be written was.
    answered: Option<u64>,
    /// What is written instead of what the HTTP layer said by itself.
    instead: Bytes,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, connection: Arc<Connection>, stall_limit: Duration) -> Self {
        Self {
            stream: Some(stream),
            connection,
            stall_limit,
            stalled: None,
            is_over: false,
            answered: Some(0),
            instead: Bytes::new(),
        }
    }

    /// Whether something else is written instead of this.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        // Between the last flush and now nobody was asked, and before that all was answered.
        if self.answered.is_none() || self.connection.answered() != self.answered {
            return false;
        }
        match refused_head::answer(bytes) {
            Some(instead) => {
                self.instead = instead.into();
                true
            }
            None => false,
        }
    }

    /// Writes what is written instead, to its end.
    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let bytes = self.instead.clone();
            let written = self.stream()?.poll_write(context, &bytes);
            let count = ready!(self.watched(written, context))?;
            self.instead.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Notes how a write went, and gives up where nothing has been taken for too long.
    fn watched<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(result) => {
                self.stalled = None;
                self.is_over |= result.is_err();
                Poll::Ready(result)
            }
            Poll::Pending => {
                let limit = self.stall_limit;
                let stalled = self
                    .stalled
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
                if stalled.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.is_over = true;
                metrics::counter!(names::CONNECTIONS_CLOSED, "reason" => "stalled").increment(1);
                tracing::debug!("a client took nothing for {limit:?}");
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(context, buffer);
        let nothing_came = buffer.filled().len() == before && buffer.remaining() > 0;
        if matches!(&read, Poll::Ready(Ok(()))) && nothing_came || matches!(&read, Poll::Ready(Err(_))) {
            self.is_over = true;
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = self.stream()?.poll_write(context, bytes);
        self.watched(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(context))?;
        if let [head] = parts
            && self.replaces(head)
        {
            return Poll::Ready(Ok(head.len()));
        }
        let written = self.stream()?.poll_write_vectored(context, parts);
        self.watched(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        // The HTTP layer flushes when it has nothing left to write.
        self.answered = self.connection.answered();
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(context))?;
        self.stream()?.poll_shutdown(context)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        if self.is_over || !self.connection.may_linger() {
            return;
        }
        let (Ok(place), Ok(runtime)) = (LINGERING.try_acquire(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(linger(stream, place));
    }
}

/// Says that nothing more is written, and throws away what still comes.
async fn linger(mut stream: TcpStream, _place: SemaphorePermit<'static>) {
    let thrown_away = async {
        stream.shutdown().await?;
        let mut buffer = vec![0; LINGER_STEP];
        let mut left = LINGER_BYTES;
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok::<_, io::Error>(())
    };
    // Whichever way it ends, the answer is written.
    let _ = tokio::time::timeout(LINGER_LIMIT, thrown_away).await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::connections::Connections;

    async fn pair(stall_limit: Duration) -> (Wire, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        prepare(&stream).unwrap();
        let entered = Connections::default().enter(peer.ip()).unwrap();
        (Wire::new(stream, Arc::clone(entered.connection()), stall_limit), client)
    }

    #[tokio::test]
    async fn who_takes_nothing_is_given_up() {
        let (mut wire, client) = pair(Duration::from_millis(200)).await;
        let endless = async {
            loop {
                if let Err(error) = wire.write_all(&[0; 64 << 10]).await {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(Duration::from_secs(20), endless).await.unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test]
    async fn who_takes_a_little_now_and_then_is_not() {
        let (mut wire, mut client) = pair(Duration::from_millis(1000)).await;
        let total = 8 << 20;
        let writing = tokio::spawn(async move {
            let piece = vec![0; 1 << 20];
            for _ in 0..total >> 20 {
                wire.write_all(&piece).await?;
            }
            Ok::<_, io::Error>(())
        });
        let (mut read, mut buffer) = (0, vec![0; 256 << 10]);
        while read < total {
            // Less than what the kernel keeps, and all together far above the limit.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let some = client.read(&mut buffer).await.unwrap();
            assert_ne!(some, 0, "given up after {read} bytes");
            read += some;
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_answer_reaches_who_is_still_sending() {
        let (mut wire, mut client) = pair(Duration::from_secs(60)).await;
        client.write_all(&[b'x'; 256 << 10]).await.unwrap();
        wire.write_all(b"enough").await.unwrap();
        drop(wire);
        for _ in 0..64 {
            client.write_all(&[b'x'; 64 << 10]).await.unwrap();
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "enough");
    }
}
