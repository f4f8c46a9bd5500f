//! Somebody who listens on the engine's host while a sandbox tries to get there, where this process cannot.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::{AttachContainerOptionsBuilder, StartContainerOptions};
use futures::StreamExt;

use super::helper::HelperError;
use crate::engine::EngineError;
use crate::host::Host;

/// How long it may take until it listens.
const LIMIT: Duration = Duration::from_secs(30);

/// Listens on a free port of the address `$0` for a minute and prints the port, with what Debian always has or
/// with what workspaces mostly have.
const SCRIPT: &str = r#"
if command -v perl >/dev/null; then
    exec perl -MIO::Socket::INET -e '$| = 1;
        my $s = IO::Socket::INET->new(LocalAddr => $ARGV[0], Proto => "tcp", Listen => 8) or die $!;
        print $s->sockport, "\n"; sleep 60' "$0"
elif command -v python3 >/dev/null; then
    exec python3 -c 'import socket, sys, time
s = socket.create_server((sys.argv[1], 0)); print(s.getsockname()[1], flush=True); time.sleep(60)' "$0"
fi
echo none
"#;

/// A container that listens.
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) target: SocketAddr,
}

impl Host {
    /// `None` where the image of helpers has no program that can.
    pub(super) async fn listen_by_helper(
        &self,
        docker: &Docker,
        address: IpAddr,
    ) -> Result<Option<Listener>, HelperError> {
        let name = self.make_helper(docker, &["-c", SCRIPT, &address.to_string()], &[]).await?;
        let printed = tokio::time::timeout(LIMIT, first_line(docker, &name)).await;
        let port = match &printed {
            Ok(Ok(line)) => line.trim().parse().ok(),
            Ok(Err(_)) | Err(_) => None,
        };
        if let Some(port) = port {
            return Ok(Some(Listener { name, target: SocketAddr::new(address, port) }));
        }
        self.remove_scratch(docker, &name).await?;
        printed.map_err(|_| HelperError::TimedOut)??;
        Ok(None)
    }
}

async fn first_line(docker: &Docker, name: &str) -> Result<String, EngineError> {
    let output = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true).build();
    let mut attached = docker.attach_container(name, Some(output)).await?;
    docker.start_container(name, None::<StartContainerOptions>).await?;
    let mut printed = Vec::new();
    while let Some(piece) = attached.output.next().await {
        if let LogOutput::StdOut { message } = piece? {
            printed.extend_from_slice(&message);
        }
        if printed.contains(&b'\n') || printed.len() > 64 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&printed).into_owned())
}
