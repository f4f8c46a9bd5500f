//! Bytes between a task and a thread that may block, a few chunks at a time.
//!
//! An end is said, not guessed: when one side goes away in the middle, the other gets an error.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Chunks under way. With [`SIZE`] this is what is held in memory.
const AHEAD: usize = 4;
/// Bytes in a chunk that is written here.
const SIZE: usize = 256 << 10;

enum Message<E> {
    Chunk(Bytes),
    Failed(E),
    End,
}

/// From a task to a thread that reads.
pub(crate) fn feed() -> (Feed, Reader) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    (Feed(sender), Reader { receiver, chunk: Bytes::new(), ended: false })
}

/// The task's side.
pub(crate) struct Feed(Sender<Message<io::Error>>);

/// The reader has gone.
pub(crate) struct Gone;

impl Feed {
    pub(crate) async fn chunk(&self, chunk: io::Result<Bytes>) -> Result<(), Gone> {
        let message = match chunk {
            Ok(chunk) => Message::Chunk(chunk),
            Err(error) => Message::Failed(error),
        };
        self.0.send(message).await.map_err(|_| Gone)
    }

    pub(crate) async fn end(&self) {
        // A reader that has gone needs no end.
        let _ = self.0.send(Message::End).await;
    }
}

/// The thread's side. Blocks.
pub(crate) struct Reader {
    receiver: Receiver<Message<io::Error>>,
    chunk: Bytes,
    ended: bool,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Message::Chunk(chunk)) => self.chunk = chunk,
                Some(Message::Failed(error)) => return Err(error),
                Some(Message::End) => self.ended = true,
                None => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "cancelled")),
            }
        }
        let length = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// What a thread writes, as a stream. The thread starts at once and stops when the stream is
/// dropped: writing fails then.
pub(crate) fn written_by<E>(
    write: impl FnOnce(&mut Writer<E>) -> Result<(), E> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, E>> + Send + 'static
where
    E: From<io::Error> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut writer = Writer { sender, chunk: BytesMut::with_capacity(SIZE) };
        let last = match write(&mut writer).and_then(|()| writer.flush().map_err(E::from)) {
            Ok(()) => Message::End,
            Err(error) => Message::Failed(error),
        };
        // Nobody to tell where nobody reads.
        let _ = writer.sender.blocking_send(last);
    });
    futures::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Chunk(chunk)) => Some((Ok(chunk), Some(receiver))),
            Some(Message::Failed(error)) => Some((Err(error), None)),
            Some(Message::End) => None,
            None => {
                let died = io::Error::new(io::ErrorKind::BrokenPipe, "the thread that writes has died");
                Some((Err(died.into()), None))
            }
        }
    })
}

/// The thread's side. Blocks.
pub(crate) struct Writer<E> {
    sender: Sender<Message<E>>,
    chunk: BytesMut,
}

impl<E> Write for Writer<E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(SIZE - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..length]);
        if self.chunk.len() == SIZE {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.chunk, BytesMut::with_capacity(SIZE)).freeze();
        self.sender
            .blocking_send(Message::Chunk(full))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads any more"))
    }
}
