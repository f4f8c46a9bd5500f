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
    let filled = workspace.post("/bash", json!({"command": "dd if=/dev/zero of=big bs=1M count=100"})).await;
    assert!(filled.body["stderr"].as_str().unwrap().contains("No space left"), "{}", filled.body);
    let refused = workspace.post("/write", json!({"path": "kept", "content": "x".repeat(8 << 20)})).await;
    assert_eq!(refused.failure(), (507, "no_space"), "{}", refused.body);
    let kept = workspace.post("/read", json!({"path": "kept"})).await;
    assert_eq!(kept.body["content"].as_str().unwrap().trim_end(), "1: before");
    api.finish().await;
}
