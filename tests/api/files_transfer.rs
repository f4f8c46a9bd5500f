//! Files of any size, up and down.

use std::time::Duration;

use emergent_client::Upload;
use emergent_test_support::{Answer, eventually};
use reqwest::{Body, Method, Response};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::api::{Api, Workspace};

const MIB: usize = 1 << 20;

fn place(workspace: &Workspace<'_>, path: &str) -> String {
    let query: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
    workspace.path(&format!("/files?path={query}"))
}

async fn put(api: &Api, path: &str, body: impl Into<Body>) -> Answer {
    api.call(Method::PUT, path, api.probe().request(Method::PUT, path).body(body)).await
}

async fn get(api: &Api, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = api.probe().request(Method::GET, path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Bytes that do not repeat with any round number.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[tokio::test]
async fn what_goes_up_comes_down() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let content = pattern(20 * MIB + 7);
    let name = "folder/$(touch ran) ä\"\n.bin";
    let path = place(&workspace, name);
    let created = put(&api, &path, content.clone()).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(created.body, json!({"success": true, "bytes_written": content.len(), "created": true}));
    let response = get(&api, &path, &[]).await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-length"), content.len().to_string());
    assert_eq!(header(&response, "content-type"), "application/octet-stream");
    assert_eq!(header(&response, "x-content-type-options"), "nosniff");
    assert!(header(&response, "content-disposition").starts_with("attachment; filename="));
    assert!(header(&response, "content-disposition").ends_with("%22%0A.bin"));
    let etag = header(&response, "etag").to_owned();
    assert!(response.bytes().await.unwrap() == content, "the same bytes");
    assert_eq!(workspace.post("/read", json!({"path": "ran"})).await.status, 404, "nothing was run");

    for (range, expect, place) in [
        ("bytes=0-0", &content[..1], format!("bytes 0-0/{}", content.len())),
        (
            "bytes=1000000-2999999",
            &content[1_000_000..3_000_000],
            format!("bytes 1000000-2999999/{}", content.len()),
        ),
        (
            "bytes=-5",
            &content[content.len() - 5..],
            format!("bytes {}-{}/{}", content.len() - 5, content.len() - 1, content.len()),
        ),
    ] {
        let part = get(&api, &path, &[("range", range), ("if-range", &etag)]).await;
        assert_eq!((part.status().as_u16(), header(&part, "content-range")), (206, place.as_str()));
        assert!(part.bytes().await.unwrap() == expect, "{range}");
    }
    let beyond = get(&api, &path, &[("range", "bytes=99999999-")]).await;
    assert_eq!(
        (beyond.status().as_u16(), header(&beyond, "content-range")),
        (416, &*format!("bytes */{}", content.len()))
    );
    let other = get(&api, &path, &[("range", "bytes=0-0"), ("if-range", "\"other\"")]).await;
    assert_eq!(other.status(), 200, "another version is sent whole");
    assert_eq!(get(&api, &path, &[("if-none-match", &etag)]).await.status(), 304);
    let head = api.probe().request(Method::HEAD, &path).send().await.unwrap();
    assert_eq!((head.status().as_u16(), header(&head, "content-length")), (200, &*content.len().to_string()));

    let again = put(&api, &place(&workspace, name), "short").await;
    assert_eq!(again.status, 200);
    assert_eq!(again.body, json!({"success": true, "bytes_written": 5, "created": false}));
    assert_ne!(header(&get(&api, &path, &[]).await, "etag"), etag);
    let script = format!("{}&mode=755", place(&workspace, "run.sh"));
    assert_eq!(put(&api, &script, "#!/bin/sh\necho ran").await.status, 201);
    assert_eq!(workspace.sh("./run.sh").await, "ran\n");
    let empty = place(&workspace, "empty");
    assert_eq!(put(&api, &empty, "").await.body["bytes_written"], 0);
    assert_eq!(get(&api, &empty, &[]).await.bytes().await.unwrap().len(), 0);
    let kernel = get(&api, &place(&workspace, "/proc/self/status"), &[]).await;
    assert!(kernel.text().await.unwrap().contains("Pid:"), "files without a size have content");
    api.finish().await;
}

#[tokio::test]
async fn what_goes_wrong_leaves_what_was_there() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let path = place(&workspace, "kept");
    put(&api, &path, "old").await;
    // Announces more than it sends, and goes.
    let (mut half, stream) = futures::channel::mpsc::channel::<std::io::Result<Vec<u8>>>(1);
    let request = api.probe().request(Method::PUT, &path).header("content-length", 100 * MIB);
    let call = tokio::spawn(request.body(Body::wrap_stream(stream)).send());
    for _ in 0..8 {
        futures::SinkExt::send(&mut half, Ok(vec![1; MIB])).await.unwrap();
    }
    call.abort();
    drop(half);
    eventually("nothing of it is left", Duration::from_secs(10), async || {
        (workspace.sh("ls -A /workspace").await == "kept\n").then_some(())
    })
    .await;
    assert_eq!(workspace.sh("cat kept").await, "old");

    workspace.sh("head -c 100M /dev/zero > /tmp/fill || true; mv /tmp/fill /root/fill || true").await;
    let full = put(&api, &path, vec![1; 50 * MIB]).await;
    assert_eq!(full.failure(), (507, "no_space"), "{}", full.body);
    assert_eq!(workspace.sh("cat kept; ls -A").await, "oldkept\n");

    workspace.sh("mkdir folder").await;
    let folder = place(&workspace, "folder");
    assert_eq!(put(&api, &folder, "x").await.failure(), (400, "is_directory"));
    for (path, failure) in [
        (folder, (400, "is_directory")),
        (place(&workspace, "nope"), (404, "file_not_found")),
        (place(&workspace, "kept/x"), (400, "not_a_directory")),
    ] {
        assert_eq!(api.get(&path).await.failure(), failure, "{path}");
    }
    for (query, field) in [
        ("", "path"),
        ("?path=", "path"),
        ("?path=a%00b", "path"),
        ("?path=a&mode=999", "mode"),
        ("?path=a&x=1", "x"),
    ] {
        let path = workspace.path(&format!("/files{query}"));
        let answer = put(&api, &path, "x").await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!(field)),
            "{query}"
        );
    }
    let packed = api.probe().request(Method::PUT, &path).header("content-encoding", "gzip").body("x");
    assert_eq!(api.call(Method::PUT, &path, packed).await.failure(), (415, "unsupported_media_type"));
    assert_eq!(workspace.sh("cat kept").await, "old");
    api.finish().await;
}

/// The typed client, and memory: neither direction is collected anywhere.
#[tokio::test]
async fn large_files_pass_through_little_memory() {
    const SIZE: u64 = 256 << 20;
    let api = Api::start().await;
    let limits = json!({"cpu": "2", "memory": "512M", "disk": "600M"});
    let workspace = api.create_with(json!({"resource_limits": limits})).await;
    let client = api.server.client();
    let before = api.server.resident_kib();
    let upload = Upload { path: "large".to_owned(), mode: None, size: Some(SIZE) };
    let written = client.upload(workspace.id, &upload, tokio::io::repeat(7).take(SIZE)).await.unwrap();
    assert_eq!((written.bytes_written, written.created), (SIZE, true));
    let mut download = client.download(workspace.id, "large").await.unwrap();
    assert_eq!(download.size(), Some(SIZE));
    let mut read = 0;
    while let Some(bytes) = download.next().await.unwrap() {
        assert!(bytes.iter().all(|byte| *byte == 7));
        read += bytes.len() as u64;
    }
    assert_eq!(read, SIZE);
    let grown = api.server.resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more");
    api.finish().await;
}
