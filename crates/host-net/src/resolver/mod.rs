//! Names for sandboxes: a forwarder to the host's resolvers, which are usually in ranges that
//! sandboxes may not reach.
//!
//! Its sockets are opened inside the sandbox's namespace, on its loopback: no port of the
//! host is open, no rule is needed, and who asks is known. Every sandbox has a share of its
//! own; what is too much is dropped, as a busy resolver would.

mod query;
mod upstreams;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use query::{SERVER_FAILURE, Verdict};
pub(crate) use upstreams::parse as parse_resolv_conf;
use upstreams::{Over, Upstreams, read_message, write_message};

/// Where sandboxes find it.
pub const RESOLVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);

/// Questions of one sandbox under way at once.
const MAX_QUESTIONS: usize = 64;
/// Connections of one sandbox open at once.
const MAX_CONNECTIONS: usize = 16;
/// Questions on one connection.
const MAX_PER_CONNECTION: usize = 100;
/// How long a connection may be silent, and an answer may take to be taken.
const IDLE: Duration = Duration::from_secs(10);
/// Longer questions are nobody's.
const MAX_UDP_QUESTION: usize = 4096;

/// Sockets in a sandbox's namespace.
pub(crate) struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Sockets {
    /// Opens them in the namespace of the calling thread, whose loopback must be up.
    pub(crate) fn open() -> io::Result<Self> {
        let udp = UdpSocket::bind(RESOLVER)?;
        let tcp = TcpListener::bind(RESOLVER)?;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self { udp, tcp })
    }
}

/// Passes questions on.
pub(crate) struct Resolver {
    upstreams: Arc<Upstreams>,
}

impl Resolver {
    pub(crate) fn new(resolv_conf: PathBuf) -> Self {
        Self { upstreams: Arc::new(Upstreams::new(resolv_conf)) }
    }

    /// Serves one sandbox until the returned future is dropped.
    pub(crate) fn serve(&self, sockets: Sockets) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let upstreams = Arc::clone(&self.upstreams);
        async move {
            let udp = Arc::new(tokio::net::UdpSocket::from_std(sockets.udp)?);
            let tcp = tokio::net::TcpListener::from_std(sockets.tcp)?;
            tokio::join!(serve_udp(udp, Arc::clone(&upstreams)), serve_tcp(tcp, upstreams));
            Ok(())
        }
    }
}

async fn serve_udp(socket: Arc<tokio::net::UdpSocket>, upstreams: Arc<Upstreams>) {
    let room = Arc::new(Semaphore::new(MAX_QUESTIONS));
    // Everything under way ends when this does.
    let mut under_way = JoinSet::new();
    let mut question = vec![0; MAX_UDP_QUESTION + 1];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut question).await else {
            // An answer that nobody was there for comes back as an error.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        while under_way.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        if length > MAX_UDP_QUESTION {
            continue;
        }
        let question = question[..length].to_vec();
        let (socket, upstreams) = (Arc::clone(&socket), Arc::clone(&upstreams));
        under_way.spawn(async move {
            let _permit = permit;
            if let Some(answer) = answer_to(&question, &upstreams, Over::Udp).await {
                let _ = timeout(IDLE, socket.send_to(&answer, from)).await;
            }
        });
    }
}

async fn serve_tcp(listener: tokio::net::TcpListener, upstreams: Arc<Upstreams>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while open.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let upstreams = Arc::clone(&upstreams);
        open.spawn(async move {
            let _permit = permit;
            let _ = converse(stream, &upstreams).await;
        });
    }
}

async fn converse(mut stream: TcpStream, upstreams: &Upstreams) -> io::Result<()> {
    for _ in 0..MAX_PER_CONNECTION {
        let question = timeout(IDLE, read_message(&mut stream)).await??;
        let Some(answer) = answer_to(&question, upstreams, Over::Tcp).await else { break };
        timeout(IDLE, write_message(&mut stream, &answer)).await??;
    }
    Ok(())
}

async fn answer_to(question: &[u8], upstreams: &Upstreams, over: Over) -> Option<Vec<u8>> {
    match query::judge(question) {
        Verdict::Ignore => None,
        Verdict::Answer(code) => Some(query::answer(question, code)),
        Verdict::Forward => match upstreams.ask(question, over).await {
            Some(answer) => Some(answer),
            None => Some(query::answer(question, SERVER_FAILURE)),
        },
    }
}
