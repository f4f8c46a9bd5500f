//! Ports of the sandbox, and services offered to it.

use std::time::Duration;

use emergent_protocol::{FailureCode, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::support::{Client, Sandbox, eventually, failure};

/// One tunnel, as messages.
struct Tunnel {
    input: Option<mpsc::Sender<v1::TunnelInput>>,
    output: Streaming<v1::TunnelOutput>,
}

impl Tunnel {
    async fn open(client: &mut Client, target: v1::tunnel_header::Target) -> Result<Self, Status> {
        let (sender, input) = mpsc::channel(4);
        let header = v1::TunnelHeader { target: Some(target) };
        let first = v1::TunnelInput { input: Some(v1::tunnel_input::Input::Header(header)) };
        sender.send(first).await.expect("room");
        let mut output = client.stub.tunnel(ReceiverStream::new(input)).await?.into_inner();
        let opened = output.message().await?.and_then(|message| message.output);
        assert!(matches!(opened, Some(v1::tunnel_output::Output::Opened(_))), "{opened:?}");
        Ok(Self { input: Some(sender), output })
    }

    async fn send(&self, data: &[u8]) {
        let message = v1::TunnelInput { input: Some(v1::tunnel_input::Input::Data(data.to_vec().into())) };
        self.input.as_ref().expect("open").send(message).await.expect("taken");
    }

    /// Everything up to the end.
    async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(message) = self.output.message().await.expect("no failure") {
            match message.output {
                Some(v1::tunnel_output::Output::Data(data)) => bytes.extend_from_slice(&data),
                other => panic!("{other:?}"),
            }
        }
        bytes
    }

    async fn next(&mut self) -> Vec<u8> {
        match self.output.message().await.expect("no failure").and_then(|message| message.output) {
            Some(v1::tunnel_output::Output::Data(data)) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

fn port(number: u16) -> v1::tunnel_header::Target {
    v1::tunnel_header::Target::Port(number.into())
}

/// Each direction ends by itself, whichever is first.
#[tokio::test]
async fn either_side_may_stop_talking_first() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let number = listener.local_addr().expect("bound").port();

    // The caller stops, the program answers afterwards.
    let mut tunnel = Tunnel::open(&mut client, port(number)).await.expect("listens");
    let (mut program, _) = listener.accept().await.expect("connects");
    tunnel.send(b"question").await;
    tunnel.input = None;
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).await.expect("reads");
    assert_eq!(heard, b"question");
    program.write_all(b"answer").await.expect("writes");
    drop(program);
    assert_eq!(tunnel.rest().await, b"answer");

    // The program stops, the caller goes on.
    let mut tunnel = Tunnel::open(&mut client, port(number)).await.expect("listens");
    let (mut program, _) = listener.accept().await.expect("connects");
    program.write_all(b"greeting").await.expect("writes");
    program.shutdown().await.expect("open");
    assert_eq!(tunnel.rest().await, b"greeting");
    tunnel.send(b"late").await;
    tunnel.input = None;
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).await.expect("reads");
    assert_eq!(heard, b"late");

    // The caller goes away altogether.
    let tunnel = Tunnel::open(&mut client, port(number)).await.expect("listens");
    let (mut program, _) = listener.accept().await.expect("connects");
    drop(tunnel);
    assert_eq!(program.read(&mut [0; 8]).await.unwrap_or(0), 0, "the program is told");
    sandbox.end().await;
}

#[tokio::test]
async fn nobody_listens_and_no_port_at_all() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound").port();
    let refused = Tunnel::open(&mut client, port(free)).await.err().expect("nobody listens");
    assert_eq!(failure(&refused).0, FailureCode::PortClosed);
    let only_six = TcpListener::bind("[::1]:0").await.expect("a port");
    let number = only_six.local_addr().expect("bound").port();
    Tunnel::open(&mut client, port(number)).await.expect("found on IPv6");
    for target in [v1::tunnel_header::Target::Port(0), v1::tunnel_header::Target::Port(65_536)] {
        let refused = Tunnel::open(&mut client, target).await.err().expect("no port");
        assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
    }
    let gone = v1::tunnel_header::Target::ConnectionId(99);
    let refused = Tunnel::open(&mut client, gone).await.err().expect("no such connection");
    assert_eq!(failure(&refused).0, FailureCode::PortClosed);
    let no_header = client.stub.tunnel(tokio_stream::iter(Vec::<v1::TunnelInput>::new())).await;
    assert_eq!(failure(&no_header.expect_err("refused")).0, FailureCode::InvalidRequest);
    sandbox.end().await;
}

