//! Workspaces that come and go for a long time.

use emergent_client::{BashRequest, Client, CreateWorkspace, RequestedLimits};
use emergent_test_support::TestServer;
use emergent_types::{ByteSize, Cpu};

/// How much more memory a server may use after any number of them.
const MAX_GROWTH_KIB: u64 = 10 << 10;

/// How often one is made, used and destroyed.
pub(crate) struct Rounds {
    /// Before memory is looked at: pools of connections and of threads are filled by then.
    pub(crate) warm_up: u32,
    /// Between the two looks.
    pub(crate) usually: u32,
    /// The same in a long run.
    pub(crate) long: u32,
}

/// Makes, uses and destroys one workspace after the other. The server must not need more memory for it;
/// that nothing else is left is for whoever ends it to see.
pub(crate) async fn churn(server: &TestServer, rounds: Rounds) {
    let client = server.client();
    for round in 0..rounds.warm_up {
        come_and_go(&client, round).await;
    }
    let before = server.resident_kib();
    assert!(before > 0, "the memory of the server is known");
    let is_long = std::env::var_os("EMERGENT_TEST_LONG").is_some();
    let count = if is_long { rounds.long } else { rounds.usually };
    for round in 0..count {
        come_and_go(&client, round).await;
        if round % 20 == 19 {
            println!("after {} more: {} KiB, {before} before", round + 1, server.resident_kib());
        }
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown <= MAX_GROWTH_KIB, "{count} workspaces have cost {grown} KiB");
}

async fn come_and_go(client: &Client, round: u32) {
    let limits = RequestedLimits {
        cpu: Some(Cpu::from_millis(1000)),
        memory: Some(ByteSize::from_mib(256)),
        disk: Some(ByteSize::from_mib(64)),
    };
    let request = CreateWorkspace {
        resource_limits: Some(limits),
        warm_start: Some(false),
        ..CreateWorkspace::default()
    };
    let id = client.create(&request).await.unwrap().id;
    let command = format!("echo {round} > file; cat file; ls /workspace | wc -l");
    let answer = client.bash(id, &BashRequest::new(&command)).await.unwrap();
    let expected = format!("{round}\n1\n");
    assert_eq!((answer.exit_code, answer.stdout), (0, expected), "nothing is there but its own");
    client.destroy(id).await.unwrap();
}
