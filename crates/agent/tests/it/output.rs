//! What commands print.

use std::time::{Duration, Instant};

use emergent_protocol::v1;

use crate::support::{
    Binary, BinaryOptions, Sandbox, eventually, exec_request, finish, resident_bytes, shell,
};

#[tokio::test]
async fn head_and_tail_are_kept() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let text = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last; echo to stderr >&2";
    let exited = client.run(text).await;
    let stdout = exited.stdout.expect("a capture");
    assert_eq!(stdout.total_bytes, 20_000_012);
    assert_eq!((stdout.head.len(), stdout.tail.len()), (25 << 10, 25 << 10));
    assert!(stdout.head.starts_with(b"first\nxxx") && stdout.tail.ends_with(b"xxx\nlast\n"));
    assert_eq!(&exited.stderr.expect("a capture").head[..], b"to stderr\n");
    // As much as was asked for, and never more than a message holds.
    for (asked, kept) in [(10, 10), (u32::MAX, 2 << 19)] {
        let request = v1::ExecRequest { capture_limit: asked, ..exec_request("head -c 3000000 /dev/zero") };
        let stdout = client.exec(request).await.expect("runs").stdout.expect("a capture");
        assert_eq!(stdout.head.len() + stdout.tail.len(), kept, "asked for {asked}");
    }
}

#[tokio::test]
async fn output_is_bytes() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let stdout = client.run(r"printf 'a\377b\000c'").await.stdout.expect("a capture");
    assert_eq!(&stdout.head[..], b"a\xffb\0c");
}

#[tokio::test]
async fn streamed_output_comes_while_the_command_runs() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let request = v1::ExecRequest {
        stream_output: true,
        ..exec_request("echo one; sleep 0.5; echo two >&2; sleep 0.5; echo three")
    };
    let started = Instant::now();
    let mut events = client.stub.exec(request).await.expect("starts").into_inner();
    let mut seen = Vec::new();
    while let Some(event) = events.message().await.expect("no failure") {
        match event.event.expect("an event") {
            v1::exec_event::Event::Started(started) => assert!(started.pid > 0 && seen.is_empty()),
            v1::exec_event::Event::Output(output) => {
                seen.push((output.stream(), String::from_utf8_lossy(&output.data).into_owned()));
                if seen.len() == 1 {
                    assert!(
                        started.elapsed() < Duration::from_millis(450),
                        "came late: {:?}",
                        started.elapsed()
                    );
                }
            }
            v1::exec_event::Event::Exited(exited) => {
                assert_eq!(&exited.stdout.expect("a capture").head[..], b"one\nthree\n");
            }
        }
    }
    use v1::OutputStream::{Stderr, Stdout};
    let expected = [(Stdout, "one\n"), (Stderr, "two\n"), (Stdout, "three\n")];
    assert_eq!(seen, expected.map(|(stream, text)| (stream, text.to_owned())));
}

