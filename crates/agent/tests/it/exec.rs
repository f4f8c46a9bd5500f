//! Commands and how they are started.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use emergent_protocol::{FailureCode, v1};

use crate::support::{Sandbox, eventually, exec_request, failure, hello, shell, text_of};

/// Proves: DESIGN-4.2
#[tokio::test]
async fn output_and_exit_code() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let exited = client.run("echo out; echo err >&2; exit 7").await;
    let exit = exited.exit.expect("an exit");
    assert_eq!((exit.code, exit.signal, exit.oom_killed), (7, 0, false));
    assert_eq!(text_of(exited.stdout.as_ref()), "out\n");
    assert_eq!(text_of(exited.stderr.as_ref()), "err\n");
    assert!(!exited.timed_out);
    let killed = client.run("kill -9 $$").await.exit.expect("an exit");
    assert_eq!((killed.code, killed.signal), (137, 9));
    // Standard input is empty, and SIGPIPE kills, as everywhere.
    assert_eq!(client.sh("cat; yes | head -n 1; echo ${PIPESTATUS[0]}").await, "y\n141");
}

#[tokio::test]
async fn a_command_has_a_session_and_nothing_of_the_agent_s() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    // Session and group are its own, signals are neither blocked nor ignored, and only the
    // three streams are open (the fourth is ls looking).
    let seen = client
        .sh("read -r _ _ _ _ group session _ < /proc/$$/stat; test $group = $$ -a $session = $$ && echo own; \
             grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'; ls /proc/self/fd | tr '\\n' ' '; umask; pwd; cat /proc/self/environ | tr '\\0' '\\n' | sort")
        .await;
    let workspace = sandbox.workspace().display();
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines[..4], ["own", "SigBlk:0000000000000000", "SigIgn:0000000000000000", "0 1 2 3 0022"]);
    assert_eq!(lines[4], workspace.to_string());
    let names: Vec<_> =
        lines[5..].iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    // PWD, SHLVL and _ are bash's own.
    assert_eq!(names, ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "USER", "_"]);
}

#[tokio::test]
async fn environment_folder_and_arguments_are_data() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    client.sh("mkdir 'a folder'").await;
    let command = v1::Command {
        workdir: "a folder".to_owned(),
        environment: HashMap::from([("X".to_owned(), "a b\"c$d\n".to_owned())]),
        ..shell("printf %s \"$X\"; basename \"$PWD\"")
    };
    let exited =
        client.exec(v1::ExecRequest { command: Some(command), ..exec_request("") }).await.expect("runs");
    assert_eq!(text_of(exited.stdout.as_ref()), "a b\"c$d\na folder\n");
    let words = ["printf", "%s\\n", "$(id)", "; id", "--", "*", ""].map(str::to_owned).to_vec();
    let command =
        v1::Command { program: Some(v1::command::Program::Argv(v1::Argv { words })), ..Default::default() };
    let exited =
        client.exec(v1::ExecRequest { command: Some(command), ..exec_request("") }).await.expect("runs");
    assert_eq!(text_of(exited.stdout.as_ref()), "$(id)\n; id\n--\n*\n\n");
    // A text that looks like an option is a text.
    assert_eq!(client.run("-x").await.exit.expect("an exit").code, 127);
}

#[tokio::test]
async fn a_command_longer_than_an_argument_can_be() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let text = format!("x={}; echo ${{#x}}; exit 3", "y".repeat(1 << 20));
    let exited = client.run(&text).await;
    assert_eq!(
        text_of(exited.stdout.as_ref()),
        format!("{}\n", 1 << 20),
        "{}",
        text_of(exited.stderr.as_ref())
    );
    assert_eq!(exited.exit.expect("an exit").code, 3);
    assert_eq!(client.sh("ls -A").await, "", "nothing is left in the workspace");
}

/// Around the longest argument there can be, and up to the longest request.
#[tokio::test]
async fn a_command_of_any_length() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    for length in [(128 << 10) - 2, (128 << 10) - 1, 128 << 10, 1 << 20, 15 << 20] {
        let end = "; echo $? -; exit 4";
        let text = format!(": {}{end}", "y".repeat(length - end.len() - 2));
        assert_eq!(text.len(), length);
        let exited = client.run(&text).await;
        assert_eq!(text_of(exited.stdout.as_ref()), "0 -\n", "{length}");
        assert_eq!(exited.exit.expect("an exit").code, 4, "{length}");
    }
}

/// Somebody has removed the shell, or what it needs to run. That is the sandbox's state, and no mistake of the request's.
#[tokio::test]
async fn a_shell_that_is_gone_or_broken_is_named() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let folder = sandbox.path("bin");
    std::fs::create_dir(&folder).expect("writable");
    let mut greeting = hello();
    greeting.environment.insert("PATH".to_owned(), folder.to_string_lossy().into_owned());
    client.stub.hello(greeting).await.expect("greets");
    let refused = failure(&client.exec(exec_request("true")).await.expect_err("no shell"));
    assert_eq!((refused.0, refused.1.field.as_str()), (FailureCode::ProgramMissing, ""), "{refused:?}");
    assert!(refused.1.message.contains("neither bash nor sh"), "{refused:?}");

    // As a program whose loader is not there any more.
    let bash = folder.join("bash");
    std::fs::write(&bash, "#!/no/such/loader\n").expect("writable");
    std::fs::set_permissions(&bash, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let refused = failure(&client.exec(exec_request("true")).await.expect_err("no loader"));
    assert_eq!((refused.0, refused.1.field.as_str()), (FailureCode::ProgramMissing, ""), "{refused:?}");
    assert!(refused.1.message.contains("is broken") && refused.1.path == "bash", "{refused:?}");
    // Files are there all the same.
    std::fs::write(sandbox.path("kept"), "here").expect("writable");
    assert_eq!(client.read("kept", 0, 0).await.expect("readable"), b"here");
}

