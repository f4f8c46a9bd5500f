//! `emergent workspace …`, as people and scripts use it.

use emergent_test_support::{TestServer, TestServerOptions, run_program};
use serde_json::Value;

/// A walk through everything a workspace can do, with the server and the token found by
/// itself.
#[tokio::test]
async fn a_workspace_from_create_to_rm() {
    let server = TestServer::start().await;
    let run = async |arguments: &[&str]| server.command(arguments).await;

    let empty = run(&["workspace", "list"]).await;
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), "there are no workspaces\n"));
    let created = run(&[
        "workspace",
        "create",
        "-q",
        "--memory",
        "128M",
        "--disk",
        "64M",
        "--env",
        "A=x y",
        "--ttl",
        "600",
    ])
    .await;
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    let id = created.stdout.trim();

    let exec = run(&["workspace", "exec", id, "--", "echo out; echo err >&2; exit 42"]).await;
    assert_eq!((exec.code, exec.stdout.as_str(), exec.stderr.as_str()), (Some(42), "out\n", "err\n"));
    let words = run(&["workspace", "exec", id, "--", "printf", "%s|", "a b", "$A", "it's", ""]).await;
    assert_eq!((words.code, words.stdout.as_str()), (Some(0), "a b|$A|it's||"), "no shell looks into words");
    let shell = run(&["workspace", "exec", id, "--", "echo $A"]).await;
    assert_eq!(shell.stdout, "x y\n");
    let options = [
        "workspace",
        "exec",
        id,
        "--workdir",
        "/tmp",
        "--env",
        "B=b",
        "--user",
        "root",
        "--",
        "pwd; echo $B",
    ];
    assert_eq!(run(&options).await.stdout, "/tmp\nb\n");
    let late = run(&["workspace", "exec", id, "--timeout", "1", "--", "sleep 100"]).await;
    assert_ne!(late.code, Some(0));
    assert!(late.stderr.contains("time was up"), "{}", late.stderr);
    let background = run(&["workspace", "exec", id, "--background", "--", "sleep", "1000"]).await;
    assert!(background.stdout.trim().parse::<u64>().is_ok(), "{}", background.stdout);
    let json = run(&["workspace", "exec", id, "--json", "--", "echo hi; exit 3"]).await;
    assert_eq!(json.code, Some(3));
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["stdout"], "hi\n");

    let list = run(&["workspace", "ls"]).await;
    assert!(
        list.stdout.starts_with("ID") && list.stdout.contains(id) && list.stdout.contains("128M"),
        "{}",
        list.stdout
    );
    let list = run(&["workspace", "list", "--json", "--status", "ready", "--limit", "1"]).await;
    let list = serde_json::from_str::<Value>(&list.stdout).unwrap();
    assert_eq!((&list["items"][0]["id"], &list["next_cursor"]), (&Value::from(id), &Value::Null));
    let another = run(&["workspace", "create", "-q", "--memory", "128M"]).await;
    for what in [["list", "--json", "--limit=1"].as_slice(), &["history", id, "--json", "--limit=1"]] {
        let first = run(&[["workspace"].as_slice(), what].concat()).await;
        let first = serde_json::from_str::<Value>(&first.stdout).unwrap();
        assert_eq!(first["items"].as_array().map(Vec::len), Some(1), "{first}");
        assert!(first["next_cursor"].is_string(), "there is more: {first}");
    }
    assert_eq!(run(&["workspace", "rm", another.stdout.trim()]).await.code, Some(0));
    // A name that would clear the screen of whoever looks at it.
    run(&["workspace", "exec", id, "--", "git init -q; echo x > $'\\e[2J'"]).await;
    for look in [["read", id, "."], ["grep", id, "x"], ["glob", id, "*"], ["git", id, "status"]] {
        let seen = run(&[["workspace"].as_slice(), &look].concat()).await;
        assert!(seen.stdout.contains(r"\u{1b}[2J") && !seen.stdout.contains('\u{1b}'), "{look:?}: {seen:?}");
    }
    let get = run(&["workspace", "get", id]).await;
    assert!(get.stdout.contains("container") && get.stdout.contains("warning"), "{}", get.stdout);
    let stop = run(&["--json", "workspace", "stop", id]).await;
    assert_eq!(serde_json::from_str::<Value>(&stop.stdout).unwrap()["status"], "stopped");
    let refused = run(&["workspace", "exec", id, "--", "true"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("workspace_not_ready"), "{}", refused.stderr);
    let resume = run(&["workspace", "resume", id]).await;
    assert!(resume.stdout.contains("ready"), "{}", resume.stdout);
    let rm = run(&["workspace", "rm", id]).await;
    assert_eq!((rm.code, rm.stdout.trim()), (Some(0), id));

    for arguments in [["workspace", "get", id], ["workspace", "rm", id], ["workspace", "stop", id]] {
        let gone = run(&arguments).await;
        assert_eq!(gone.code, Some(3), "{arguments:?}: {}", gone.stderr);
        assert!(gone.stderr.contains("does not exist"), "{}", gone.stderr);
    }
    let gone = run(&["--json", "workspace", "get", id]).await;
    assert_eq!(serde_json::from_str::<Value>(&gone.stderr).unwrap()["error"]["code"], "workspace_not_found");
    server.finish().await;
}

