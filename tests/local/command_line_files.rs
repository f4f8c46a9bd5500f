//! What the contract promises of `read`, `write`, `edit`, `glob` and `grep`, through the command line.

use serde_json::{Value, json};

use crate::command_line_shell::Shell;

#[tokio::test]
async fn every_field_and_promise_of_read_and_write() {
    let shell = Shell::start().await;
    // Each row: what is typed, and what is told.
    for (path, input, created) in [
        ("new/folders/text", b"one\r\ntwo\n".as_slice(), true),
        ("new/folders/text", b"".as_slice(), false),
        ("bytes", b"a\xffb\x00".as_slice(), true),
    ] {
        let output = shell.run_with("write", &[path, "--json"], input).await;
        let expect = json!({"success": true, "bytes_written": input.len(), "created": created});
        assert_eq!(serde_json::from_str::<Value>(&output.stdout).unwrap(), expect, "{path}: {output:?}");
    }
    assert_eq!(shell.sh("od -An -tx1 bytes").await.trim(), "61 ff 62 00");
    // More than one call takes.
    let large = vec![b'x'; 3 << 20];
    assert_eq!(shell.run_with("write", &["large"], &large).await.stdout, "3145728 bytes\n");
    assert_eq!(shell.sh("stat -c '%s %a' large").await, "3145728 644\n");
    shell.sh("echo old > script && chown 1:2 script && chmod 4751 script; ln -s script link").await;
    for path in ["script", "link"] {
        let written = shell.run_with("write", &[path], b"#!/bin/sh\n").await;
        assert_eq!((written.code, written.stdout.as_str()), (Some(0), "10 bytes\n"), "{written:?}");
        assert_eq!(shell.sh("stat -c '%a %u:%g %F' script").await, "4751 1:2 regular file\n");
    }

    let long = format!("short\n{}\n{}\n", "ä".repeat(2000), "ä".repeat(2001));
    assert_eq!(shell.run_with("write", &["long"], long.as_bytes()).await.code, Some(0));
    let page = shell.out("read", &["long"]).await;
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines[1], format!("2: {}", "ä".repeat(2000)));
    let cut = lines[2].strip_prefix(&format!("3: {}", "ä".repeat(2000))).unwrap();
    assert!(cut.contains("cut") && !cut.contains('ä'), "{cut}");
    assert_eq!(shell.json("read", &["long"]).await["truncated"], true);

    // Pages of 50 KiB, one after the other, as the notes beside them say.
    shell
        .sh("seq -f 'line %05.0f and more of it, so that there are several pages of this file' 2001 > many")
        .await;
    assert_eq!(shell.json("read", &["many"]).await["total_lines"], 2001);
    let (mut offset, mut seen, mut pages) = ("1".to_owned(), 0, 0);
    loop {
        let page = shell.run("read", &["many", "--offset", &offset]).await;
        assert!(page.stdout.starts_with(&format!("{offset}: line ")) && page.stdout.len() <= 51 << 10);
        seen += page.stdout.lines().count();
        pages += 1;
        let Some((_, next)) = page.stderr.trim().split_once("there are 2001 lines; go on with --offset ")
        else {
            assert_eq!(page.stderr, "");
            break;
        };
        offset = next.to_owned();
    }
    assert!(seen == 2001 && pages > 2, "{seen} lines on {pages} pages");
    shell.sh("seq 2001 > short").await;
    assert_eq!(shell.json("read", &["short"]).await["next_offset"], 2001, "2000 lines where nobody says");

    shell
        .sh("mkdir d; touch d/b d/a; mkdir d/c; printf 'a\\0b' > nul; printf '\\1\\1a\\r\\n' > control")
        .await;
    assert_eq!(shell.out("read", &["/workspace/d"]).await, "a\nb\nc/\n");
    let page = shell.json("read", &["d", "--offset", "2", "--limit", "1"]).await;
    assert_eq!(
        (&page["entries"], &page["next_offset"], &page["total_entries"]),
        (&json!(["b"]), &json!(3), &json!(3))
    );
    for binary in ["nul", "control"] {
        let answer = shell.json("read", &[binary]).await;
        assert!(answer["size"].is_u64() && answer["mime"].is_string() && answer.get("content").is_none());
    }
    // A pipe gets what is there.
    assert_eq!(
        shell.run_with("write", &["colour"], b"\x1b[31mred and not much else\r\n").await.code,
        Some(0)
    );
    assert_eq!(shell.out("read", &["colour"]).await, "1: \u{1b}[31mred and not much else\r\n");
    let near = shell.failure("read", &["lnog"]).await;
    assert_eq!(
        (&near["code"], &near["details"]["suggestions"][0]),
        (&json!("file_not_found"), &json!("long"))
    );
    shell.sh("touch near-1 near-2 near-3 near-4").await;
    let near = shell.failure("read", &["near-5"]).await;
    assert_eq!(near["details"]["suggestions"].as_array().unwrap().len(), 3, "{near}");
    let told = shell.run("read", &["near-5"]).await;
    assert!(told.stderr.contains("close to it:\n  near-"), "{}", told.stderr);

    shell
        .refused(&[
            ("read", &["long", "--offset", "0"], "invalid_request"),
            ("read", &["long", "--limit", "0"], "invalid_request"),
            ("write", &["d"], "is_directory"),
            ("write", &["long/below"], "not_a_directory"),
        ])
        .await;
    shell.misused(&[("read", &[]), ("read", &["long", "--limit", "many"]), ("write", &[])]).await;

    // All or nothing.
    let full = shell.run("exec", &["--", "echo before > kept; head -c 1G /dev/zero > big"]).await;
    assert!(full.stderr.contains("No space left"), "{full:?}");
    for size in [1 << 20, 8 << 20] {
        let refused = shell.run_with("write", &["kept", "--json"], &vec![b'x'; size]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("no_space"), "{refused:?}");
    }
    assert_eq!(shell.out("read", &["kept"]).await, "1: before\n");
    shell.server.finish().await;
}

