//! The OOM killer, and the agent's own size.

use std::cell::Cell;

use emergent_protocol::v1;

use crate::support::{Binary, BinaryOptions, Cgroup, eventually, resident_bytes, shell};

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

/// Of calls that run at once only the one is told so whose process it was, also when it went on
/// without it.
#[tokio::test]
async fn the_oom_killer_is_told_of_the_call_that_it_hit() {
    let cgroup = Cgroup::with_memory(64 << 20);
    let binary = Binary::start(BinaryOptions { cgroup: Some(cgroup.members()), ..Default::default() }).await;
    let mut client = binary.client().await;
    let background = v1::StartProcessRequest { command: Some(shell("sleep 600")) };
    let process_id = client.stub.start_process(background).await.expect("starts").into_inner().process_id;
    let hogs = [
        // Passed on by the shell, by a signal, and not at all.
        ("tail /dev/zero", 137),
        ("tail /dev/zero; exit $?", 137),
        ("tail /dev/zero; echo goes on; exit 3", 3),
        // An orphan of the command's.
        ("(setsid tail /dev/zero &); sleep 2; exit 4", 4),
    ];
    for (hog, code) in hogs {
        let (mut one, mut two) = (binary.client().await, binary.client().await);
        let (hit, spared) = tokio::join!(one.run(hog), two.run("sleep 3; echo spared"));
        let (hit, spared) = (hit.exit.expect("an exit"), spared.exit.expect("an exit"));
        assert_eq!((hit.code, hit.oom_killed), (code, true), "{hog}");
        assert_eq!((spared.code, spared.oom_killed), (0, false), "beside {hog}");
    }
    // What ends later is not blamed for what others did meanwhile.
    let signal = v1::SignalProcessRequest { process_id, signal: 9, stdio_pid: 0 };
    client.stub.signal_process(signal).await.expect("signals");
    let exit = Cell::new(None);
    eventually("it has ended", || async {
        let mut stub = client.stub.clone();
        let listed = stub.list_processes(v1::ListProcessesRequest {}).await.expect("lists").into_inner();
        exit.set(listed.processes[0].exit);
        exit.get().is_some()
    })
    .await;
    assert_eq!(exit.get().map(|exit| (exit.code, exit.oom_killed)), Some((137, false)));
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
