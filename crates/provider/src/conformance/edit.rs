//! Editing files.

use bytes::Bytes;
use emergent_agent_client::{AgentError, EditSpec, Edited, FailureSubject, MatchRule};

use super::{Subject, TestSandbox};

fn spec(path: &str, old: &str, new: &str) -> EditSpec {
    EditSpec {
        path: path.to_owned(),
        old_string: old.to_owned(),
        new_string: new.to_owned(),
        ..EditSpec::default()
    }
}

async fn edit(sandbox: &TestSandbox, spec: EditSpec) -> Edited {
    sandbox.client.edit(&spec).await.unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// The code, the message and the details of an edit that must fail.
async fn refused(sandbox: &TestSandbox, spec: EditSpec) -> (&'static str, String, FailureSubject) {
    match sandbox.client.edit(&spec).await {
        Err(AgentError::Failed { code, message, about }) => (code.as_str(), message, *about),
        other => panic!("{spec:?}: {other:?}"),
    }
}

async fn write(sandbox: &TestSandbox, path: &str, content: &[u8]) {
    sandbox.client.write_file(path, Bytes::copy_from_slice(content)).await.expect("writes");
}

async fn content(sandbox: &TestSandbox, path: &str) -> String {
    sandbox.sh(&format!("od -An -c -v -w1000 {path} | tr -d ' '")).await
}

/// The one place that matches is replaced, and nothing else changes.
pub async fn a_string_is_replaced(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "run.sh", b"#!/bin/sh\necho one\necho two\n").await;
    sandbox.sh("chmod 751 run.sh; ln -s run.sh link").await;
    let edited = edit(&sandbox, spec("link", "echo one\n", "echo 1\necho 1.5\n")).await;
    assert_eq!((edited.lines_changed, edited.replacements, edited.rule), (2, 1, MatchRule::Exact));
    assert!(!edited.created && !edited.diff_truncated);
    let hunk = "@@ -1,3 +1,4 @@\n #!/bin/sh\n-echo one\n+echo 1\n+echo 1.5\n echo two\n";
    assert!(edited.diff.ends_with(hunk), "{}", edited.diff);
    assert_eq!(
        sandbox.sh("./run.sh; stat -c %a run.sh; readlink link; ls -A").await,
        "1\n1.5\ntwo\n751\nrun.sh\nlink\nrun.sh"
    );
    let all = EditSpec { replace_all: true, ..spec("run.sh", "echo", "printf") };
    let edited = edit(&sandbox, all).await;
    assert_eq!((edited.replacements, edited.lines_changed), (3, 3));
    // Bytes that are not text are left alone.
    write(&sandbox, "binary", b"\xff\0key=old\0\xfe").await;
    edit(&sandbox, spec("binary", "old", "new")).await;
    assert_eq!(content(&sandbox, "binary").await, "377\\0key=new\\0376");
}

/// What is not there once is not replaced, and the answer helps.
pub async fn what_is_not_there_once_is_refused(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let text = b"fn main() {\n    let total = 1;\n    let other = 2;\n}\n// total\n";
    write(&sandbox, "main.rs", text).await;
    let (code, message, about) = refused(&sandbox, spec("main.rs", "let total = 3;", "x")).await;
    assert_eq!((code, message.as_str()), ("no_match", "oldString not found in content"));
    assert_eq!(about.suggestions.first().map(String::as_str), Some("2:     let total = 1;"));
    assert_eq!(about.lines.first(), Some(&2));
    let (code, message, about) = refused(&sandbox, spec("main.rs", "total", "x")).await;
    assert_eq!((code, message.as_str()), ("multiple_matches", "Found multiple matches for oldString"));
    assert_eq!(about.lines, [2, 5]);
    let (code, _, about) = refused(&sandbox, spec("main.rs", "total", "total")).await;
    assert_eq!((code, about.field.as_deref()), ("invalid_request", Some("new_string")));
    let (code, _, about) = refused(&sandbox, spec("mian.rs", "a", "b")).await;
    assert_eq!((code, about.suggestions), ("file_not_found", vec!["main.rs".to_owned()]));
    assert_eq!(refused(&sandbox, spec("none/such", "a", "b")).await.0, "file_not_found");
    assert_eq!(refused(&sandbox, spec(".", "a", "b")).await.0, "is_directory");
    sandbox.sh("mkfifo pipe").await;
    assert_eq!(refused(&sandbox, spec("pipe", "a", "b")).await.0, "invalid_request");
    assert_eq!(
        sandbox.sh("cat main.rs; ls -A").await,
        format!("{}main.rs\npipe", String::from_utf8_lossy(text))
    );
}

/// CRLF and a byte order mark are kept, and need not be known.
pub async fn line_ends_and_marks_are_kept(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "dos.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\nfour\r\n").await;
    edit(&sandbox, spec("dos.txt", "one\ntwo", "1\n1.5\n2")).await;
    assert_eq!(content(&sandbox, "dos.txt").await, "3572732771\\r\\n1.5\\r\\n2\\r\\nthree\\nfour\\r\\n");
    // Whatever line ends the request has, those of the file stay.
    write(&sandbox, "dos.txt", b"one\r\ntwo\r\n").await;
    edit(&sandbox, spec("dos.txt", "one\r\ntwo", "1\n2\n3")).await;
    assert_eq!(content(&sandbox, "dos.txt").await, "1\\r\\n2\\r\\n3\\r\\n");
    write(&sandbox, "unix.txt", b"one\ntwo\n").await;
    edit(&sandbox, spec("unix.txt", "one\ntwo", "1\r\n2")).await;
    assert_eq!(content(&sandbox, "unix.txt").await, "1\\n2\\n");
}