/// However much a command prints, the agent stays small and others go on.
#[tokio::test]
async fn a_gibibyte_costs_no_memory_and_no_time_of_others() {
    let binary = Binary::start(BinaryOptions { own_var_tmp: true, ..Default::default() }).await;
    let mut client = binary.client().await;
    client.sh("true").await;
    let agent = binary.agent_pid().expect("an agent");
    let before = resident_bytes(agent);
    let mut printing =
        client.stub.exec(exec_request("head -c 1G /dev/zero; echo end")).await.expect("starts").into_inner();
    let flood = tokio::spawn(async move { finish(&mut printing).await });
    let mut slowest = Duration::ZERO;
    let mut calls = 0;
    while !flood.is_finished() {
        let started = Instant::now();
        client.stub.list_processes(v1::ListProcessesRequest {}).await.expect("answers");
        slowest = slowest.max(started.elapsed());
        calls += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let exited = flood.await.expect("no panic").expect("runs");
    let file = exited.output_file.strip_prefix("/var/tmp/").expect("an output file");
    let size = std::fs::metadata(binary.var_tmp().join(file)).expect("is there").len();
    assert!(size > 1 << 20, "{file} holds {size} bytes");
    let stdout = exited.stdout.expect("a capture");
    assert_eq!(stdout.total_bytes, (1 << 30) + 4);
    assert!(stdout.tail.ends_with(b"\0end\n"));
    let grown = resident_bytes(agent).saturating_sub(before);
    assert!(grown < 4 << 20, "the agent grew by {grown} bytes");
    assert!(calls >= 10, "the flood was over after {calls} calls");
    // Generous: this machine may have a single core for all three.
    assert!(slowest < Duration::from_millis(500), "another call took {slowest:?}");
}

/// Proves that the whole output is in a file, both streams in the order they came.
#[tokio::test]
async fn the_whole_output_is_in_a_file() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let little = client.run("head -c 51200 /dev/zero; head -c 51200 /dev/zero >&2").await;
    assert_eq!(little.output_file, "", "the captures hold everything");
    let text = "echo first; sleep 0.1; echo second >&2; sleep 0.1; seq 1 200000; sleep 0.1; echo last >&2";
    for stream_output in [false, true] {
        let request = v1::ExecRequest { stream_output, ..exec_request(text) };
        let exited = client.exec(request).await.expect("runs");
        assert!(
            exited.output_file.starts_with('/') && !exited.output_file_truncated,
            "{}",
            exited.output_file
        );
        assert!(!exited.output_file.starts_with(&sandbox.workspace().display().to_string()));
        let kept = std::fs::read_to_string(&exited.output_file).expect("is there");
        assert!(kept.starts_with("first\nsecond\n1\n2\n") && kept.ends_with("\n200000\nlast\n"));
        assert_eq!(kept.lines().count(), 200_003);
    }
    // Its owner may read it, and nobody else.
    let command = v1::Command { user: "nobody".to_owned(), workdir: "/".to_owned(), ..shell("seq 1 100000") };
    let request = v1::ExecRequest { command: Some(command), ..exec_request("") };
    let exited = client.exec(request).await.expect("runs");
    let seen = client.sh(&format!("stat -c '%u %a' {}", exited.output_file)).await;
    assert_eq!(seen, "65534 600");
}

/// A caller that goes away leaves no file, and neither does a folder that cannot be made.
#[tokio::test]
async fn no_file_is_left_and_none_is_needed() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let mut printing =
        client.stub.exec(exec_request("seq 1 100000; sleep 60")).await.expect("starts").into_inner();
    let folder = sandbox.output.path().join("output/0");
    let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    printing.message().await.expect("starts");
    eventually("a file is begun", || async { files() == 1 }).await;
    drop(printing);
    eventually("it is removed", || async { files() == 0 }).await;
    let nowhere = Sandbox::start_with(|config| config.output_folder = "/proc/no-such/output".into());
    let exited = nowhere.client().await.run("seq 1 100000; exit 3").await;
    assert_eq!((exited.exit.expect("an exit").code, exited.output_file.as_str()), (3, ""));
    assert!(exited.stdout.expect("a capture").total_bytes > 500_000);
    sandbox.end().await;
}

/// Whoever removes the folder, even while another command prints, loses only what was in it.
#[tokio::test]
async fn output_files_outlive_their_folder() {
    let sandbox = Sandbox::start_with(|config| config.output_folder.push("tmp/emergent-output"));
    let above = sandbox.output.path().join("output/tmp");
    let mut client = sandbox.client().await;
    for _ in 0..2 {
        let exited = client.run("seq 1 100000").await;
        assert!(std::fs::read(&exited.output_file).expect("is there").ends_with(b"\n100000\n"));
        std::fs::remove_dir_all(&above).expect("it was made");
    }
    let exited = client.run(&format!("seq 1 100000; sleep 1; rm -r {}", above.display())).await;
    assert_eq!((exited.exit.expect("an exit").code, exited.output_file.as_str()), (0, ""));
}

/// Commands that print without end leave a small disk for others, one after another and at once.
#[tokio::test]
async fn output_files_leave_room_on_a_small_disk() {
    let small = "mount -t tmpfs -o size=64m tmpfs /var/tmp &&";
    let binary = Binary::start(BinaryOptions { in_namespace: Some(small), ..Default::default() }).await;
    let mut client = binary.client().await;
    let noisy = "head -c 20000000 /dev/zero";
    for number in 0..20 {
        let exited = client.run(noisy).await;
        assert!(exited.output_file_truncated && !exited.output_file.is_empty(), "{number}");
        assert_eq!(client.sh(&format!("test -s {}; echo $?", exited.output_file)).await, "0", "{number}");
    }
    let mut at_once = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = binary.client().await;
        at_once.spawn(async move { client.run(noisy).await.exit.expect("an exit").code });
    }
    assert_eq!(at_once.join_all().await, [0; 8]);
    let used: u64 = client.sh("du -sk /var/tmp | cut -f1").await.parse().expect("a number");
    assert!(used <= 16 << 10, "{used} KiB of 64 MiB are output");
}
