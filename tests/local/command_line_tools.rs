//! Every tool of the contract through `emergent workspace …`: what people read, what programs
//! read, and how it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use emergent_test_support::eventually;
use serde_json::{Value, json};

use crate::command_line_shell::Shell;

#[tokio::test]
async fn read_write_and_edit() {
    let shell = Shell::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let from = file.to_str().unwrap();
    assert_eq!(shell.out("write", &["a/file", "--from", from]).await, "14 bytes\n");
    let input = ["workspace", "write", &shell.id, "typed", "--json"];
    let written = shell.server.command_with_input(&input, b"from \xff input").await;
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let written: Value = serde_json::from_str(&written.stdout).unwrap();
    assert_eq!(written, json!({"success": true, "bytes_written": 12, "created": true}));

    assert_eq!(shell.out("read", &["a/file"]).await, "1: one\n2: two\n3: three\n");
    let page = shell.run("read", &["a/file", "--offset", "2", "--limit", "1"]).await;
    assert_eq!((page.code, page.stdout.as_str()), (Some(0), "2: two\n"));
    assert!(page.stderr.contains("--offset 3"), "{}", page.stderr);
    let page = shell.json("read", &["a/file", "--limit", "1"]).await;
    assert_eq!(
        (&page["total_lines"], &page["truncated"], &page["next_offset"]),
        (&json!(3), &json!(true), &json!(2))
    );
    assert_eq!(shell.out("read", &["."]).await, "a/\ntyped\n");
    shell.out("exec", &["--", "mkdir none; : > empty; head -c 10 /dev/zero > binary"]).await;
    assert_eq!(shell.note("read", &["none"]).await, "there is nothing in it\n");
    assert_eq!(shell.note("read", &["empty"]).await, "there is nothing in it\n");
    assert!(shell.out("read", &["binary"]).await.ends_with(", 10 bytes\n"));
    let missing = shell.failure("read", &["a/fil"]).await;
    assert_eq!(missing["code"], "file_not_found");
    assert_eq!(missing["details"]["suggestions"], json!(["file"]));

    let diff = shell.out("edit", &["a/file", "--old", "two", "--new", "2"]).await;
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    let edited = shell.json("edit", &["a/file", "--old", "e", "--new", "E", "--all"]).await;
    assert_eq!((&edited["success"], &edited["replacements"]), (&json!(true), &json!(3)));
    assert_eq!(
        shell.failure("edit", &["a/file", "--old", "nowhere", "--new", "x"]).await["code"],
        "no_match"
    );
    assert_eq!(
        shell.failure("edit", &["a/file", "--old", "E", "--new", "x"]).await["code"],
        "multiple_matches"
    );
    let fuzzy = shell.json("edit", &["a/file", "--fuzzy", "--old", "  2  ", "--new", "two"]).await;
    assert_eq!(fuzzy["success"], true);
    shell.out("edit", &["new", "--old", "", "--new", "-made\n"]).await;
    assert_eq!(shell.out("read", &["new"]).await, "1: -made\n");
    shell.server.finish().await;
}

