//! The host's resolvers, and asking them.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::query::{answers, truncated};

/// How many are asked, as in the host's own library.
const MAX: usize = 3;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long one of them may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Room for an answer over UDP. Longer ones are asked for again over TCP.
const UDP_ANSWER: usize = 16 << 10;

/// The resolvers named in a file.
pub(super) struct Upstreams {
    file: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    servers: Vec<SocketAddr>,
    changed: Option<SystemTime>,
    looked: Option<Instant>,
}

/// How a question is put.
#[derive(Debug, Clone, Copy)]
pub(super) enum Over {
    Udp,
    Tcp,
}

impl Upstreams {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, known: Mutex::new(Known { servers: Vec::new(), changed: None, looked: None }) }
    }

    /// The resolvers, from the file as it is now.
    fn servers(&self) -> Vec<SocketAddr> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_none_or(|looked| looked.elapsed() > LOOK_EVERY) {
            let changed = fs::metadata(&self.file).and_then(|metadata| metadata.modified()).ok();
            if known.looked.is_none() || changed != known.changed {
                known.servers = parse(&fs::read_to_string(&self.file).unwrap_or_default());
                known.changed = changed;
            }
            known.looked = Some(Instant::now());
        }
        known.servers.clone()
    }

    /// Asks one after another until one answers.
    pub(super) async fn ask(&self, question: &[u8], over: Over) -> Option<Vec<u8>> {
        for server in self.servers() {
            let asked = async {
                match over {
                    Over::Udp => over_udp(server, question).await,
                    Over::Tcp => over_tcp(server, question).await,
                }
            };
            if let Ok(Ok(answer)) = timeout(PATIENCE, asked).await {
                return Some(answer);
            }
        }
        None
    }
}

async fn over_udp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    // A port of its own for every question: harder to guess.
    let local: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; UDP_ANSWER];
    loop {
        let length = socket.recv(&mut answer).await?;
        if answers(question, &answer[..length]) {
            if length == UDP_ANSWER {
                return Ok(truncated(question));
            }
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    write_message(&mut stream, question).await?;
    let answer = read_message(&mut stream).await?;
    if answers(question, &answer) { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// A message over TCP comes with its length in front.
pub(super) async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

pub(super) async fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend(message);
    stream.write_all(&framed).await
}

/// As `resolv.conf(5)` says: without any server, the one on this host.
pub(crate) fn parse(text: &str) -> Vec<SocketAddr> {
    let servers: Vec<SocketAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        })
        // A link-local address names its link behind a percent sign.
        .filter_map(|word| match word.split_once('%') {
            None => word.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 53)),
            Some((address, link)) => scoped(address, link),
        })
        .take(MAX)
        .collect();
    if servers.is_empty() { vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 53))] } else { servers }
}

fn scoped(address: &str, link: &str) -> Option<SocketAddr> {
    let index: u32 =
        fs::read_to_string(format!("/sys/class/net/{}/ifindex", plain(link)?)).ok()?.trim().parse().ok()?;
    Some(std::net::SocketAddrV6::new(address.parse().ok()?, 53, 0, index).into())
}

fn plain(link: &str) -> Option<&str> {
    (!link.contains('/') && link != "." && link != "..").then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_as_the_library_does() {
        let check = |text: &str, expect: &[&str]| {
            let expect: Vec<SocketAddr> = expect.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(parse(text), expect, "{text}");
        };
        check("", &["127.0.0.1:53"]);
        check("# nameserver 9.9.9.9\nsearch x\n", &["127.0.0.1:53"]);
        check("nameserver 10.0.0.2\nnameserver\tfd00::53\n", &["10.0.0.2:53", "[fd00::53]:53"]);
        check("nameserver 1.0.0.1\n".repeat(5).as_str(), &["1.0.0.1:53"; 3]);
        check("nameserver nonsense\nnameserver fe80::1%../x\n", &["127.0.0.1:53"]);
        check("nameserver ::1%lo", &["[::1%1]:53"]);
    }
}
