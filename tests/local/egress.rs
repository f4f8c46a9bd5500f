//! What a workspace with the network `internet` reaches, through the whole product: a server on a host
//! of the test's own, with an internet and a private network around it. The machine's own network is not
//! touched.

use std::collections::BTreeSet;
use std::time::Duration;

use emergent_client::{BashRequest, Client, CreateWorkspace};
use emergent_test_support::{TestServerOptions, eventually};
use emergent_types::{NetworkMode, WorkspaceId};

use crate::support::{sh, small};
use crate::world::{HOST, PORT, PRIVATE, PUBLIC, on_a_host};

/// What is opened by name, and an address in it that is denied otherwise.
const OPENED: (&str, &str) = ("172.16.0.0/16", "172.16.0.1");

/// Which of all addresses of this world answer, asked by a command in the workspace.
async fn reached(client: &Client, id: WorkspaceId) -> BTreeSet<String> {
    let all: Vec<&str> = PUBLIC.iter().chain(&PRIVATE).chain(&HOST).copied().collect();
    // At once: some of them may be met with silence.
    let command = format!(
        "for address in {}; do
           (timeout 5 bash -c \"exec 3<>/dev/tcp/$address/{PORT} && read -r line <&3\" && echo $address) &
         done 2> /dev/null
         wait",
        all.join(" ")
    );
    let request = BashRequest { timeout_ms: Some(60_000), ..BashRequest::new(&command) };
    let answer = client.bash(id, &request).await.unwrap();
    answer.stdout.lines().map(str::to_owned).collect()
}

fn addresses(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|address| (*address).to_owned()).collect()
}

async fn create(client: &Client, network: NetworkMode) -> WorkspaceId {
    let created = client.create(&CreateWorkspace { network: Some(network), ..small() }).await.unwrap();
    assert_eq!(created.network, network);
    created.id
}

/// Runs a test on a host of its own. All threads of its runtime are there, and what they start.
fn on_its_host<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send) {
    on_a_host(|world| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test());
        drop(world);
    });
}

#[test]
fn the_internet_is_reached_and_nothing_private_over_a_whole_life() {
    on_its_host(|| async {
        let mut server = TestServerOptions::default().start().await;
        let client = server.client();
        let (open, shut) =
            (create(&client, NetworkMode::Internet).await, create(&client, NetworkMode::Isolated).await);
        let public = addresses(&PUBLIC);
        assert_eq!(reached(&client, open).await, public);
        assert_eq!(reached(&client, shut).await, BTreeSet::new());
        assert!(sh(&client, open, "cat /etc/resolv.conf").await.contains("nameserver 127.0.0.53"));

        client.stop(open).await.unwrap();
        client.resume(open).await.unwrap();
        assert_eq!(reached(&client, open).await, public, "after a stop");

        server.kill();
        // Nobody is there to look after the rules, and they hold.
        server.start_again().await;
        let client = server.client();
        assert_eq!(reached(&client, open).await, public, "with the next server");
        let names = "timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.53/53'";
        eventually("somebody answers for names again", Duration::from_secs(30), async || {
            let answer = client.bash(open, &BashRequest::new(names)).await.unwrap();
            (answer.exit_code == 0).then_some(())
        })
        .await;

        // What the administrator names is opened, for those who are there and those who come.
        server.kill();
        server.set_options(TestServerOptions::default().with("WORKSPACE_EGRESS_ALLOW", OPENED.0));
        server.start_again().await;
        let client = server.client();
        let with_opened = &public | &addresses(&[OPENED.1]);
        let new = create(&client, NetworkMode::Internet).await;
        for id in [open, new] {
            assert_eq!(reached(&client, id).await, with_opened);
        }
        assert_eq!(reached(&client, shut).await, BTreeSet::new());
        server.finish().await;
    });
}
