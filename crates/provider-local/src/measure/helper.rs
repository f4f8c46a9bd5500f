//! The helper's side: a process with one thread that counts and ends.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Counted, Request, walk};
use crate::launch::{die_with_server, enter_user_namespace};
use crate::means::Launcher;

/// The whole of a helper that measures.
pub(crate) fn main() -> ExitCode {
    let answer = run().map_err(|error| error.to_string());
    let said =
        serde_json::to_vec(&answer).map_err(io::Error::from).and_then(|line| io::stdout().write_all(&line));
    if answer.is_ok() && said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run() -> io::Result<Counted> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    die_with_server(request.server)?;
    // Whoever works comes first.
    rustix::process::nice(19)?;
    if request.launcher == Launcher::Unprivileged {
        enter_user_namespace()?;
        // Becoming somebody else may have cleared it.
        die_with_server(request.server)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let disk = openat(CWD, &request.disk, flags, Mode::empty())?;
    walk::count(disk, request.bounds)
}
