//! TLS in front of a server of a test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Whom the server says it is. Made once, valid until 2120, and known to nobody but tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerName {
    /// `127.0.0.1` and `localhost`.
    Loopback,
    /// `elsewhere.invalid`.
    Elsewhere,
}

/// TLS in front of a port. It ends when this is dropped.
pub struct TlsFront {
    address: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl TlsFront {
    /// Passes everything on to this address.
    ///
    /// # Panics
    ///
    /// When there is no port for it.
    pub fn start(to: SocketAddr, name: ServerName) -> Self {
        let (certificate, key): (&'static [u8], &'static [u8]) = match name {
            ServerName::Loopback => (include_bytes!("tls/server.der"), include_bytes!("tls/server.key.der")),
            ServerName::Elsewhere => (include_bytes!("tls/other.der"), include_bytes!("tls/other.key.der")),
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
                config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(certificate)], key)
            })
            .expect("a certificate that was made for this");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, to, TlsAcceptor::from(Arc::new(config))) => {}
                    _ = ended => {}
                }
            });
        });
        Self { address, _end: end }
    }

    /// Where it is, without a path.
    pub fn origin(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authority that has signed all certificates, for `SSL_CERT_FILE`.
    pub fn authority() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/authority.pem")
    }
}

async fn serve(listener: std::net::TcpListener, to: SocketAddr, acceptor: TlsAcceptor) {
    let listening = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    let Ok(listener) = listening else { return };
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(mut outside) = acceptor.accept(stream).await else { return };
            let Ok(mut inside) = TcpStream::connect(to).await else { return };
            // Whoever tests it sees what came of it.
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}
