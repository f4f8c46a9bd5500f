//! Connects standard input and output to the agent's socket.
//!
//! The far end of a `docker exec`: bytes in both directions, nothing understood. The end of
//! input is passed on as such, and what is still coming back is delivered; the end of the
//! socket ends the relay at once.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

/// As much as a pipe holds.
const BUFFER_BYTES: usize = 64 << 10;

/// The upward thread does nothing but copy.
const STACK_BYTES: usize = 64 << 10;

/// Relays until the socket has ended or standard output is closed.
pub fn run(socket: &Path) -> io::Result<()> {
    let socket = UnixStream::connect(socket)?;
    // Not through std's handles: those buffer lines.
    let input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    relay(input, output, socket)
}

fn relay(
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
    socket: UnixStream,
) -> io::Result<()> {
    let mut upward = socket.try_clone()?;
    // Detached on purpose: it may wait for input that never comes.
    thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let _ = copy(&mut input, &mut upward);
        let _ = upward.shutdown(Shutdown::Write);
    })?;
    copy(&mut &socket, &mut output)
}

/// Like `io::copy`, with a buffer on the heap of our size and no delay of what has come.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(buffer.get(..read).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_end_of_input_is_passed_on_and_the_answer_is_delivered() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let agent = thread::spawn(move || {
            let mut question = Vec::new();
            far.read_to_end(&mut question).unwrap();
            far.write_all(&[b"you said: ".to_vec(), question].concat()).unwrap();
        });
        let mut answer = Vec::new();
        relay(io::Cursor::new(b"hello".to_vec()), &mut answer, near).unwrap();
        assert_eq!(answer, b"you said: hello");
        agent.join().unwrap();
    }

    #[test]
    fn the_end_of_the_socket_is_the_end() {
        let (near, far) = UnixStream::pair().unwrap();
        // Input that never ends.
        let (waiting, _held) = UnixStream::pair().unwrap();
        drop(far);
        relay(waiting, io::sink(), near).unwrap();
    }
}
