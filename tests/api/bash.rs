//! Commands.

use std::time::{Duration, Instant};

use emergent_test_support::eventually;
use serde_json::{Value, json};

use crate::api::Api;

/// Proves: DESIGN-4.2, DESIGN-4.10, DESIGN-10.4, DESIGN-10.20, DESIGN-10.23
#[tokio::test]
async fn a_command_answers_with_everything_it_left() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let answer = workspace.post("/bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!(answer.status, 200, "a command that fails is an answer");
    let body = &answer.body;
    assert_eq!(
        (&body["stdout"], &body["stderr"], &body["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    assert_eq!(body["total_bytes"], json!({"stdout": 4, "stderr": 4}));
    for flag in ["truncated", "timed_out", "oom_killed"] {
        assert_eq!(body[flag], false, "{flag}");
    }
    assert!(body["duration_ms"].as_u64().unwrap() < 5000);
    let same = workspace.post("/exec", json!({"command": "echo out"})).await;
    assert_eq!(same.body["stdout"], "out\n");

    assert_eq!(workspace.sh("pwd").await, "/workspace\n");
    assert_eq!(workspace.sh("id -u").await, "0\n");
    let elsewhere =
        workspace.post("/bash", json!({"command": "pwd; echo $A", "workdir": "/tmp", "env": {"A": "x y"}}));
    assert_eq!(elsewhere.await.body["stdout"], "/tmp\nx y\n");
    assert_eq!(
        workspace.post("/bash", json!({"command": "cat"})).await.body["stdout"],
        "",
        "nothing to read"
    );
    let signalled = workspace.post("/bash", json!({"command": "kill -9 $$"})).await;
    assert_eq!(signalled.body["exit_code"], 137);
    let nowhere = workspace.post("/bash", json!({"command": "true", "workdir": "/no/such"})).await;
    assert!((400..500).contains(&nowhere.status), "{}", nowhere.body);
    let nobody = workspace.post("/bash", json!({"command": "true", "user": "no-such-user"})).await;
    assert!((400..500).contains(&nobody.status), "{}", nobody.body);
    api.finish().await;
}

/// Proves: DESIGN-10.23
#[tokio::test]
async fn a_command_whose_time_is_up_is_killed_with_everything_it_started() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let command = "echo before; setsid sleep 987 & (sleep 986 &) ; sleep 985";
    let begun = Instant::now();
    let answer = workspace.post("/bash", json!({"command": command, "timeout_ms": 500})).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((answer.status, &answer.body["timed_out"]), (200, &json!(true)), "{}", answer.body);
    assert_eq!(answer.body["stdout"], "before\n");
    assert_ne!(answer.body["exit_code"], 0);
    let sandbox = emergent_test_support::Sandbox::of(workspace.id);
    for left in ["sleep 985", "sleep 986", "sleep 987"] {
        assert!(!sandbox.runs(left), "{left}");
    }
    api.finish().await;
}

#[tokio::test]
async fn output_is_bounded_and_always_text() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let answer = workspace.post("/bash", json!({"command": "seq 1 200000"})).await.body;
    let stdout = answer["stdout"].as_str().unwrap();
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["total_bytes"]["stdout"], 1_288_895);
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n200000\n"), "head and tail are kept");
    assert!(stdout.contains("bytes omitted") && stdout.len() < 52 << 10, "{}", stdout.len());

    let bytes = workspace.post("/bash", json!({"command": r"printf 'a\xff\xc3\xa4\x00b'"})).await.body;
    assert_eq!(bytes["stdout"], "a\u{fffd}ä\u{0}b");
    api.finish().await;
}

/// Proves: LIFE-17, CONSTRAINT-4
#[tokio::test]
async fn a_command_that_wants_too_much_memory_dies_and_the_workspace_lives() {
    let api = Api::start().await;
    let workspace =
        api.create_with(json!({"resource_limits": {"cpu": "1", "memory": "64M", "disk": "64M"}})).await;
    let answer =
        workspace.post("/bash", json!({"command": "head -c 200M /dev/zero | tail | wc -c"})).await.body;
    assert_eq!(answer["oom_killed"], true, "{answer}");
    assert_eq!(workspace.sh("echo alive").await, "alive\n");
    eventually("the workspace says so", Duration::from_secs(10), async || {
        let warnings = workspace.get().await.body["warnings"].to_string();
        warnings.contains("memory limit").then_some(())
    })
    .await;
    assert!(api.server.log().contains("oom_killed"));
    api.finish().await;
}

