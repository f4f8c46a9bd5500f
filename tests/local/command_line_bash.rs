//! What the contract promises of `bash` and of every call, through the command line.

use std::time::{Duration, Instant};

use emergent_test_support::{Sandbox, eventually, run_program};
use serde_json::{Value, json};

use crate::command_line_shell::Shell;

#[tokio::test]
async fn every_field_and_promise_of_bash() {
    let shell = Shell::start().await;
    // Each row: the options, the command, what it prints.
    let rows: &[(&[&str], &str, &str)] = &[
        (&[], "pwd", "/workspace\n"),
        (&["--workdir", "/tmp"], "pwd", "/tmp\n"),
        (&["--env", "A=x y", "--env", "B="], "echo \"$A|${B-unset}\"", "x y|\n"),
        (&[], "id -un", "root\n"),
        (
            &["--user", "nobody", "--workdir", "/tmp"],
            "id -un; touch /etc/x 2> /dev/null || echo no",
            "nobody\nno\n",
        ),
        (&[], "LEFT=1; export LEFT; cd /tmp", ""),
        (&[], "echo \"${LEFT-gone}\"; pwd", "gone\n/workspace\n"),
        (&[], "set -- $(cut -d' ' -f5,6 /proc/$$/stat); [ $1 = $$ ] && [ $2 = $$ ] && echo own", "own\n"),
        (&[], r"printf 'a\xff\xc3\xa4b'", "a\u{fffd}äb"),
    ];
    for (options, command, expect) in rows {
        let plain = shell.out("exec", &[*options, &["--", *command]].concat()).await;
        assert_eq!(plain, *expect, "{command}");
        let answer = shell.json("exec", &[*options, &["--", *command]].concat()).await;
        assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!(expect), &json!(0)), "{command}");
    }
    let input = shell.run_with("exec", &["--", "cat; echo end"], b"typed").await;
    assert_eq!((input.code, input.stdout.as_str()), (Some(0), "end\n"), "standard input is closed");

    let failed = shell.run("exec", &["--json", "--", "echo out; echo error >&2; exit 3"]).await;
    assert_eq!((failed.code, failed.stderr.as_str()), (Some(3), ""), "an answer, not an error");
    let mut answer: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert!(answer["duration_ms"].take().as_u64().unwrap() < 5000);
    let expect = json!({
        "stdout": "out\n", "stderr": "error\n", "exit_code": 3, "duration_ms": null, "truncated": false,
        "total_bytes": {"stdout": 4, "stderr": 6}, "timed_out": false, "oom_killed": false,
    });
    assert_eq!(answer, expect);
    assert_eq!(shell.run("exec", &["--", "kill -9 $$"]).await.code, Some(137));

    // The whole of it as it comes, or the ends of it and a file.
    let seq = shell.out("exec", &["--", "seq 1 200000"]).await;
    assert_eq!(seq.len(), 1_288_895);
    let answer = shell.json("exec", &["--", "seq 1 200000"]).await;
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n200000\n") && stdout.len() < 52 << 10);
    assert!(stdout.contains("bytes omitted"), "a line says how much");
    assert_eq!((&answer["truncated"], &answer["total_bytes"]["stdout"]), (&json!(true), &json!(1_288_895)));
    let file = answer["output_file"].as_str().unwrap();
    assert!(file.starts_with('/') && !file.starts_with("/workspace"), "{file}");
    assert_eq!(shell.out("read", &[file, "--offset", "200000"]).await, "200000: 200000\n");

    shell
        .refused(&[
            ("exec", &["--workdir", "/no/such", "--", "true"], "invalid_request"),
            ("exec", &["--user", "no-such-user", "--", "true"], "invalid_request"),
            ("exec", &["--timeout", "0", "--", "true"], "invalid_request"),
            ("exec", &["--timeout", "600.001", "--", "true"], "invalid_request"),
            ("exec", &["--env", "=x", "--", "true"], "invalid_request"),
        ])
        .await;
    shell
        .misused(&[
            ("exec", &["--timeout", "soon", "--", "true"]),
            ("exec", &["--env", "A", "--", "true"]),
            ("exec", &["--background", "--timeout", "1", "--", "true"]),
            ("exec", &[]),
        ])
        .await;
    shell.server.finish().await;
}

