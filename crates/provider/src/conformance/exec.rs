//! Running commands.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use emergent_agent_client::{AgentError, CommandSpec, ExecOptions, Program, StreamKind};

use super::Subject;
use super::subject::eventually;

/// Proves: DESIGN-4.2, DESIGN-4.13
pub async fn output_and_exit_code(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let outcome = sandbox.run("echo out; echo err >&2; exit 7").await;
    assert_eq!(outcome.exit.code, 7);
    assert_eq!(outcome.stdout.to_text(), "out\n");
    assert_eq!(outcome.stderr.to_text(), "err\n");
    assert!(!outcome.timed_out && !outcome.exit.oom_killed);
    let killed = sandbox.run("kill -9 $$").await;
    assert_eq!(killed.exit.code, 128 + 9);
    // Standard input is closed, so nothing waits for a person.
    assert_eq!(sandbox.run("cat").await.exit.code, 0);
}

/// The environment is the sandbox's, plus what the call adds.
pub async fn environment_and_workdir(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir -p sub").await;
    let command = CommandSpec {
        workdir: Some("sub".to_owned()),
        environment: HashMap::from([("GREETING".to_owned(), "a b\"c$d".to_owned())]),
        ..CommandSpec::shell("printf '%s|' \"$GREETING\"; basename \"$PWD\"; env | grep -c AGENT_KEY")
    };
    let outcome = sandbox.client.exec(&command, ExecOptions::default()).await.expect("runs");
    assert_eq!(outcome.stdout.to_text(), "a b\"c$d|sub\n0\n");
}

/// An argument list is not looked at by a shell.
pub async fn arguments_are_data(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let words = ["printf", "%s\\n", "$(id)", "`id`", "; id", "a b", "--", "*"];
    let command = CommandSpec {
        program: Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()),
        ..CommandSpec::shell("")
    };
    let outcome = sandbox.client.exec(&command, ExecOptions::default()).await.expect("runs");
    assert_eq!(outcome.stdout.to_text(), "$(id)\n`id`\n; id\na b\n--\n*\n");
}

/// `user` runs a command as that account, without setuid programs.
pub async fn an_account_of_the_sandbox(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    assert_eq!(sandbox.sh("id -u").await, "0");
    let as_nobody = CommandSpec {
        user: Some("65534".to_owned()),
        workdir: Some("/".to_owned()),
        ..CommandSpec::shell("id -u; id -G")
    };
    if subject.one_account {
        let refused = sandbox.client.exec(&as_nobody, ExecOptions::default()).await.expect_err("refused");
        assert!(matches!(refused, AgentError::Failed { .. }), "{refused}");
        return;
    }
    let outcome = sandbox.client.exec(&as_nobody, ExecOptions::default()).await.expect("runs");
    assert_eq!(outcome.stdout.to_text().lines().next(), Some("65534"), "{outcome:?}");
    assert!(!outcome.stdout.to_text().lines().nth(1).unwrap_or("0").split(' ').any(|group| group == "0"));
    let unknown = CommandSpec { user: Some("no-such-account".to_owned()), ..CommandSpec::shell("id") };
    let error = sandbox.client.exec(&unknown, ExecOptions::default()).await.expect_err("refused");
    assert!(matches!(error, AgentError::Failed { .. }), "{error}");
}

/// A command line that starts processes which hide: in the background, in a session of their
/// own, orphaned by a double fork, and deaf to SIGTERM. Each touches a file while it lives.
const HIDERS: &str = r#"
    tick() { while :; do date +%s%N > "alive-$1"; sleep 0.05; done; }
    trap '' TERM
    tick plain &
    setsid bash -c 'while :; do date +%s%N > alive-setsid; sleep 0.05; done' &
    ( ( setsid bash -c 'trap "" TERM HUP; while :; do date +%s%N > alive-double; sleep 0.05; done' & ) & )
    sleep 600
"#;

async fn assert_all_dead(sandbox: &super::TestSandbox) {
    let snapshot = || sandbox.sh("cat alive-plain alive-setsid alive-double");
    let before = snapshot().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(before, snapshot().await, "a process of the killed command is still alive");
}

async fn wait_until_hidden(sandbox: &super::TestSandbox) {
    eventually("all processes run", || async {
        sandbox.run("test -s alive-plain && test -s alive-setsid && test -s alive-double").await.exit.code
            == 0
    })
    .await;
}

/// On timeout everything the command started dies, and the output so far is kept.
pub async fn a_timeout_kills_the_whole_tree(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let started = Instant::now();
    let outcome = sandbox.run_for(&format!("echo so far; {HIDERS}"), Duration::from_millis(800)).await;
    assert!(outcome.timed_out);
    assert_eq!(outcome.stdout.to_text(), "so far\n");
    // One trap ignores SIGTERM, so the whole grace period of 5 s is used, and no more.
    assert!(started.elapsed() < Duration::from_secs(9), "took {:?}", started.elapsed());
    assert_all_dead(&sandbox).await;
}

