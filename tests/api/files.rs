//! Reading and writing files.

use serde_json::json;

use crate::api::Api;

/// Proves: DESIGN-4.3, DESIGN-4.4, DESIGN-10.5, DESIGN-10.6
#[tokio::test]
async fn what_is_written_can_be_read() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let written =
        workspace.post("/write", json!({"file_path": "a/b/c.txt", "content": "one\ntwo\nthree\n"})).await;
    assert_eq!(written.body, json!({"success": true, "bytes_written": 14, "created": true}));
    let read = workspace.post("/read", json!({"file_path": "a/b/c.txt"})).await.body;
    assert_eq!(read["type"], "text");
    assert_eq!((&read["total_lines"], &read["truncated"]), (&json!(3), &json!(false)));
    assert_eq!(read["content"].as_str().unwrap().trim_end(), "1: one\n2: two\n3: three");
    assert!(read.get("next_offset").is_none());
    assert_eq!(workspace.sh("cat /workspace/a/b/c.txt").await, "one\ntwo\nthree\n");

    let page =
        workspace.post("/read", json!({"path": "/workspace/a/b/c.txt", "offset": 2, "limit": 1})).await.body;
    assert_eq!(page["content"].as_str().unwrap().trim_end(), "2: two");
    assert_eq!((&page["truncated"], &page["next_offset"]), (&json!(true), &json!(3)));

    let replaced = workspace.post("/write", json!({"filePath": "a/b/c.txt", "content_base64": "AAEC"})).await;
    assert_eq!(replaced.body, json!({"success": true, "bytes_written": 3, "created": false}));
    let binary = workspace.post("/read", json!({"filePath": "a/b/c.txt"})).await.body;
    assert_eq!((&binary["type"], &binary["size"]), (&json!("binary"), &json!(3)));
    assert!(binary["mime"].is_string() && binary.get("content").is_none());

    let folder = workspace.post("/read", json!({"path": "a"})).await.body;
    assert_eq!((&folder["type"], &folder["entries"]), (&json!("directory"), &json!(["b/"])));
    api.finish().await;
}

#[tokio::test]
async fn what_goes_wrong_with_files_is_told_apart() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.post("/write", json!({"path": "main.rs", "content": "x"})).await;
    let missing = workspace.post("/read", json!({"path": "mian.rs"})).await;
    assert_eq!(missing.failure(), (404, "file_not_found"));
    assert!(missing.detail("suggestions").to_string().contains("main.rs"), "{}", missing.body);
    let folder = workspace.post("/write", json!({"path": "/tmp", "content": "x"})).await;
    assert_eq!(folder.failure(), (400, "is_directory"), "{}", folder.body);
    let below_a_file = workspace.post("/write", json!({"path": "main.rs/below", "content": "x"})).await;
    assert_eq!(below_a_file.failure(), (400, "not_a_directory"), "{}", below_a_file.body);
    let system = workspace.post("/write", json!({"path": "/usr/bin/x", "content": "x"})).await;
    assert!(system.status >= 400, "{}", system.body);
    // The host's own files are not there.
    let secret = api.server.data_dir().join("admin.token");
    let outside = workspace.post("/read", json!({"path": secret.to_str().unwrap()})).await;
    assert_eq!(outside.failure(), (404, "file_not_found"));
    api.finish().await;
}

/// Proves: LIFE-18
#[tokio::test]
async fn a_full_disk_refuses_a_write_and_keeps_what_was_there() {
    let api = Api::start().await;
    let workspace =
        api.create_with(json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "32M"}})).await;
    workspace.post("/write", json!({"path": "kept", "content": "before"})).await;
    let filled = workspace
        .post("/bash", json!({"command": "dd iflag=fullblock if=/dev/zero of=big bs=1M count=100"}))
        .await;
    assert!(filled.body["stderr"].as_str().unwrap().contains("No space left"), "{}", filled.body);
    let refused = workspace.post("/write", json!({"path": "kept", "content": "x".repeat(8 << 20)})).await;
    assert_eq!(refused.failure(), (507, "no_space"), "{}", refused.body);
    let kept = workspace.post("/read", json!({"path": "kept"})).await;
    assert_eq!(kept.body["content"].as_str().unwrap().trim_end(), "1: before");
    api.finish().await;
}