#[tokio::test]
async fn commands_end_in_time_and_with_whoever_asked() {
    let shell = Shell::start().await;
    let id = shell.id.parse().unwrap();
    let runs = |command: &str| Sandbox::of(id).runs(command);
    let begun = Instant::now();
    let command = "echo before; setsid sleep 987 & (sleep 986 &) ; sleep 985";
    let late = shell.run("exec", &["--timeout", "0.5", "--", command]).await;
    assert_eq!((late.code == Some(0), late.stdout.as_str()), (false, "before\n"), "{late:?}");
    assert!(late.stderr.contains("its time was up"), "{}", late.stderr);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // What does not listen is killed five seconds later.
    let stubborn = "trap '' TERM; echo before; while :; do sleep 0.984; done";
    let late = shell.run("exec", &["--json", "--timeout", "0.5", "--", stubborn]).await;
    let answer: Value = serde_json::from_str(&late.stdout).unwrap();
    assert_eq!((&answer["timed_out"], &answer["stdout"]), (&json!(true), &json!("before\n")), "{answer}");
    assert_eq!((late.code, &answer["exit_code"]), (Some(137), &json!(137)), "{answer}");
    let took = answer["duration_ms"].as_u64().unwrap();
    assert!((5000..10_000).contains(&took), "{took}");
    for left in ["sleep 985", "sleep 986", "sleep 987", "sleep 0.984"] {
        assert!(!runs(left), "{left}");
    }

    // With and without --json, two different ways to ask.
    for (options, number) in [(vec!["--json"], "983"), (Vec::new(), "982")] {
        let command = format!("sleep {number}");
        let arguments = [options.as_slice(), &["--", &command]].concat();
        let begins = eventually("it runs", Duration::from_secs(10), async || runs(&command).then_some(()));
        // The program is killed when nobody waits for it any more.
        tokio::select! {
            ended = shell.run("exec", &arguments) => panic!("{ended:?}"),
            _ = begins => {}
        }
        eventually("it ends with whoever asked", Duration::from_secs(10), async || {
            (!runs(&command)).then_some(())
        })
        .await;
    }
    let process = shell.json("exec", &["--background", "--", "printf 'one two'; sleep 981"]).await;
    let process = process["process_id"].as_u64().unwrap().to_string();
    eventually("it has printed", Duration::from_secs(10), async || {
        (shell.out("ps", &[&process, "--offset", "4"]).await == "two").then_some(())
    })
    .await;
    assert!(runs("sleep 981"), "it goes on");
    let sent = shell.json("ps", &[&process, "--signal", "TERM"]).await;
    assert_eq!(sent["signal"], "SIGTERM");
    eventually("it has ended", Duration::from_secs(10), async || {
        (shell.json("ps", &[]).await["items"][0]["exit_code"] == 143).then_some(())
    })
    .await;
    shell.refused(&[("ps", &[&process, "--signal", "BOOM"], "invalid_request")]).await;

    let limits = ["workspace", "create", "-q", "--cpu", "1", "--memory", "64M", "--disk", "64M"];
    let little = shell.server.command(&limits).await.stdout.trim().to_owned();
    let hog = ["--", "head -c 200M /dev/zero | tail | wc -c"];
    let plain = shell.server.command(&[["workspace", "exec", &little].as_slice(), &hog].concat()).await;
    assert!(plain.stderr.contains("ran out of memory"), "{plain:?}");
    let json =
        shell.server.command(&[["workspace", "exec", &little, "--json"].as_slice(), &hog].concat()).await;
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["oom_killed"], true, "{json:?}");
    shell.server.finish().await;
}

/// Errors and the audit log, which are the same for every tool.
#[tokio::test]
async fn every_tool_is_refused_alike_and_written_down() {
    let shell = Shell::start().await;
    let secret = "sesame-open";
    assert_eq!(shell.run_with("write", &["file"], secret.as_bytes()).await.code, Some(0));
    shell.sh("git init -q -b main .").await;
    let calls: [(&str, &str, &[&str]); 7] = [
        ("bash", "exec", &["--", "cat file"]),
        ("read", "read", &["file"]),
        ("write", "write", &["empty"]),
        ("edit", "edit", &["file", "--old", "open", "--new", "open-edited"]),
        ("glob", "glob", &["*"]),
        ("grep", "grep", &["open"]),
        ("git", "git", &["status"]),
    ];
    for (_, tool, arguments) in &calls {
        assert_eq!(shell.run(tool, arguments).await.code, Some(0), "{tool}");
    }
    assert_eq!(shell.run("read", &["missing"]).await.code, Some(1));

    // A session without any of the tools that are asked for.
    let session =
        ["token", "create", "s", "--kind", "session", "--workspace", &shell.id, "--tool", "read", "--json"];
    let session: Value = serde_json::from_str(&shell.server.command(&session).await.stdout).unwrap();
    let variables =
        [("EMERGENT_URL", shell.server.url()), ("EMERGENT_TOKEN", session["token"].as_str().unwrap())];
    for (name, tool, arguments) in &calls {
        let line = [["workspace", tool, &shell.id].as_slice(), arguments].concat();
        let output = run_program(&line, &variables).await;
        if *name == "read" {
            assert_eq!(output.code, Some(0), "{output:?}");
            continue;
        }
        assert_eq!((output.code, output.stdout.as_str()), (Some(4), ""), "{output:?}");
        let message = format!("Tool '{name}' is not enabled");
        assert!(output.stderr.contains(&message) && output.stderr.contains("tool_not_allowed"), "{output:?}");
    }
    let missing = "0199e6a4-0000-7000-8000-000000000000";
    for (_, tool, arguments) in &calls {
        let line = [["workspace", tool, missing, "--json"].as_slice(), arguments].concat();
        let output = shell.server.command(&line).await;
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(output.stderr.contains("workspace_not_found"), "{output:?}");
    }

    let (history, _) = eventually("all of it is remembered", Duration::from_secs(10), async || {
        let history = shell.json("history", &["--limit", "200"]).await;
        let items = history["items"].as_array().unwrap().clone();
        let has = |tool: &str| items.iter().any(|item| item["tool"] == tool && item["outcome"] == "ok");
        let has_failure = items.iter().any(|item| item["error_code"] == "file_not_found");
        (calls.iter().all(|(name, ..)| has(name)) && has_failure).then_some(history)
    })
    .await;
    let text = history.to_string();
    assert!(text.contains("cat file") && !text.contains(secret), "what was done, never what it is about");
    let shown = shell.out("history", &["--tool", "bash", "--outcome", "ok"]).await;
    assert!(shown.contains("command=cat file"), "{shown}");

    assert_eq!(shell.server.command(&["workspace", "stop", &shell.id]).await.code, Some(0));
    for (_, tool, arguments) in &calls {
        let failure = shell.failure(tool, arguments).await;
        assert_eq!(failure["code"], "workspace_not_ready", "{tool}");
        assert!(failure.to_string().contains("stopped"), "its state: {failure}");
    }
    shell.server.finish().await;
}