/// A caller that goes away takes the command with it.
pub async fn a_dropped_call_kills_the_whole_tree(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let client = sandbox.client.clone();
    let call =
        tokio::spawn(async move { client.exec(&CommandSpec::shell(HIDERS), ExecOptions::default()).await });
    wait_until_hidden(&sandbox).await;
    call.abort();
    tokio::time::sleep(Duration::from_millis(5800)).await;
    assert_all_dead(&sandbox).await;
}

/// However much a command prints, the answer has the beginning and the end.
pub async fn output_is_bounded_with_head_and_tail(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let outcome = sandbox.run("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    assert_eq!(outcome.stdout.total_bytes, 20_000_000 + 12);
    assert!(outcome.stdout.is_truncated());
    assert!(outcome.stdout.head.len() + outcome.stdout.tail.len() <= 50 << 10);
    assert!(outcome.stdout.head.starts_with(b"first\nxxx"));
    assert!(outcome.stdout.tail.ends_with(b"xxx\nlast\n"));
}

/// Output is bytes.
pub async fn invalid_utf8_is_an_answer(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let outcome = sandbox.run(r"printf 'a\377b\000c'").await;
    assert_eq!(outcome.stdout.head.as_ref(), b"a\xffb\0c");
}

/// A server left running by a command does not hold the answer back, and goes on.
pub async fn a_background_child_does_not_delay_the_answer(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let started = Instant::now();
    assert_eq!(sandbox.sh("(sleep 1; echo done > later) & echo started").await, "started");
    assert!(started.elapsed() < Duration::from_millis(900), "took {:?}", started.elapsed());
    eventually("the child goes on", || async { sandbox.run("grep -q done later").await.exit.code == 0 })
        .await;
}

/// A background process goes on when the stream is lost, and its output is all there.
pub async fn background_processes_outlive_the_connection(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let command = CommandSpec::shell("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.1; done; exit 3");
    let id = sandbox.client.start_process(&command).await.expect("starts");
    sandbox.client.disconnect().await;
    let mut follower =
        sandbox.client.process_output(id, StreamKind::Stdout, 0, true).await.expect("reconnects");
    let mut output = Vec::new();
    while let Some(chunk) = follower.next().await.expect("follows") {
        assert_eq!(chunk.offset, output.len() as u64);
        output.extend_from_slice(&chunk.data);
    }
    assert_eq!(String::from_utf8_lossy(&output), "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n");
    // Its output has ended; that it has ended itself is known a moment later.
    eventually("its end is known", || async {
        let listed = sandbox.client.list_processes().await.expect("lists");
        let process = listed.iter().find(|process| process.process_id == id).expect("is remembered");
        assert_eq!(process.stdout_bytes, output.len() as u64);
        process.exit.is_some_and(|exit| exit.code == 3)
    })
    .await;
}

/// A signal reaches the children of a background process too.
pub async fn background_processes_are_signalled_with_their_children(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let id = sandbox.client.start_process(&CommandSpec::shell(HIDERS)).await.expect("starts");
    wait_until_hidden(&sandbox).await;
    assert!(sandbox.client.signal_process(id, 9).await.expect("signals") >= 4);
    eventually("it has ended", || async {
        let listed = sandbox.client.list_processes().await.expect("lists");
        listed.iter().any(|process| process.process_id == id && process.exit.is_some())
    })
    .await;
    assert_all_dead(&sandbox).await;
    assert_eq!(sandbox.client.signal_process(id, 9).await.expect("is still known"), 0);
    let unknown = sandbox.client.signal_process(id + 1000, 9).await.expect_err("unknown");
    assert!(matches!(unknown, AgentError::Failed { .. }), "{unknown}");
}

/// What cannot be run is refused with a reason, and nothing happens.
pub async fn bad_requests_are_refused_and_run_nothing(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let touch = || CommandSpec::shell("touch ran");
    for command in [
        CommandSpec { workdir: Some("no/such/folder".to_owned()), ..touch() },
        CommandSpec { workdir: Some("nul\0byte".to_owned()), ..touch() },
        CommandSpec { environment: HashMap::from([("A=B".to_owned(), String::new())]), ..touch() },
        CommandSpec { environment: HashMap::from([("A".to_owned(), "\0".to_owned())]), ..touch() },
        CommandSpec { program: Program::Argv(vec![]), ..touch() },
        CommandSpec { program: Program::Argv(vec!["/no/such/program".to_owned()]), ..touch() },
        CommandSpec::shell("touch ran\0"),
    ] {
        let error = sandbox.client.exec(&command, ExecOptions::default()).await.expect_err("refused");
        assert!(matches!(error, AgentError::Failed { .. }), "{command:?}: {error}");
    }
    assert_eq!(sandbox.sh("ls").await, "");
}

/// Calls do not wait for each other.
pub async fn many_commands_at_once(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let started = Instant::now();
    let outcomes = futures::future::join_all((0..24).map(|number| {
        let sandbox = &sandbox;
        async move { sandbox.sh(&format!("sleep 0.5; echo {number}")).await }
    }))
    .await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(*outcome, number.to_string());
    }
    assert!(started.elapsed() < Duration::from_secs(6), "took {:?}", started.elapsed());
}
