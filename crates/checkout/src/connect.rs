//! Connecting to a host: its name is looked up here, every address is judged, and the one that passed is the one
//! that is connected to.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::{Reach, reach};
use crate::hosts::Standing;
use crate::origin::Origin;
use crate::refusal::Refusal;

/// How long one address may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// A connection to a host.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to a host that may be spoken to.
pub(crate) async fn connect(origin: &Origin, standing: Standing) -> Result<Connection, Refusal> {
    let host = origin.to_string();
    let unreachable = |reason: String| Refusal::Unreachable { host: host.clone(), reason };
    let looked_up =
        tokio::time::timeout(CONNECT_LIMIT, tokio::net::lookup_host((origin.host.as_str(), origin.port)));
    let found = looked_up.await.map_err(|_| unreachable("its name was not found in time".to_owned()))?;
    let found: Vec<SocketAddr> = found.map_err(|error| unreachable(error.to_string()))?.collect();
    let allowed: Vec<SocketAddr> =
        found.iter().copied().filter(|address| is_allowed(*address, standing)).take(MAX_ADDRESSES).collect();
    if allowed.is_empty() && !found.is_empty() {
        return Err(Refusal::AddressRefused { host });
    }
    let mut reason = "its name leads nowhere".to_owned();
    for address in allowed {
        match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return secure(origin, stream).await.map_err(|error| unreachable(error.to_string()));
            }
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => reason = format!("no answer within {} s", CONNECT_LIMIT.as_secs()),
        }
    }
    Err(unreachable(reason))
}

fn is_allowed(address: SocketAddr, standing: Standing) -> bool {
    match reach(address.ip()) {
        Reach::Public => true,
        Reach::Private => standing.is_named,
        Reach::Never => false,
    }
}

async fn secure(origin: &Origin, stream: TcpStream) -> io::Result<Connection> {
    if !origin.is_tls {
        return Ok(Connection::Plain(stream));
    }
    let name = ServerName::try_from(origin.host.clone()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(tls_config()?);
    let limited = tokio::time::timeout(CONNECT_LIMIT, connector.connect(name, stream)).await;
    limited
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        .map(|stream| Connection::Tls(Box::new(stream)))
}

/// The authorities that this machine trusts, read once.
fn tls_config() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(io::Error::other("this machine trusts no authority; install `ca-certificates`"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, data),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const NAMED: Standing = Standing { is_github: false, is_named: true };
    const UNNAMED: Standing = Standing { is_github: true, is_named: false };

    #[tokio::test]
    async fn a_private_address_must_be_configured() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let origin: Origin = format!("http://{host}:{port}").parse().unwrap();
            assert!(connect(&origin, NAMED).await.is_ok(), "{host}");
            let refused = connect(&origin, UNNAMED).await.err();
            assert_eq!(refused, Some(Refusal::AddressRefused { host: origin.to_string() }));
        }
    }

    #[tokio::test]
    async fn metadata_is_never_reached() {
        for address in ["169.254.169.254", "[fe80::1]", "0.0.0.0", "[::ffff:169.254.169.254]"] {
            let origin: Origin = format!("http://{address}:80").parse().unwrap();
            let refused = connect(&origin, NAMED).await.err();
            assert_eq!(refused, Some(Refusal::AddressRefused { host: origin.to_string() }), "{address}");
        }
    }

    #[tokio::test]
    async fn what_does_not_listen_is_unreachable() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let origin: Origin = format!("http://127.0.0.1:{port}").parse().unwrap();
        let refused = connect(&origin, NAMED).await.err().unwrap();
        assert!(refused.is_worth_retrying(), "{refused}");
    }
}