/// A reader that does not read holds the program back, and nobody else.
#[tokio::test]
async fn many_tunnels_and_one_that_nobody_reads() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let number = listener.local_addr().expect("bound").port();
    let echo = tokio::spawn(async move {
        loop {
            let Ok((mut socket, _)) = listener.accept().await else { return };
            tokio::spawn(async move {
                let (mut read, mut write) = socket.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    let stalled = Tunnel::open(&mut client, port(number)).await.expect("listens");
    let flood = async {
        loop {
            stalled.send(&[b'x'; 64 << 10]).await;
        }
    };
    let stopped = tokio::time::timeout(Duration::from_secs(2), flood).await;
    assert!(stopped.is_err(), "what nobody reads is taken without end");
    let mut tunnels = Vec::new();
    for number_of in 0..100 {
        let tunnel = Tunnel::open(&mut client, port(number)).await.expect("listens");
        tunnel.send(format!("tunnel {number_of}").as_bytes()).await;
        tunnels.push(tunnel);
    }
    for (number_of, tunnel) in tunnels.iter_mut().enumerate() {
        assert_eq!(tunnel.next().await, format!("tunnel {number_of}").as_bytes());
    }
    echo.abort();
    sandbox.end().await;
}

async fn offer(client: &mut Client, names: &[&str]) -> Result<Streaming<v1::ServiceConnection>, Status> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let mut offered = client
        .stub
        .offer_services(v1::OfferServicesRequest { names, ports: Default::default() })
        .await?
        .into_inner();
    let first = offered.message().await?.expect("a first message");
    assert_eq!((first.connection_id, first.service.as_str()), (0, ""));
    Ok(offered)
}

/// A program connects, the control plane takes the connection, and they talk.
#[tokio::test]
async fn a_service_is_there_as_long_as_its_offer() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("run/services");
    let sandbox = Sandbox::start_with(|config| config.services = folder.clone());
    let mut client = sandbox.client().await;
    let mut offered = offer(&mut client, &["git-proxy", "clock"]).await.expect("offers");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(folder.join("clock")).expect("there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o666);

    let mut program = UnixStream::connect(folder.join("clock")).await.expect("offered");
    program.write_all(b"time?").await.expect("writes");
    let announced = offered.message().await.expect("no failure").expect("announced");
    assert_eq!(announced.service, "clock");
    let target = v1::tunnel_header::Target::ConnectionId(announced.connection_id);
    let mut tunnel = Tunnel::open(&mut client, target).await.expect("waits");
    assert_eq!(tunnel.next().await, b"time?");
    tunnel.send(b"late").await;
    tunnel.input = None;
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).await.expect("reads");
    assert_eq!(heard, b"late");
    let again = Tunnel::open(&mut client, target).await.err().expect("taken once");
    assert_eq!(failure(&again).0, FailureCode::PortClosed);

    // A second offer of the same name takes over, and the end of the first does not end it.
    let mut second = offer(&mut client, &["clock"]).await.expect("offers again");
    drop(offered);
    eventually("the first offer has ended", || async { !folder.join("git-proxy").exists() }).await;
    let _program = UnixStream::connect(folder.join("clock")).await.expect("still offered");
    assert_eq!(second.message().await.expect("no failure").expect("announced").service, "clock");
    drop(second);
    eventually("nothing is left", || async { !folder.exists() }).await;

    for names in [&[][..], &["../x"], &["A"], &["a", ""]] {
        let refused = offer(&mut client, names).await.expect_err("refused");
        assert_eq!(failure(&refused).0, FailureCode::InvalidRequest, "{names:?}");
    }
    sandbox.end().await;
}

/// Sockets of an agent that was killed are in nobody's way.
#[tokio::test]
async fn what_a_killed_agent_left_is_replaced() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("services");
    std::fs::create_dir(&folder).expect("writable");
    drop(std::os::unix::net::UnixListener::bind(folder.join("git")).expect("a socket"));
    assert!(folder.join("git").exists());
    let sandbox = Sandbox::start_with(|config| config.services = folder.clone());
    let mut client = sandbox.client().await;
    let _offered = offer(&mut client, &["git"]).await.expect("offers");
    UnixStream::connect(folder.join("git")).await.expect("a new one");
    sandbox.end().await;
}