/// As many folders as a path can have: each is made, and the agent lives on.
#[tokio::test]
async fn a_path_of_two_thousand_folders_is_made_or_refused() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let deep = format!("{}file", "d/".repeat(2000));
    let written = workspace.post("/write", json!({"path": deep, "content": "deep"})).await;
    assert_eq!((written.status, &written.body["created"]), (200, &json!(true)), "{}", written.body);
    let read = workspace.post("/read", json!({"path": deep})).await;
    assert_eq!(read.body["content"], "1: deep", "{}", read.body);
    let created = format!("{}new", "e/".repeat(2000));
    let created =
        workspace.post("/edit", json!({"path": created, "old_string": "", "new_string": "x"})).await;
    assert_eq!((created.status, &created.body["created"]), (200, &json!(true)), "{}", created.body);
    let longer = format!("{}file", "d/".repeat(2045));
    let refused = workspace.post("/write", json!({"path": longer, "content": "x"})).await;
    assert!((400..500).contains(&refused.status), "{}", refused.body);
    // Rules in some of them, for searches.
    workspace.sh("i=0; while [ $i -lt 100 ]; do echo x > .gitignore; cd d; i=$((i+1)); done").await;
    let found = workspace.post("/glob", json!({"pattern": "**/file"})).await;
    assert_eq!((found.status, found.body["files"].as_array().unwrap().len()), (200, 1), "{}", found.body);
    assert_eq!(workspace.post("/grep", json!({"pattern": "deep"})).await.status, 200);
    assert_eq!(workspace.sh("echo alive").await, "alive\n");
    assert_eq!(workspace.destroy().await.status, 200);
    api.finish().await;
}

/// Proves: DESIGN-4.3, DESIGN-10.5
#[tokio::test]
async fn a_page_is_bounded_and_what_is_not_text_is_not_shown() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let read = async |path: &str, offset: u64| {
        let answer = workspace.post("/read", json!({"path": path, "offset": offset})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let content = format!("short\n{}\n{}\n", "ä".repeat(2000), "ä".repeat(2001));
    workspace.post("/write", json!({"path": "long", "content": content})).await;
    let page = read("long", 1).await;
    let lines: Vec<&str> = page["content"].as_str().unwrap().lines().collect();
    assert_eq!(lines[1], format!("2: {}", "ä".repeat(2000)), "exactly 2000 characters are whole");
    let cut = lines[2].strip_prefix(&format!("3: {}", "ä".repeat(2000))).expect("the first 2000 characters");
    assert!(cut.contains("cut") && !cut.contains('ä'), "{cut}");
    assert_eq!(page["truncated"], true);

    // 1000 lines of 100 characters: two pages and a bit.
    workspace.sh("seq -f 'line %05.0f and a lot of text behind it, so that every line has 100 characters: xxxxxxxxxxxxxxxxxxxx' 1000 > many").await;
    let (mut offset, mut seen) = (1, 0);
    let mut pages = 0;
    while offset != 0 {
        let page = read("many", offset).await;
        let content = page["content"].as_str().unwrap();
        assert!(content.len() <= 50 << 10, "{}", content.len());
        assert!(content.starts_with(&format!("{offset}: line {offset:05}")), "{}", &content[..40]);
        seen += content.lines().count();
        pages += 1;
        assert_eq!(
            (&page["total_lines"], &page["truncated"]),
            (&json!(1000), &json!(page.get("next_offset").is_some()))
        );
        offset = page.get("next_offset").map_or(0, |next| next.as_u64().unwrap());
    }
    assert!(seen == 1000 && pages > 1, "{seen} lines on {pages} pages");

    // No NUL in any of them.
    for (command, kind) in [
        ("head -c 700 /dev/zero | tr '\\0' a; head -c 300 /dev/zero | tr '\\0' '\\1'", "text"),
        ("head -c 690 /dev/zero | tr '\\0' a; head -c 310 /dev/zero | tr '\\0' '\\1'", "binary"),
        // Only the beginning counts.
        ("head -c 4096 /dev/zero | tr '\\0' a; head -c 9000 /dev/zero | tr '\\0' '\\1'", "text"),
        ("printf 'a\\0b'", "binary"),
    ] {
        workspace.sh(&format!("{{ {command}; }} > sample")).await;
        assert_eq!(read("sample", 1).await["type"], kind, "{command}");
    }
    api.finish().await;
}

#[tokio::test]
async fn a_write_keeps_the_mode_and_the_owner() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("echo old > script && chown 1:2 script && chmod 4751 script; ln -s script link").await;
    for path in ["script", "link"] {
        let written = workspace.post("/write", json!({"path": path, "content": "#!/bin/sh\n"})).await;
        assert_eq!(written.body["created"], false, "{}", written.body);
        assert_eq!(workspace.sh("stat -c '%a %u:%g %F' script").await, "4751 1:2 regular file\n", "{path}");
    }
    assert_eq!(workspace.sh("readlink link; cat script").await, "script\n#!/bin/sh\n");
    api.finish().await;
}