#[tokio::test]
async fn exit_codes_tell_what_went_wrong() {
    let server = TestServerOptions::default().with("WORKSPACE_MAX_CONCURRENT", 1).start().await;
    let url = server.url().to_owned();
    let check = async |arguments: &[&str], variables: &[(&str, &str)], code: i32, mentions: &str| {
        let output = run_program(arguments, variables).await;
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(mentions), "{arguments:?}: {}", output.stderr);
    };
    let named = [("EMERGENT_URL", url.as_str()), ("EMERGENT_TOKEN", server.token())];
    check(&["workspace", "list"], &named, 0, "").await;
    check(&["workspace", "list", "--url", &url, "--token", server.token()], &[], 0, "").await;
    check(&["workspace", "get", "not-an-id"], &named, 2, "not a valid workspace id").await;
    check(&["workspace", "create", "--memory", "lots"], &named, 2, "is not a size").await;
    check(&["workspace", "frobnicate"], &named, 2, "frobnicate").await;
    check(&["workspace", "exec", "0199e6a4-0000-7000-8000-000000000000"], &named, 2, "COMMAND").await;
    check(&["workspace", "list", "--token", "wrong"], &named, 4, "unauthorized").await;
    check(&["workspace", "list", "--url", "http://127.0.0.1:1"], &named, 5, "cannot reach the server").await;
    check(&["workspace", "list", "--url", "https://127.0.0.1:1"], &named, 2, "TLS is not supported yet")
        .await;
    for malformed in ["nowhere", "127.0.0.1:8585", "ftp://127.0.0.1", "http://"] {
        check(&["workspace", "list", "--url", malformed], &named, 2, "is not the address of a server").await;
        let variables = [("EMERGENT_URL", malformed), ("EMERGENT_TOKEN", "x")];
        check(&["workspace", "list", "--json"], &variables, 2, "\"code\":\"usage\"").await;
    }
    check(&["workspace", "create", "--memory", "1M"], &named, 1, "not_enforceable").await;
    check(&["workspace", "create", "--provider", "gvisor"], &named, 6, "no_provider_available").await;
    check(&["workspace", "create", "-q"], &named, 0, "").await;
    check(&["workspace", "create", "-q"], &named, 6, "limit_reached").await;
    let nowhere = [("EMERGENT_DATA_DIR", "/nonexistent")];
    check(&["workspace", "list"], &nowhere, 1, "no token").await;
    server.finish().await;
}

#[tokio::test]
async fn the_configuration_file_is_read_and_its_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("emergent.toml");
    let path = file.to_str().unwrap();
    for (text, mentions) in
        [("color = \"red\"", "color"), ("[workspaces]\nmax_concurent = 1", "max_concurent")]
    {
        std::fs::write(&file, text).unwrap();
        let output = run_program(&["serve", "--config", path], &[]).await;
        assert_eq!(output.code, Some(1));
        assert!(output.stderr.contains(mentions) && output.stderr.contains(path), "{}", output.stderr);
    }
    let missing = run_program(&["serve", "--config", "/nonexistent.toml"], &[]).await;
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("/nonexistent.toml"), "{}", missing.stderr);

    std::fs::write(&file, "[workspaces]\ndefault_memory = \"96M\"\ndefault_disk = \"64M\"").unwrap();
    let server = TestServerOptions::default().with("EMERGENT_CONFIG", path).start().await;
    let created = server.command(&["workspace", "create", "--json"]).await;
    let created: Value = serde_json::from_str(&created.stdout).unwrap();
    assert_eq!(created["resource_limits"]["memory"], "96M");
    server.finish().await;
}