#[tokio::test]
async fn every_field_and_promise_of_edit() {
    let shell = Shell::start().await;
    let source = r"printf '\xef\xbb\xbfone\r\ntwo\r\ntwo\r\n' > crlf; printf '\tif x {\n\t\ty\n\t}\n' > code";
    shell.sh(source).await;
    let edited = shell.json("edit", &["crlf", "--old", "one\ntwo", "--new", "1\n$(id)"]).await;
    assert_eq!(
        (&edited["success"], &edited["replacements"], &edited["lines_changed"]),
        (&json!(true), &json!(1), &json!(2)),
        "{edited}"
    );
    assert!(edited["diff"].as_str().unwrap().contains("+$(id)") && edited.get("rule").is_none(), "{edited}");
    assert_eq!(
        shell.sh("od -An -c crlf | tr -d ' \\n'").await,
        r"3572732771\r\n$(id)\r\ntwo\r\n",
        "the mark and the line ends stay"
    );
    shell.sh("printf 'two\\ntwo\\nsecond line\\n' > twice").await;
    let several = shell.failure("edit", &["twice", "--old", "two", "--new", "2"]).await;
    assert!(
        several["message"].as_str().unwrap().contains("Found multiple matches for oldString"),
        "{several}"
    );
    assert_eq!(several["details"]["lines"], json!([1, 2]));
    let told = shell.run("edit", &["twice", "--old", "two", "--new", "2"]).await;
    assert!(told.stderr.contains("at lines: 1, 2"), "{}", told.stderr);
    let all = shell.out("edit", &["twice", "--all", "--old", "two", "--new", "2"]).await;
    assert!(all.contains("-two\n+2\n-two\n+2\n"), "{all}");
    let missing = shell.failure("edit", &["twice", "--old", "secnod line", "--new", "x"]).await;
    assert!(missing["message"].as_str().unwrap().contains("oldString not found in content"), "{missing}");
    assert!(missing["details"]["suggestions"].to_string().contains("second line"), "{missing}");
    let told = shell.run("edit", &["twice", "--old", "secnod line", "--new", "x"]).await;
    assert!(
        told.stderr.contains("close to it:\n  ") && told.stderr.contains("second line"),
        "{}",
        told.stderr
    );

    let created = shell.json("edit", &["new/file", "--old", "", "--new", "hi\n"]).await;
    assert_eq!(created["created"], true);
    let loose = ["code", "--old", "if x {\n  y\n}", "--new", "if z {\n\ty\n}"];
    assert_eq!(shell.failure("edit", &loose).await["code"], "no_match", "off where nobody asks");
    let fuzzy = shell.run("edit", &[loose.as_slice(), &["--fuzzy"]].concat()).await;
    assert_eq!((fuzzy.code, fuzzy.stderr.as_str()), (Some(0), "found by: indentation\n"), "{fuzzy:?}");
    let exact = shell.json("edit", &["code", "--fuzzy", "--old", "z", "--new", "w"]).await;
    assert_eq!(exact["rule"], "exact");
    shell
        .refused(&[
            ("edit", &["new/file", "--old", "", "--new", "ho\n"], "already_exists"),
            ("edit", &["new/file", "--old", "hi", "--new", "hi"], "invalid_request"),
            ("edit", &["code", "--fuzzy", "--all", "--old", "w", "--new", "v"], "invalid_request"),
            ("edit", &["new", "--old", "a", "--new", "b"], "is_directory"),
            ("edit", &["nope", "--old", "a", "--new", "b"], "file_not_found"),
        ])
        .await;
    shell.misused(&[("edit", &["code", "--old", "a"]), ("edit", &["code", "--new", "a"])]).await;

    // A file of any size.
    shell.sh("seq 1 3000000 > large; echo needle >> large; seq 1 1000000 >> large").await;
    let edited = shell.json("edit", &["large", "--old", "needle", "--new", "thread"]).await;
    assert_eq!((&edited["replacements"], &edited["lines_changed"]), (&json!(1), &json!(1)), "{edited}");
    assert_eq!(shell.sh("sed -n 3000001p large; wc -l < large; rm large").await, "thread\n4000001\n");

    // At once, each by a program of its own.
    let numbers: Vec<String> = (10..18).map(|number| number.to_string()).collect();
    shell.sh("seq 10 17 > shared").await;
    let edit = async |number: &str| {
        let new = format!("<{number}>");
        shell.out("edit", &["shared", "--old", number, "--new", &new]).await
    };
    let edits = numbers.iter().map(|number| edit(number));
    futures::future::join_all(edits).await;
    let expect: String = numbers.iter().map(|number| format!("<{number}>\n")).collect();
    assert_eq!(shell.sh("cat shared").await, expect);
    shell.server.finish().await;
}

