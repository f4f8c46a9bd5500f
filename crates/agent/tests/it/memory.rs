//! The OOM killer, and the agent's own size.

use crate::support::{Binary, BinaryOptions, Cgroup, resident_bytes};

#[tokio::test]
async fn the_oom_killer_takes_the_command_and_the_answer_says_so() {
    let cgroup = Cgroup::with_memory(64 << 20);
    let binary = Binary::start(BinaryOptions { cgroup: Some(cgroup.members()), ..Default::default() }).await;
    let mut client = binary.client().await;
    let agent = binary.agent_pid();
    assert!(!client.run("true").await.exit.expect("an exit").oom_killed);
    // One line that never ends, kept in memory.
    let exit = client.run("tail /dev/zero").await.exit.expect("an exit");
    assert_eq!((exit.code, exit.oom_killed), (137, true));
    assert!(
        !client.run("kill -9 $$").await.exit.expect("an exit").oom_killed,
        "an old event is not a new one"
    );
    assert_eq!(binary.agent_pid(), agent, "the agent was hit");
    drop((client, binary));
    drop(cgroup);
}

/// Small in an idle sandbox, and still small after work.
#[tokio::test]
async fn the_agent_stays_small() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    for _ in 0..20 {
        client.sh("echo work").await;
        client.write("file", &[b'x'; 100_000]).await.expect("writes");
        client.read("file", 0, 0).await.expect("reads");
    }
    // The test profile's build is bigger than the static one that is shipped.
    let resident = resident_bytes(binary.agent_pid().expect("an agent"));
    assert!(resident < 12 << 20, "the agent has {resident} bytes");
    let resident = resident_bytes(binary.pid());
    assert!(resident < 6 << 20, "init has {resident} bytes");
}
