//! The least that can be called an agent: for every connection, reads a shell script to the
//! end of the stream, runs it, and answers with its output and exit status.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};

/// As the agent does it: commands die of want of memory before the agent does.
const PREAMBLE: &str = "echo 500 > /proc/self/oom_score_adj\n";

pub(crate) fn main() -> ExitCode {
    let Some(listener) = inherited_listener() else { return ExitCode::FAILURE };
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || serve(stream));
    }
    ExitCode::FAILURE
}

/// The socket inherited as descriptor 3, by way of `/proc` and without trust in the number.
fn inherited_listener() -> Option<UnixListener> {
    let number = std::env::args().skip_while(|argument| argument != "--listen-fd").nth(1)?;
    let number: i32 = number.parse().ok()?;
    descriptor(number).map(UnixListener::from)
}

#[expect(unsafe_code, reason = "an inherited descriptor is known by its number alone")]
fn descriptor(number: i32) -> Option<OwnedFd> {
    // SAFETY: the launch helper passes an open descriptor under this number, and it is only
    // borrowed for as long as it takes to duplicate it.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    (inherited.as_raw_fd() > 2).then(|| inherited.try_clone_to_owned().ok()).flatten()
}

fn serve(mut stream: UnixStream) {
    let mut script = String::from(PREAMBLE);
    if stream.read_to_string(&mut script).is_err() {
        return;
    }
    let answer = match Command::new("/bin/sh").arg("-c").arg(script).stdin(Stdio::null()).output() {
        Ok(output) => {
            let mut text = output.stdout;
            text.extend(output.stderr);
            text.extend(format!("\n{}", output.status).into_bytes());
            text
        }
        Err(error) => format!("\n{error}").into_bytes(),
    };
    let _ = stream.write_all(&answer);
    let _ = stream.shutdown(Shutdown::Both);
}
