//! A git server on loopback that speaks smart HTTP through git's own `http-backend`, wants a token, and remembers
//! what it was sent.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// What the server does with its next requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitBehaviour {
    /// What is asked.
    Serve,
    /// Closes the connection without an answer.
    BreakOff,
    /// Answers this, whatever is asked.
    Answer(u16),
    /// Sends whoever asks elsewhere.
    Redirect(String),
    /// Serves the transfer itself a few bytes at a time.
    Drip,
    /// Takes the transfer itself and says nothing, until whoever asked has gone.
    Hold,
}

/// A request that was made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRequestSeen {
    /// The method and the path, with the query.
    pub line: String,
    /// What it was shown, where it was shown anything.
    pub authorization: Option<String>,
    /// All of its head.
    pub head: String,
}

/// The server. It ends when this is dropped.
pub struct GitServer {
    address: SocketAddr,
    root: TempDir,
    state: Arc<State>,
}

struct State {
    root: PathBuf,
    token: Option<String>,
    seen: Mutex<Vec<GitRequestSeen>>,
    /// What to do, from the next request on; the last stays.
    behaviour: Mutex<Vec<GitBehaviour>>,
    ended: AtomicBool,
}

impl GitServer {
    /// Starts one that wants this token as the password of any name; without one it serves everybody.
    ///
    /// # Panics
    ///
    /// When there is no port or no folder for it.
    pub fn start(token: Option<&str>) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            root: root.path().to_owned(),
            token: token.map(str::to_owned),
            seen: Mutex::default(),
            behaviour: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&shared)) else { continue };
                thread::spawn(move || state.serve(stream));
            }
        });
        Self { address, root, state }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same without a path, as an address of the web.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.origin())
    }

    /// Makes a repository with a file `README` on `main`, a branch `feature` and a tag `v1`.
    ///
    /// # Panics
    ///
    /// When git does not.
    pub fn create_repository(&self, name: &str) {
        let bare = self.root.path().join(name);
        let script = "set -eu
            git init -q --bare -b main \"$1\"
            git -C \"$1\" config http.receivepack true
            work=$(mktemp -d); cd \"$work\"; git init -q -b main .
            export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
            echo one > README; git add .; git commit -qm one; git tag v1
            echo two > README; git commit -qam two
            git checkout -q -b feature; echo feature > feature.txt; git add .; git commit -qm feature
            git checkout -q main
            git push -q \"$1\" main feature v1; rm -rf \"$work\"";
        self.script(script, &bare).expect("a repository");
    }

    /// Runs git in a repository, as somebody else would.
    ///
    /// # Panics
    ///
    /// When git fails.
    pub fn git(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(self.root.path().join(name))
            .args(arguments)
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@b")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@b")
            .output()
            .expect("git");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Somebody else commits a file to a branch.
    ///
    /// # Panics
    ///
    /// When git does not.
    pub fn commit(&self, name: &str, branch: &str, file: &str, content: &str) {
        let script = format!(
            "set -eu
            work=$(mktemp -d); git clone -q -b '{branch}' \"$1\" \"$work\"; cd \"$work\"
            export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
            mkdir -p \"$(dirname '{file}')\"; printf '%s' '{content}' > '{file}'; git add -A .; git commit -qm 'change {file}'
            git push -q origin HEAD; rm -rf \"$work\""
        );
        self.script(&script, &self.root.path().join(name)).expect("a commit");
    }

    /// Runs a script with the folder of a repository as its argument.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn run(&self, name: &str, script: &str) {
        self.script(script, &self.root.path().join(name)).expect("the script");
    }

    fn script(&self, script: &str, argument: &Path) -> Result<()> {
        let mut command = Command::new("sh");
        let output = command.args(["-c", script, "sh"]).arg(argument).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Decides about the next requests, one each; the last holds for all that follow.
    pub fn behave(&self, behaviour: &[GitBehaviour]) {
        *self.state.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour.to_vec();
    }

    /// What it was asked so far.
    pub fn seen(&self) -> Vec<GitRequestSeen> {
        self.state.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

struct Head {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    whole: String,
}

impl Head {
    fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl State {
    fn next_behaviour(&self) -> GitBehaviour {
        let mut behaviour = self.behaviour.lock().unwrap_or_else(PoisonError::into_inner);
        match behaviour.len() {
            0 => GitBehaviour::Serve,
            1 => behaviour[0].clone(),
            _ => behaviour.remove(0),
        }
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let mut reader = BufReader::new(reading);
        let mut stream = stream;
        // Whoever tests it sees what came of it.
        let _ = self.answer(&mut reader, &mut stream);
    }

    fn answer(&self, reader: &mut BufReader<TcpStream>, stream: &mut TcpStream) -> Result<()> {
        let head = read_head(reader)?;
        let authorization = head.get("authorization").map(str::to_owned);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(GitRequestSeen {
            line: format!("{} {}", head.method, head.target),
            authorization: authorization.clone(),
            head: head.whole.clone(),
        });
        let behaviour = self.next_behaviour();
        match &behaviour {
            GitBehaviour::BreakOff => return Ok(()),
            GitBehaviour::Answer(status) => return plain(stream, *status, ""),
            GitBehaviour::Redirect(to) => return plain(stream, 302, &format!("Location: {to}\r\n")),
            GitBehaviour::Hold if head.method == "POST" => {
                return Ok(std::io::copy(reader, &mut std::io::sink()).map(drop)?);
            }
            GitBehaviour::Serve | GitBehaviour::Drip | GitBehaviour::Hold => {}
        }
        let body = read_body(&head, reader)?;
        if !self.is_admitted(authorization.as_deref()) {
            return plain(stream, 401, "WWW-Authenticate: Basic realm=\"git\"\r\n");
        }
        let (status, headers, answer) = self.backend(&head, &body)?;
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        )?;
        if behaviour == GitBehaviour::Drip && head.method == "POST" {
            for piece in answer.chunks(1024) {
                stream.write_all(piece)?;
                thread::sleep(Duration::from_millis(50));
            }
            return Ok(());
        }
        Ok(stream.write_all(&answer)?)
    }

    fn is_admitted(&self, authorization: Option<&str>) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = authorization.and_then(|shown| shown.strip_prefix("Basic ")).and_then(decode_base64);
        shown.and_then(|shown| shown.split_once(':').map(|(_, password)| password == token)).unwrap_or(false)
    }

    /// git's own, as a web server runs it.
    fn backend(&self, head: &Head, body: &[u8]) -> Result<(String, String, Vec<u8>)> {
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        let mut command = Command::new("git");
        command
            .arg("http-backend")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REMOTE_USER", "somebody")
            .env("REQUEST_METHOD", &head.method)
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_LENGTH", body.len().to_string());
        for (variable, header) in [
            ("CONTENT_TYPE", "content-type"),
            ("HTTP_CONTENT_ENCODING", "content-encoding"),
            ("HTTP_GIT_PROTOCOL", "git-protocol"),
        ] {
            if let Some(value) = head.get(header) {
                command.env(variable, value);
            }
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut input = child.stdin.take().context("no input")?;
        let sent = body.to_vec();
        let sending = thread::spawn(move || input.write_all(&sent));
        let output = child.wait_with_output()?.stdout;
        let _ = sending.join();
        let end = output.windows(4).position(|window| window == b"\r\n\r\n").context("no head")?;
        let mut status = "200 OK".to_owned();
        let mut headers = String::new();
        for line in String::from_utf8_lossy(&output[..end]).lines() {
            match line.strip_prefix("Status: ") {
                Some(found) => status = found.to_owned(),
                None => headers.push_str(&format!("{line}\r\n")),
            }
        }
        Ok((status, headers, output[end + 4..].to_vec()))
    }
}

fn plain(stream: &mut TcpStream, status: u16, headers: &str) -> Result<()> {
    write!(stream, "HTTP/1.1 {status} No\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n")?;
    Ok(())
}

fn read_head(reader: &mut BufReader<TcpStream>) -> Result<Head> {
    let mut whole = String::new();
    loop {
        let before = whole.len();
        if reader.read_line(&mut whole)? == 0 {
            bail!("no request");
        }
        if whole[before..].trim_end().is_empty() {
            break;
        }
    }
    let mut lines = whole.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let header =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok(Head {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: lines.filter_map(header).collect(),
        whole: whole.clone(),
    })
}

fn read_body(head: &Head, reader: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = head.get("content-length") {
        reader.take(length.parse()?).read_to_end(&mut body)?;
        return Ok(body);
    }
    if head.get("transfer-encoding") != Some("chunked") {
        return Ok(body);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16)?;
        reader.by_ref().take(length).read_to_end(&mut body)?;
        reader.read_line(&mut line)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// As much of base64 as credentials need.
fn decode_base64(text: &str) -> Option<String> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        bits = (bits << 6) | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Everything below a folder, for who looks for something in it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}
