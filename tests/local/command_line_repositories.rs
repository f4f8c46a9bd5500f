//! What the contract promises of `git`, through the command line.

use serde_json::json;

use crate::command_line_shell::Shell;

const IDENTITY: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; set -e;";

#[tokio::test]
async fn every_field_and_promise_of_git() {
    let shell = Shell::start().await;
    let git = async |arguments: &[&str]| shell.json("git", arguments).await;
    // A hook of the repository's, which nobody runs.
    shell
        .sh("git init -q -b main repo && cd repo && echo a > a && echo b > b && mkdir sub && echo s > sub/s
             printf '#!/bin/sh\\ntouch /workspace/ran\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
        .await;
    let made = git(&["--path", "repo", "commit", "-m", "--amend $(touch ran)\n\nbody", "a"]).await;
    assert_eq!((&made["files_changed"], &made["branch"]), (&json!(1), &json!("main")), "{made}");
    let status = git(&["--path", "repo", "status"]).await;
    assert_eq!(status["untracked"], json!(["b", "sub/"]), "only what was named");
    for list in ["staged", "unstaged", "conflicts"] {
        assert_eq!(status[list], json!([]), "{list}");
    }
    assert_eq!(
        (&status["branch"], &status["ahead"], &status["behind"]),
        (&json!("main"), &json!(0), &json!(0))
    );
    assert_eq!(git(&["--path", "repo", "commit", "--all", "-m", "second"]).await["files_changed"], 2);
    let log = git(&["--path", "repo", "log"]).await;
    let first = &log["commits"][1];
    assert_eq!((&first["commit"], &first["subject"]), (&made["commit"], &json!("--amend $(touch ran)")));
    assert_eq!(first["body"].as_str().unwrap().trim(), "body");
    let from = git(&["--path", "repo", "log", "HEAD~1"]).await;
    assert_eq!((from["commits"].as_array().unwrap().len(), &from["truncated"]), (1, &json!(false)));
    let one = git(&["--path", "repo", "log", "--limit", "1"]).await;
    assert_eq!((&one["commits"][0]["subject"], &one["truncated"]), (&json!("second"), &json!(true)));

    // Each row: the arguments, and what differs.
    shell.sh("cd repo && echo 2 > a && echo 3 > b && git add b && echo 4 > sub/s").await;
    let rows: &[(&[&str], &[&str])] = &[
        (&["diff"], &["a", "sub/s"]),
        (&["diff", "--staged"], &["b"]),
        (&["diff", "a"], &["a"]),
        (&["diff", "--base", "HEAD"], &["a", "b", "sub/s"]),
        (&["diff", "--base", "HEAD~1", "b"], &["b"]),
        (&["diff", "--staged", "a"], &[]),
    ];
    for (arguments, files) in rows {
        let arguments = [["--path", "repo"].as_slice(), *arguments].concat();
        let answer = git(&arguments).await;
        let listed: Vec<_> =
            answer["files"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect();
        assert_eq!(json!(listed), json!(files), "{arguments:?}");
        let plain = shell.run("git", &arguments).await;
        assert_eq!(plain.stdout.trim_end(), answer["diff"].as_str().unwrap().trim_end(), "{arguments:?}");
        assert_eq!((plain.code, plain.stderr == "nothing differs\n"), (Some(0), files.is_empty()));
    }
    let named = git(&["--path", "repo/sub", "commit", "-m", "from below", "s", "../a"]).await;
    assert_eq!(named["files_changed"], 2);
    let status = shell.out("git", &["--path", "repo", "status"]).await;
    assert_eq!(status, "## main\nstaged   modified: b\n", "what else was staged stays so");
    git(&["--path", "repo", "commit", "--all", "-m", "third"]).await;

    assert_eq!(git(&["--path", "repo", "checkout", "-b", "work"]).await["branch"], "work");
    shell.sh("echo work > repo/a").await;
    git(&["--path", "repo", "commit", "-m", "work", "a"]).await;
    let branches = git(&["--path", "repo", "branch"]).await;
    assert_eq!((&branches["branches"], &branches["current"]), (&json!(["main", "work"]), &json!("work")));
    assert_eq!(git(&["--path", "repo", "branch", "side"]).await["branches"], json!(["main", "side", "work"]));
    assert_eq!(git(&["--path", "repo", "branch", "-d", "side"]).await["branches"], json!(["main", "work"]));
    let back = git(&["--path", "repo", "checkout", "main"]).await;
    assert_eq!((&back["branch"], back["commit"].is_string()), (&json!("main"), true));
    shell.sh("echo local > repo/a").await;
    let lost = shell.failure("git", &["--path", "repo", "checkout", "work"]).await;
    assert_eq!(
        (&lost["code"], lost.to_string().contains("\"a\"")),
        (&json!("would_overwrite"), true),
        "{lost}"
    );
    assert_eq!(shell.sh("cat repo/a; git -C repo checkout -q a").await, "local\n");

    // Another account, whose repository it is.
    shell.sh("mkdir theirs && chown nobody theirs").await;
    let theirs =
        ["--user", "nobody", "--workdir", "/workspace/theirs", "--", "git init -q -b main . && echo x > x"];
    shell.out("exec", &theirs).await;
    git(&["--path", "theirs", "--user", "nobody", "commit", "-m", "theirs", "x"]).await;
    let owners = "find /workspace/theirs -not -user nobody | wc -l";
    assert_eq!(shell.sh(owners).await, "0\n", "everything is the account's own");
    shell
        .refused(&[
            ("git", &["status"], "not_a_repository"),
            ("git", &["--path", "nope", "status"], "file_not_found"),
            ("git", &["--path", "repo", "--user", "no-such-user", "status"], "invalid_request"),
            ("git", &["--path", "repo", "log", "nope"], "ref_not_found"),
            ("git", &["--path", "repo", "log", "--limit", "0"], "invalid_request"),
            ("git", &["--path", "repo", "diff", "--base", "nope"], "ref_not_found"),
            ("git", &["--path", "repo", "checkout", "nope"], "ref_not_found"),
            ("git", &["--path", "repo", "checkout", "-b", "work"], "already_exists"),
            ("git", &["--path", "repo", "commit", "-m", "m", "a"], "nothing_to_commit"),
            ("git", &["--path", "repo", "commit", "-m", "", "--all"], "invalid_request"),
        ])
        .await;
    shell
        .misused(&[
            ("git", &["commit", "-m", "m"]),
            ("git", &["commit", "--all"]),
            ("git", &["commit", "-m", "m", "--all", "a"]),
            ("git", &["branch", "--delete"]),
            ("git", &["checkout"]),
            ("git", &["push"]),
            ("git", &[]),
        ])
        .await;
    assert_eq!(shell.sh("ls").await, "repo\ntheirs\n", "nothing was run");
    shell.server.finish().await;
}

/// A remote that is a folder of the sandbox's own.
#[tokio::test]
async fn what_a_remote_has_is_shown_and_followed() {
    let shell = Shell::start().await;
    let make = "git init -q --bare -b main /tmp/bare; git clone -q /tmp/bare /tmp/other 2> /dev/null
        cd /tmp/other; git checkout -q -b main 2> /dev/null || true
        echo base > a; git add .; git commit -qm base; git push -q origin main 2> /dev/null
        git checkout -q -b feature; echo f > f; git add .; git commit -qm feature; git push -q origin feature 2> /dev/null
        git checkout -q main; git clone -q /tmp/bare /workspace/repo
        echo theirs > a; git commit -qam theirs; git push -q origin main 2> /dev/null
        cd /workspace/repo; echo ours > a; git commit -qam ours; git fetch -q 2> /dev/null";
    shell.out("exec", &["--", &format!("{IDENTITY}{make}")]).await;
    assert_eq!(shell.out("git", &["--path", "repo", "status"]).await, "## main...origin/main +1 -1\n");
    let status = shell.json("git", &["--path", "repo", "status"]).await;
    assert_eq!(
        (&status["upstream"], &status["ahead"], &status["behind"]),
        (&json!("origin/main"), &json!(1), &json!(1))
    );
    shell
        .out(
            "exec",
            &["--", &format!("{IDENTITY} cd repo; git merge -q origin/main > /dev/null 2>&1 || true")],
        )
        .await;
    let status = shell.out("git", &["--path", "repo", "status"]).await;
    assert!(status.contains("conflict: a\n"), "{status}");
    assert_eq!(shell.json("git", &["--path", "repo", "status"]).await["conflicts"], json!(["a"]));
    shell.sh("cd repo && git merge --abort").await;
    let followed = shell.json("git", &["--path", "repo", "checkout", "feature"]).await;
    assert_eq!(followed["branch"], "feature");
    assert_eq!(shell.out("git", &["--path", "repo", "status"]).await, "## feature...origin/feature +0 -0\n");
    shell.server.finish().await;
}