#[tokio::test]
async fn every_field_and_promise_of_glob_and_grep() {
    let shell = Shell::start().await;
    shell
        .sh("mkdir -p src .hidden build && git init -q . && echo build/ > .gitignore
             printf 'one\\nTwo\\nthree\\n' > src/a.rs; printf 'two\\n' > 'src/b c.rs'
             printf 'two\\n' > .hidden/h.txt; printf 'two\\n' > build/o.rs; printf 'two\\n' > .git/two
             touch -d 2001-01-01 src/a.rs; touch -d 2002-01-01 'src/b c.rs'; touch -d 2003-01-01 build/o.rs
             i=0; while [ $i -lt 101 ]; do echo hundred > src/$i.n; i=$((i+1)); done")
        .await;
    let (a, b, o) = ("/workspace/src/a.rs", "/workspace/src/b c.rs", "/workspace/build/o.rs");
    // Each row: the arguments, the files, and whether there are more.
    let rows: &[(&[&str], &[&str], bool)] = &[
        (&["**/*.rs"], &[b, a], false),
        (&["**/*.rs", "--limit", "1"], &[b], true),
        (&["**/*.rs", "--limit", "2"], &[b, a], false),
        (&["**/*.rs", "--include-ignored"], &[o, b, a], false),
        (&["*.rs", "--path", "src"], &[b, a], false),
        (&["*.rs", "--path", "src/a.rs"], &[a], false),
        (&["*.txt", "--path", "src/a.rs"], &[], false),
        (&["**/h.txt"], &[], false),
        (&[".hidden/*"], &["/workspace/.hidden/h.txt"], false),
        (&[".git/two"], &[], false),
        (&[".git/two", "--include-ignored"], &["/workspace/.git/two"], false),
        (&["*; touch /workspace/ran"], &[], false),
    ];
    for (arguments, files, truncated) in rows {
        let answer = shell.json("glob", arguments).await;
        assert_eq!(answer, json!({"files": files, "truncated": truncated}), "{arguments:?}");
        let plain = shell.run("glob", arguments).await;
        let expect: String = files.iter().map(|file| format!("{file}\n")).collect();
        assert_eq!((plain.code, plain.stdout), (Some(0), expect), "{arguments:?}");
        assert_eq!(plain.stderr.contains("--limit shows more"), *truncated, "{arguments:?}");
    }
    let hundred = shell.json("glob", &["**/*.n"]).await;
    assert_eq!((hundred["files"].as_array().unwrap().len(), &hundred["truncated"]), (100, &json!(true)));

    let found = |file: &str, line: u64, text: &str| json!({"file": file, "line": line, "text": text});
    let h = "/workspace/.hidden/h.txt";
    let with_context = json!({"file": a, "line": 2, "text": "Two", "before": ["one"], "after": ["three"]});
    // Each row: the arguments, the answer without `truncated`, and what people read.
    let rows: &[(&[&str], Value, String)] = &[
        (
            &["^two$"],
            json!({"matches": [found(h, 1, "two"), found(b, 1, "two")]}),
            format!("{h}:1:two\n{b}:1:two\n"),
        ),
        (&["two", "src"], json!({"matches": [found(b, 1, "two")]}), format!("{b}:1:two\n")),
        (&["two", "src/b c.rs"], json!({"matches": [found(b, 1, "two")]}), format!("{b}:1:two\n")),
        (&["two", "--include", "*.txt"], json!({"matches": [found(h, 1, "two")]}), format!("{h}:1:two\n")),
        (
            &["-i", "-C", "1", "two", "src/a.rs"],
            json!({"matches": [with_context]}),
            format!("{a}-1-one\n{a}:2:Two\n{a}-3-three\n"),
        ),
        (
            &["one\\nTwo", "--multiline"],
            json!({"matches": [found(a, 1, "one\nTwo")]}),
            format!("{a}:1:one\n{a}:2:Two\n"),
        ),
        (&["-l", "t", "src", "--include", "*.rs"], json!({"files": [a, b]}), format!("{a}\n{b}\n")),
        (
            &["-c", "[eo]$", "src", "--include", "*.rs"],
            json!({"counts": [{"file": a, "count": 3}, {"file": b, "count": 1}]}),
            format!("{a}:3\n{b}:1\n"),
        ),
        (
            &["two", "build", "--include-ignored"],
            json!({"matches": [found(o, 1, "two")]}),
            format!("{o}:1:two\n"),
        ),
        (
            &["two", "--include", "*.rs", "--limit", "1"],
            json!({"matches": [found(b, 1, "two")]}),
            format!("{b}:1:two\n"),
        ),
        (&["nowhere"], json!({"matches": []}), String::new()),
    ];
    for (arguments, expect, lines) in rows {
        let mut expect = expect.clone();
        expect["truncated"] = json!(false);
        assert_eq!(shell.json("grep", arguments).await, expect, "{arguments:?}");
        let plain = shell.run("grep", arguments).await;
        assert_eq!((plain.code, &plain.stdout), (Some(0), lines), "{arguments:?}");
    }
    let one = shell.run("grep", &["two", "--limit", "1"]).await;
    assert!(one.stdout.lines().count() == 1 && one.stderr.contains("--limit shows more"), "{one:?}");
    assert_eq!(shell.json("grep", &["two", "--limit", "1"]).await["truncated"], true);
    let hundred = shell.json("grep", &["hundred"]).await;
    assert_eq!((hundred["matches"].as_array().unwrap().len(), &hundred["truncated"]), (100, &json!(true)));

    for (tool, pattern) in [("glob", "a[b"), ("grep", "a(b")] {
        let failure = shell.failure(tool, &[pattern]).await;
        assert_eq!(
            (&failure["code"], &failure["details"]["field"]),
            (&json!("invalid_request"), &json!("pattern"))
        );
        assert!(failure["details"]["position"].is_u64(), "{failure}");
    }
    shell
        .refused(&[
            ("glob", &["*", "--limit", "0"], "invalid_request"),
            ("glob", &["*", "--path", "nope"], "file_not_found"),
            ("grep", &["a", "nope"], "file_not_found"),
            ("grep", &["a", "--include", "a[b"], "invalid_request"),
            ("grep", &["a", "--limit", "10001"], "invalid_request"),
            ("grep", &["a", "-C", "101"], "invalid_request"),
        ])
        .await;
    shell
        .misused(&[
            ("glob", &[]),
            ("grep", &[]),
            ("grep", &["a", "-l", "-c"]),
            ("glob", &["*", "--limit", "x"]),
        ])
        .await;
    assert_eq!(shell.sh("ls -A | grep -c ran || true").await, "0\n", "nothing was run");
    shell.server.finish().await;
}
