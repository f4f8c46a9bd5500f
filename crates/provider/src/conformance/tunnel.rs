//! Byte streams between the control plane and programs in the sandbox.

use std::time::Duration;

use emergent_agent_client::{AgentError, CommandSpec, TunnelStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::subject::eventually;
use super::{Subject, TestSandbox};

/// A program that listens on a port of its own choice. To one who says `shout` it answers,
/// once that one has said everything, with the rest in capitals; what anybody else says it
/// writes to a file and answers nothing; who says nothing at all is greeted.
const SERVER: &str = "import socket, os
listener = socket.create_server(('127.0.0.1', 0))
with open('port.new', 'w') as file: file.write(str(listener.getsockname()[1]))
os.rename('port.new', 'port')
while True:
    connection, _ = listener.accept()
    heard = b''
    while piece := connection.recv(65536): heard += piece
    if not heard: connection.sendall(b'hello' * 100000)
    elif heard.startswith(b'shout '): connection.sendall(heard[6:].upper())
    else:
        with open('heard.new', 'wb') as file: file.write(heard)
        os.rename('heard.new', 'heard')
    connection.close()
";

/// A program that asks a service: says something, ends its own direction and prints how much
/// it hears.
const CLIENT: &str = "import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b'question' * 20000)
connection.shutdown(socket.SHUT_WR)
heard = b''
while piece := connection.recv(65536): heard += piece
print(len(heard), heard[:6].decode())
";

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(20);

async fn serve(sandbox: &TestSandbox) -> u16 {
    sandbox.client.write_file("server.py", SERVER.into()).await.expect("writes");
    sandbox.client.start_process(&CommandSpec::shell("exec python3 server.py")).await.expect("starts");
    eventually("it listens", || async { sandbox.run("cat port").await.exit.code == 0 }).await;
    sandbox.sh("cat port").await.parse().expect("a port")
}

async fn heard_from(stream: &mut TunnelStream) -> Vec<u8> {
    let mut heard = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
    reading.expect("it ends").expect("no failure");
    heard
}

/// Each direction ends by itself, and what was said before an end comes before it.
pub async fn a_port_is_reached(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let port = serve(&sandbox).await;
    let mut stream = sandbox.client.tunnel(port).await.expect("it listens");
    stream.write_all(b"shout ").await.expect("is taken");
    stream.write_all(&b"word".repeat(250_000)).await.expect("is taken");
    stream.shutdown().await.expect("is taken");
    assert!(heard_from(&mut stream).await == b"WORD".repeat(250_000), "another answer");

    let mut stream = sandbox.client.tunnel(port).await.expect("it listens");
    stream.shutdown().await.expect("is taken");
    assert_eq!(heard_from(&mut stream).await.len(), 500_000);

    // Said, and gone at once.
    let mut stream = sandbox.client.tunnel(port).await.expect("it listens");
    stream.write_all(&b"x".repeat(100_000)).await.expect("is taken");
    drop(stream);
    eventually("all of it is heard", || async {
        sandbox.run("test \"$(stat -c %s heard)\" = 100000").await.exit.code == 0
    })
    .await;
}

/// A port on which nobody listens is named as such.
pub async fn a_closed_port_is_told(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let port = sandbox
        .sh("python3 -c 'import socket; print(socket.create_server((\"127.0.0.1\", 0)).getsockname()[1])'");
    let port = port.await.parse().expect("a port");
    let refused = sandbox.client.tunnel(port).await.err();
    assert!(
        matches!(&refused, Some(AgentError::Failed { code, .. }) if code.as_str() == "port_closed"),
        "{refused:?}"
    );
}

/// A program asks a service of the control plane and hears the whole answer, however the
/// service closes.
pub async fn a_service_is_reached(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.client.write_file("client.py", CLIENT.into()).await.expect("writes");
    let mut offer = sandbox.client.offer_services(&["conformance"]).await.expect("offers");
    let socket = subject.service_path(&sandbox, "conformance");
    for says_so in [true, false] {
        let answer = async {
            let request = offer.next().await.expect("no failure").expect("somebody asks");
            assert_eq!(request.service, "conformance");
            let mut stream = request.accept().await.expect("is still there");
            let heard = heard_from(&mut stream).await;
            assert!(heard == b"question".repeat(20_000), "{} bytes came", heard.len());
            stream.write_all(&b"answer".repeat(50_000)).await.expect("is taken");
            if says_so {
                stream.shutdown().await.expect("is taken");
            }
        };
        let ask = format!("python3 client.py {socket}");
        let (heard, ()) = tokio::join!(sandbox.sh(&ask), answer);
        assert_eq!(heard, "300000 answer", "says so: {says_so}");
    }
    drop(offer);
    eventually("nothing is offered any more", || async {
        sandbox.run(&format!("test -e {socket}")).await.exit.code == 1
    })
    .await;
}