#[tokio::test]
async fn glob_and_grep() {
    let shell = Shell::start().await;
    let make = "mkdir src; printf 'fn one() {}\\n// two\\nfn three() {}\\n' > src/a.rs; touch -d @1 src/a.rs; echo FN > src/b.rs";
    shell.out("exec", &["--", make]).await;
    assert_eq!(shell.out("glob", &["**/*.rs"]).await, "/workspace/src/b.rs\n/workspace/src/a.rs\n");
    let one = shell.run("glob", &["*.rs", "--path", "src", "--limit", "1"]).await;
    assert_eq!((one.code, one.stdout.as_str()), (Some(0), "/workspace/src/b.rs\n"));
    assert!(one.stderr.contains("--limit"), "{}", one.stderr);
    assert_eq!(shell.note("glob", &["*.py"]).await, "no file looks like this\n");
    assert_eq!(shell.json("glob", &["*.py"]).await, json!({"files": [], "truncated": false}));
    assert_eq!(shell.failure("glob", &["["]).await["code"], "invalid_request");
    shell.out("exec", &["--", "echo src/b.rs > .gitignore"]).await;
    assert_eq!(shell.out("glob", &["**/*.rs"]).await, "/workspace/src/a.rs\n");
    let all = shell.out("glob", &["**/*.rs", "--include-ignored"]).await;
    assert_eq!(all, "/workspace/src/b.rs\n/workspace/src/a.rs\n");
    assert_eq!(shell.out("glob", &["*.rs", "--path", "src/a.rs"]).await, "/workspace/src/a.rs\n");
    assert_eq!(shell.out("glob", &[".git*"]).await, "/workspace/.gitignore\n");
    shell.out("exec", &["--", "rm .gitignore"]).await;

    let found = shell.out("grep", &[r"fn \w+", "src", "--include", "*.rs"]).await;
    assert_eq!(found, "/workspace/src/a.rs:1:fn one() {}\n/workspace/src/a.rs:3:fn three() {}\n");
    let context = shell.out("grep", &["two", "-C", "1"]).await;
    assert_eq!(
        context,
        "/workspace/src/a.rs-1-fn one() {}\n/workspace/src/a.rs:2:// two\n/workspace/src/a.rs-3-fn three() {}\n"
    );
    assert_eq!(shell.out("grep", &["-l", "three"]).await, "/workspace/src/a.rs\n");
    assert_eq!(
        shell.out("grep", &["-c", "-i", "^fn"]).await,
        "/workspace/src/a.rs:2\n/workspace/src/b.rs:1\n"
    );
    assert_eq!(shell.out("grep", &["--multiline", r"two\nfn", "-l"]).await, "/workspace/src/a.rs\n");
    assert_eq!(shell.note("grep", &["four"]).await, "no line matches\n");
    let matches = shell.json("grep", &["one"]).await;
    assert_eq!(matches["matches"][0]["line"], 1);
    let refused = shell.failure("grep", &["("]).await;
    assert_eq!(refused["code"], "invalid_request");
    assert!(refused["details"]["position"].is_u64(), "{refused}");
    shell.server.finish().await;
}

#[tokio::test]
async fn every_action_of_git() {
    let shell = Shell::start().await;
    let git = async |arguments: &[&str]| shell.out("git", arguments).await;
    assert_eq!(shell.failure("git", &["status"]).await["code"], "not_a_repository");
    let make = "git init -q -b main . && git config user.name A && git config user.email a@b && mkdir r && echo 1 > r/a";
    shell.out("exec", &["--", make]).await;
    // Before the first commit.
    assert_eq!(shell.note("git", &["log"]).await, "there are no commits yet\n");
    assert_eq!(shell.json("git", &["log"]).await["commits"], json!([]));
    assert_eq!(shell.note("git", &["branch"]).await, "there are no branches yet\n");
    assert_eq!(shell.note("git", &["diff"]).await, "nothing differs\n");
    assert_eq!(git(&["status"]).await, "## main\nuntracked: r/\n");

    let made = git(&["commit", "-m", "first; $(date)", "r/a"]).await;
    assert!(made.ends_with(" (1 files)\n"), "{made}");
    assert!(git(&["log"]).await.contains(": first; $(date)\n"));
    shell.out("exec", &["--", "echo 2 > r/a; echo 3 > b; git add b"]).await;
    assert_eq!(git(&["status"]).await, "## main\nstaged   added: b\nunstaged modified: r/a\n");
    assert!(git(&["diff"]).await.contains("-1\n+2\n"));
    assert!(git(&["diff", "--staged"]).await.contains("+3\n"));
    assert_eq!(shell.note("git", &["diff", "b"]).await, "nothing differs\n");
    let status = shell.json("git", &["status"]).await;
    assert_eq!((&status["branch"], &status["staged"][0]["path"]), (&json!("main"), &json!("b")));
    let made = shell.json("git", &["commit", "--all", "-m", "second"]).await;
    assert_eq!(made["files_changed"], 2);
    assert_eq!(shell.failure("git", &["commit", "--all", "-m", "third"]).await["code"], "nothing_to_commit");
    let one = shell.run("git", &["log", "--limit", "1"]).await;
    assert!(one.stdout.contains("second") && one.stderr.contains("--limit"), "{one:?}");
    assert!(git(&["diff", "--base", "HEAD~1", "r/a"]).await.contains("-1\n+2\n"));

    assert_eq!(git(&["branch", "side"]).await, "* main\n  side\n");
    assert!(git(&["checkout", "side"]).await.starts_with("side ("));
    assert!(git(&["checkout", "-b", "new"]).await.starts_with("new ("));
    assert_eq!(git(&["branch", "--delete", "side"]).await, "  main\n* new\n");
    assert_eq!(shell.failure("git", &["checkout", "nowhere"]).await["code"], "ref_not_found");
    assert_eq!(git(&["--path", "r", "status"]).await, "## new\n");
    shell.server.finish().await;
}