/// Beside a place with the very bytes, one that differs in its line ends does not count.
pub async fn the_very_bytes_come_first(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "mixed", b"a\r\nb\r\n--\na\nb\n").await;
    edit(&sandbox, spec("mixed", "a\nb", "x\ny")).await;
    assert_eq!(content(&sandbox, "mixed").await, "a\\r\\nb\\r\\n--\\nx\\ny\\n");
    edit(&sandbox, spec("mixed", "a\nb", "x\ny")).await;
    assert_eq!(content(&sandbox, "mixed").await, "x\\r\\ny\\r\\n--\\nx\\ny\\n");
    let all = EditSpec { replace_all: true, ..spec("mixed", "x\ny", "z\nz") };
    assert_eq!(edit(&sandbox, all).await.replacements, 2);
    assert_eq!(content(&sandbox, "mixed").await, "z\\r\\nz\\r\\n--\\nz\\nz\\n");
    // Line ends alone can be changed.
    let all = EditSpec { replace_all: true, ..spec("mixed", "\r\n", "\n") };
    assert_eq!(edit(&sandbox, all).await.replacements, 2);
    assert_eq!(content(&sandbox, "mixed").await, "z\\nz\\n--\\nz\\nz\\n");
}

/// Close lines are found anywhere in a large file.
pub async fn close_lines_of_a_large_file(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("yes 'something else entirely' | head -n 600000 > large; echo 'let total = 1;' >> large")
        .await;
    let (code, message, about) = refused(&sandbox, spec("large", "let total = 3;", "x")).await;
    assert_eq!((code, message.as_str()), ("no_match", "oldString not found in content"));
    assert_eq!(about.suggestions, ["600001: let total = 1;"]);
}

/// An empty old string creates a file, and only creates.
pub async fn an_empty_old_string_creates(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let edited = edit(&sandbox, spec("a/new/file", "", "one\ntwo\n")).await;
    assert!(edited.created);
    assert_eq!((edited.lines_changed, edited.replacements), (2, 1));
    assert!(edited.diff.starts_with("--- /dev/null\n"), "{}", edited.diff);
    assert_eq!(sandbox.sh("cat a/new/file; stat -c %a a/new/file; ls -A a/new").await, "one\ntwo\n644\nfile");
    assert_eq!(refused(&sandbox, spec("a/new/file", "", "x")).await.0, "already_exists");
    sandbox.sh(": > empty").await;
    assert_eq!(refused(&sandbox, spec("empty", "", "x")).await.0, "already_exists");
    sandbox.sh("ln -s a link; ln -s nowhere dangling").await;
    for folder in ["a", "a/new/", ".", "link"] {
        assert_eq!(refused(&sandbox, spec(folder, "", "x")).await.0, "is_directory", "{folder}");
    }
    assert_eq!(refused(&sandbox, spec("dangling", "", "x")).await.0, "already_exists");
    assert_eq!(sandbox.sh("cat a/new/file empty; ls -A").await, "one\ntwo\na\ndangling\nempty\nlink");
}

/// Fuzzy matching is asked for, says what it did, and never chooses.
pub async fn fuzzy_only_when_asked_for(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "f.py", b"def f():\n    if a:  \n        b()\n").await;
    let old = "if a:\n    b()\n";
    assert_eq!(refused(&sandbox, spec("f.py", old, "x")).await.0, "no_match");
    let fuzzy = EditSpec { fuzzy: true, ..spec("f.py", old, "if c:\n    d()\n") };
    assert_eq!(edit(&sandbox, fuzzy).await.rule, MatchRule::Indentation);
    assert_eq!(sandbox.sh("cat f.py").await, "def f():\n    if c:\n        d()");
    write(&sandbox, "blanks", b"a  \nb\n").await;
    let fuzzy = EditSpec { fuzzy: true, ..spec("blanks", "a\nb\n", "c\n") };
    assert_eq!(edit(&sandbox, fuzzy).await.rule, MatchRule::TrailingBlanks);
    write(&sandbox, "twice", b"a  \nb\na \nb\n").await;
    let fuzzy = EditSpec { fuzzy: true, ..spec("twice", "a\nb\n", "c\n") };
    assert_eq!(refused(&sandbox, fuzzy).await.0, "multiple_matches");
}

/// No edit is lost, whatever path leads to the file.
pub async fn concurrent_edits_all_happen(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let lines: String = (0..40).map(|number| format!("<{number}>\n")).collect();
    write(&sandbox, "shared", lines.as_bytes()).await;
    sandbox.sh("ln -s shared link").await;
    let path = sandbox.path("shared");
    let paths = ["shared", "link", "./shared", path.as_str()];
    let edits = (0..40usize).map(|number| {
        let edit = spec(paths[number % 4], &format!("<{number}>"), &format!("done {number}"));
        let client = sandbox.client.clone();
        async move { client.edit(&edit).await }
    });
    for outcome in futures::future::join_all(edits).await {
        outcome.expect("edits");
    }
    assert_eq!(sandbox.sh("grep -c done shared; ls -A").await, "40\nlink\nshared");
}