#[tokio::test]
async fn what_cannot_run_is_refused_with_a_reason() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let argv = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        v1::Command { program: Some(v1::command::Program::Argv(v1::Argv { words })), ..Default::default() }
    };
    let touch = || shell("touch ran");
    std::fs::write(sandbox.path("plain"), "no program").expect("writable");
    let invalid = FailureCode::InvalidRequest;
    let cases = [
        (v1::Command::default(), invalid, "no command"),
        (v1::Command { workdir: "no/such".to_owned(), ..touch() }, invalid, "no/such"),
        (v1::Command { workdir: "plain".to_owned(), ..touch() }, invalid, "plain"),
        (v1::Command { workdir: "a\0b".to_owned(), ..touch() }, invalid, "NUL"),
        (v1::Command { user: "nobody-at-all".to_owned(), ..touch() }, invalid, "nobody-at-all"),
        (
            v1::Command { environment: HashMap::from([("A=".to_owned(), String::new())]), ..touch() },
            invalid,
            "A=",
        ),
        (shell("touch ran\0"), invalid, "NUL"),
        (argv(&[]), invalid, "no words"),
        (argv(&["/no/such/program"]), invalid, "/no/such/program"),
        (argv(&["no-such-program"]), invalid, "no-such-program"),
        (argv(&["./plain"]), FailureCode::PermissionDenied, "plain"),
        (argv(&["true", &"x".repeat(200 << 10)]), invalid, "true"),
    ];
    for (command, code, part) in cases {
        let refused = client.exec(v1::ExecRequest { command: Some(command), ..exec_request("") }).await;
        let (seen, details) = failure(&refused.expect_err("refused"));
        assert_eq!(seen, code, "{details:?}");
        assert!(details.message.contains(part), "{details:?} does not name {part}");
        let field = match part {
            "no/such" | "plain" if code == invalid => "workdir",
            "nobody-at-all" => "user",
            "/no/such/program" | "no-such-program" | "true" => "command",
            _ => continue,
        };
        assert_eq!(details.field, field, "{details:?}");
    }
    let too_long = v1::ExecRequest { timeout_ms: u64::MAX, ..exec_request("touch ran") };
    assert_eq!(failure(&client.exec(too_long).await.expect_err("refused")).0, invalid);
    assert!(!sandbox.path("ran").exists());
}

#[tokio::test]
async fn another_account_of_the_sandbox() {
    assert!(rustix::process::geteuid().is_root(), "switching accounts needs root; run the tests as root");
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let as_nobody = |text: &str, workdir: &str| {
        let command = v1::Command { user: "nobody".to_owned(), workdir: workdir.to_owned(), ..shell(text) };
        v1::ExecRequest { command: Some(command), ..exec_request("") }
    };
    let exited =
        client.exec(as_nobody("id -u; id -G; echo $USER; cat /etc/shadow", "/")).await.expect("runs");
    assert_eq!(text_of(exited.stdout.as_ref()), "65534\n65534\nnobody\n");
    assert_ne!(exited.exit.expect("an exit").code, 0, "root's files are readable");
    // Who may not enter a folder is told so.
    client.sh("mkdir -m 700 private").await;
    let refused = client.exec(as_nobody("true", "private")).await.expect_err("refused");
    assert_eq!(failure(&refused).0, FailureCode::PermissionDenied);
    assert_eq!(client.sh("id -u").await, "0");
}

/// A server that a command leaves running neither holds the answer back nor dies of it.
#[tokio::test]
async fn a_background_child_does_not_delay_the_answer() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let started = Instant::now();
    // It prints after the answer was given, more than a pipe holds, and goes on.
    let left = "(sleep 0.6; head -c 300000 /dev/zero; echo done > later) & echo started";
    assert_eq!(client.sh(left).await, "started");
    assert!(started.elapsed() < Duration::from_millis(550), "took {:?}", started.elapsed());
    eventually("the child goes on", || async { sandbox.path("later").exists() }).await;
    // What the command itself wrote last is never lost, however fast it ends.
    for _ in 0..20 {
        let exited = client.run("sleep 30 & head -c 60000 /dev/zero; kill %1").await;
        assert_eq!(exited.stdout.expect("a capture").total_bytes, 60_000);
    }
    sandbox.end().await;
}

#[tokio::test]
async fn many_commands_at_once() {
    let sandbox = Sandbox::start();
    let client = sandbox.client().await;
    let started = Instant::now();
    let calls: Vec<_> = (0..24)
        .map(|number| {
            let mut stub = client.stub.clone();
            tokio::spawn(async move {
                let mut events =
                    stub.exec(exec_request(&format!("sleep 0.5; echo {number}"))).await?.into_inner();
                crate::support::finish(&mut events).await
            })
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        let exited = call.await.expect("no panic").expect("runs");
        assert_eq!(text_of(exited.stdout.as_ref()), format!("{number}\n"));
    }
    assert!(started.elapsed() < Duration::from_secs(6), "took {:?}", started.elapsed());
}