/// A link is not followed, in neither direction: it may lead to a secret here, or in circles
/// there. Empty folders and odd names come along.
async fn copies_lead_nowhere_else(shell: &Shell, folder: &std::path::Path) {
    let (here, odd) = (folder.join("links"), "a b\n'c'");
    fs::create_dir_all(here.join("empty/inner")).unwrap();
    fs::write(folder.join("secret"), "secret").unwrap();
    fs::write(here.join(odd), "odd").unwrap();
    std::os::unix::fs::symlink(folder.join("secret"), here.join("out")).unwrap();
    std::os::unix::fs::symlink("nowhere", here.join("dangling")).unwrap();
    let inside = format!("{}:links", shell.id);
    let copied = shell.server.command(&["--json", "workspace", "cp", here.to_str().unwrap(), &inside]).await;
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let told: Value = serde_json::from_str(&copied.stdout).unwrap();
    assert_eq!((&told["files"], told["left_out"].as_array().unwrap().len()), (&json!(1), 2), "{told}");
    assert_eq!(
        shell.out("exec", &["--", "cd links && ls -A && ls empty"]).await.lines().last(),
        Some("inner")
    );
    assert_eq!(
        shell.out("exec", &["--", "test ! -e links/out && ln -s ../.. links/up && echo ok"]).await,
        "ok\n"
    );

    let back = folder.join("links-back");
    let copied = shell.server.command(&["workspace", "cp", &inside, back.to_str().unwrap()]).await;
    assert_eq!((copied.code, copied.stdout.as_str()), (Some(0), "1 files, 3 bytes\n"), "{}", copied.stderr);
    assert!(copied.stderr.contains("links/up"), "{}", copied.stderr);
    assert_eq!(fs::read_to_string(back.join(odd)).unwrap(), "odd");
    assert!(back.join("empty/inner").is_dir() && fs::symlink_metadata(back.join("up")).is_err());
    copies_keep_to_their_own_names(shell, folder).await;
    // More than its disk can hold, out of nothing.
    assert_eq!(shell.out("exec", &["--", "truncate -s 1T links/sparse && echo ok"]).await, "ok\n");
    let (from, to) = (format!("{}:links/sparse", shell.id), folder.join("sparse"));
    let refused = shell.server.command(&["workspace", "cp", &from, to.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(!to.exists() && refused.stderr.contains("disk"), "{}", refused.stderr);
}

/// What is here and not named stays as it is: files with names like a temporary one's, and what links here
/// lead to.
async fn copies_keep_to_their_own_names(shell: &Shell, folder: &std::path::Path) {
    let (to, elsewhere) = (folder.join("own"), folder.join("elsewhere"));
    fs::create_dir_all(&to).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(to.join("file.partial"), "mine").unwrap();
    fs::write(elsewhere.join("secret"), "mine").unwrap();
    std::os::unix::fs::symlink(elsewhere.join("secret"), to.join("file")).unwrap();
    assert_eq!(
        shell.out("exec", &["--", "mkdir -p own/sub; echo x > own/file; echo y > own/sub/f"]).await,
        ""
    );
    let cp = async |from: &str, to: &std::path::Path| {
        let from = format!("{}:{from}", shell.id);
        shell.server.command(&["workspace", "cp", &from, to.to_str().unwrap()]).await
    };
    let copied = cp("own/file", &to.join("file")).await;
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "x\n");
    assert!(!to.join("file").is_symlink());
    assert_eq!(fs::read_to_string(to.join("file.partial")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(elsewhere.join("secret")).unwrap(), "mine");
    // A folder that is a link here.
    let tree = folder.join("tree-with-link");
    fs::create_dir(&tree).unwrap();
    fs::create_dir(tree.join("own")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, tree.join("own/sub")).unwrap();
    let refused = cp("own", &tree).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("link"), "{}", refused.stderr);
    assert!(!elsewhere.join("f").exists());
    let left = fs::read_dir(&to).unwrap().chain(fs::read_dir(tree.join("own")).unwrap());
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
}

#[tokio::test]
async fn copies_processes_and_history() {
    let shell = Shell::start().await;
    let folder = tempfile::tempdir().unwrap();
    let here = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
    fs::create_dir_all(folder.path().join("tree/deep")).unwrap();
    fs::write(folder.path().join("tree/run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(folder.path().join("tree/run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("tree/deep/zero"), vec![0; 3 << 20]).unwrap();
    let inside = |path: &str| format!("{}:{path}", shell.id);
    let cp = async |from: &str, to: &str| shell.server.command(&["workspace", "cp", from, to]).await;
    let copied = cp(&here("tree"), &inside("tree")).await;
    assert_eq!(
        (copied.code, copied.stdout.as_str()),
        (Some(0), "2 files, 3145747 bytes\n"),
        "{}",
        copied.stderr
    );
    assert_eq!(shell.out("exec", &["--", "tree/run; stat -c %s tree/deep/zero"]).await, "ran\n3145728\n");
    let copied = cp(&inside("tree"), &here("back")).await;
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert_eq!(fs::read(folder.path().join("back/deep/zero")).unwrap(), vec![0; 3 << 20]);
    assert_eq!(fs::metadata(folder.path().join("back/run")).unwrap().permissions().mode() & 0o777, 0o755);
    let json = shell.server.command(&["--json", "workspace", "cp", &inside("tree/run"), &here("run")]).await;
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap(), json!({"files": 1, "bytes": 19}));
    copies_lead_nowhere_else(&shell, folder.path()).await;
    assert_eq!(cp(&here("a"), &here("b")).await.code, Some(2), "no workspace is named");
    assert_eq!(cp(&inside("missing"), &here("b")).await.code, Some(1));

    assert_eq!(shell.out("ps", &[]).await, "there are no background processes\n");
    let script = "echo out; echo err >&2; sleep 1000";
    let process = shell.out("exec", &["--background", "--", script]).await.trim().to_owned();
    eventually("it has printed", Duration::from_secs(10), async || {
        (shell.out("ps", &[&process]).await == "out\n").then_some(())
    })
    .await;
    assert_eq!(shell.out("ps", &[&process, "--stderr"]).await, "err\n");
    let list = shell.out("ps", &[]).await;
    assert!(list.starts_with("ID") && list.contains("running") && list.contains("sleep 1000"), "{list}");
    assert_eq!(shell.json("ps", &[]).await["items"][0]["status"], "running");
    let sent = shell.out("ps", &[&process, "--signal", "KILL"]).await;
    assert!(sent.starts_with("SIGKILL to "), "{sent}");
    assert_eq!(shell.out("ps", &[&process, "--follow"]).await, "out\n", "it has ended");
    assert_eq!(shell.failure("ps", &["999"]).await["code"], "process_not_found");

    let (history, _) = eventually("all of it is remembered", Duration::from_secs(10), async || {
        let history = shell.out("history", &["--limit", "100"]).await;
        (history.contains("upload") && history.contains("process_not_found")).then_some(history)
    })
    .await;
    assert!(history.starts_with("TIME") && history.contains("sleep 1000"), "{history}");
    let entries = shell.json("history", &["--tool", "download", "--outcome", "ok"]).await;
    assert!(!entries["items"].as_array().unwrap().is_empty());
    assert_eq!(shell.out("history", &["--tool", "edit"]).await, "nothing was done in it\n");
    shell.server.finish().await;
}

/// One that cannot be removed does not keep the others.
#[tokio::test]
async fn of_several_all_that_can_be_are_removed() {
    let shell = Shell::start().await;
    let missing = "0199e6a4-0000-7000-8000-000000000000";
    let rm = shell.server.command(&["workspace", "rm", missing, &shell.id]).await;
    assert_eq!((rm.code, rm.stdout.trim()), (Some(3), shell.id.as_str()));
    assert!(rm.stderr.contains(missing), "{}", rm.stderr);
    let made = shell.server.command(&["token", "create", "a", "--kind", "user", "--json"]).await;
    let id = serde_json::from_str::<Value>(&made.stdout).unwrap()["id"].as_str().unwrap().to_owned();
    let revoked = shell.server.command(&["token", "revoke", missing, &id]).await;
    assert_eq!((revoked.code, revoked.stdout.trim()), (Some(1), id.as_str()));
    shell.server.finish().await;
}

/// The shells' completions know the commands, their options and the values of these.
#[tokio::test]
async fn completions_know_every_name() {
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = emergent_test_support::run_program(&["completions", name], &[]).await;
        assert_eq!(script.code, Some(0), "{name}: {}", script.stderr);
        // Of the values, those that can complete them.
        let values: &[&str] = if ["bash", "zsh", "fish"].contains(&name) {
            &["microvm", "interrupted", "read_only"]
        } else {
            &[]
        };
        for word in ["workspace", "history", "min-isolation"].iter().chain(values) {
            assert!(script.stdout.contains(word), "{name} does not know {word}");
        }
    }
}