#[tokio::test]
async fn many_commands_run_side_by_side() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let begun = Instant::now();
    let calls = (0..20).map(|number| {
        workspace.post("/bash", json!({"command": format!("sleep 1; echo {number}"), "timeout_ms": 30_000}))
    });
    for (number, answer) in futures::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(answer.body["stdout"], Value::String(format!("{number}\n")));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    api.finish().await;
}

/// Proves: DESIGN-10.20
#[tokio::test]
async fn the_whole_output_is_in_a_file_outside_the_workspace() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let answer = workspace.post("/bash", json!({"command": "seq 1 200000; echo err >&2"})).await.body;
    let file = answer["output_file"].as_str().expect("a file");
    assert!(file.starts_with('/') && !file.starts_with("/workspace"), "{file}");
    assert_eq!(answer["output_file_truncated"], false);
    let page = workspace.post("/read", json!({"path": file, "offset": 199_999})).await.body;
    assert!(page["content"].as_str().unwrap().contains("200000: 200000"), "{page}");
    assert_eq!(workspace.sh(&format!("wc -c < {file}; ls -A")).await, "1288899\n");
    let little = workspace.post("/bash", json!({"command": "seq 1 10"})).await.body;
    assert!(little.get("output_file").is_none(), "{little}");
    api.finish().await;
}

/// Proves: DESIGN-4.2
#[tokio::test]
async fn long_commands_and_other_accounts_work() {
    let api = Api::start().await;
    let workspace = api.create().await;
    // Longer than the kernel takes as one argument.
    let long = format!("# {}\necho \"$((6*7)) $0\"; exit 5", "x".repeat(300 << 10));
    let answer = workspace.post("/bash", json!({"command": long})).await.body;
    assert_eq!((&answer["exit_code"], &answer["stderr"]), (&json!(5), &json!("")), "{answer}");
    assert!(answer["stdout"].as_str().unwrap().starts_with("42 "), "{answer}");
    assert_eq!(workspace.sh("ls -A").await, "", "nothing of it is left");

    let command =
        "id -un; id -u; touch /tmp/mine && stat -c %U /tmp/mine; touch /etc/x 2>/dev/null || echo no";
    let other = json!({"command": command, "user": "nobody", "workdir": "/tmp"});
    let answer = workspace.post("/bash", other).await.body;
    assert_eq!(answer["stdout"], "nobody\n65534\nnobody\nno\n", "{answer}");
    api.finish().await;
}

/// Whoever edits huge files holds up no other command's end.
#[tokio::test]
async fn long_edits_do_not_delay_the_end_of_a_command() {
    let api = Api::start().await;
    let workspace = api.create().await;
    // Text to begin with, and then a hole that takes minutes to edit: nothing of it is on the disk.
    // Several, because edits of one file wait for each other.
    workspace
        .sh("for n in {0..15}; do yes text | head -c 8192 > huge$n; truncate -s 200G huge$n; done")
        .await;
    let path = workspace.path("/edit");
    let mut edits = tokio::task::JoinSet::new();
    for number in 0..16 {
        let edit = json!({"path": format!("huge{number}"), "old_string": "nowhere", "new_string": "x"});
        edits.spawn(api.probe().request(reqwest::Method::POST, &path).json(&edit).send());
    }
    crate::api::moment(1000).await;
    let begun = Instant::now();
    let answer = workspace.post("/bash", json!({"command": "sleep 987", "timeout_ms": 500})).await;
    assert_eq!(answer.body["timed_out"], true, "{}", answer.body);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(edits.try_join_next().is_none(), "they were not busy");
    edits.shutdown().await;
    assert_eq!(workspace.sh("echo alive").await, "alive\n");
    api.finish().await;
}
