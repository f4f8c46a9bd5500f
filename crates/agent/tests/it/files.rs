//! Reading and writing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use emergent_protocol::v1::read_page_response::Content;
use emergent_protocol::{FailureCode, v1};

use crate::support::{Binary, BinaryOptions, Sandbox, eventually, failure, write_parts};

/// Proves: DESIGN-4.4
#[tokio::test]
async fn written_content_is_read_back() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let content: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let written = client.write("a/new/folder/file", &content).await.expect("writes");
    assert_eq!((written.bytes_written, written.created), (3_000_000, true));
    assert_eq!(fs::read(sandbox.path("a/new/folder/file")).expect("there"), content);
    assert_eq!(client.read("a/new/folder/file", 0, 0).await.expect("reads"), content);
    assert_eq!(client.read("a/new/folder/file", 2_999_990, 0).await.expect("reads"), content[2_999_990..]);
    assert_eq!(client.read("a/new/folder/file", 100, 70_000).await.expect("reads"), content[100..70_100]);
    assert_eq!(client.read("a/new/folder/file", 4_000_000, 5).await.expect("reads"), b"");
    assert!(!client.write("a/new/folder/file", b"").await.expect("writes").created);
    assert_eq!(client.read("a/new/folder/file", 0, 0).await.expect("reads"), b"");
    assert_eq!(client.sh("ls -A a/new/folder").await, "file");
}

#[tokio::test]
async fn a_write_that_breaks_off_changes_nothing() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    fs::write(sandbox.path("file"), "old").expect("writable");
    let header = v1::WriteFileHeader { path: "file".to_owned(), ..Default::default() };
    let (parts, stream) = tokio::sync::mpsc::channel(4);
    let mut stub = client.stub.clone();
    let call = tokio::spawn(async move {
        stub.write_file(tokio_stream::wrappers::ReceiverStream::new(stream)).await.map(drop)
    });
    for part in write_parts(header.clone(), b"half of the new") {
        parts.send(part).await.expect("is read");
    }
    // Files that are being written, whether they have a name or not.
    let temporaries = || {
        let open = fs::read_dir("/proc/self/fd").expect("readable").flatten();
        let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let below = |path: &std::path::PathBuf| path.parent() == Some(sandbox.workspace());
        let entries = fs::read_dir(sandbox.workspace()).expect("readable").flatten();
        open.filter(below).count().max(entries.filter(|entry| entry.file_name() != "file").count())
    };
    eventually("the write has begun", || async { temporaries() == 1 }).await;
    call.abort();
    eventually("nothing is left of it", || async { temporaries() == 0 }).await;
    assert_eq!(fs::read(sandbox.path("file")).expect("there"), b"old");
    // Data before a header, and a second header, are refused and leave nothing either.
    let mut twice = write_parts(header.clone(), b"x");
    twice.push(twice[0].clone());
    for parts in [vec![write_parts(header, b"x")[1].clone()], twice, vec![]] {
        let refused = client.stub.write_file(tokio_stream::iter(parts)).await.expect_err("refused");
        assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
    }
    assert_eq!((temporaries(), fs::read(sandbox.path("file")).expect("there")), (0, b"old".to_vec()));
}

#[tokio::test]
async fn mode_owner_and_links() {
    assert!(rustix::process::geteuid().is_root(), "changing owners needs root; run the tests as root");
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let header = |path: &str| v1::WriteFileHeader {
        path: path.to_owned(),
        mode: 0o640,
        user: "nobody".to_owned(),
        ..Default::default()
    };
    let stat = |path: &str| {
        let file = fs::metadata(sandbox.path(path)).expect("there");
        (file.mode() & 0o7777, file.uid(), file.gid())
    };
    let parts = write_parts(header("new/file"), b"x");
    client.stub.write_file(tokio_stream::iter(parts)).await.expect("writes");
    assert_eq!(stat("new/file"), (0o640, 65534, 65534));
    assert_eq!(stat("new"), (0o755, 65534, 65534));
    // What was there keeps what it had.
    fs::set_permissions(sandbox.path("new/file"), fs::Permissions::from_mode(0o755)).expect("ours");
    symlink("new/file", sandbox.path("link")).expect("writable");
    client.write("link", b"through").await.expect("writes");
    assert_eq!(
        (stat("new/file"), fs::read(sandbox.path("new/file")).expect("there")),
        ((0o755, 65534, 65534), b"through".to_vec())
    );
    assert!(sandbox.path("link").is_symlink());
    let link = client.stub.stat(stat_request("link")).await.expect("stats").into_inner();
    assert_eq!((link.kind(), link.target.as_str()), (v1::FileKind::Symlink, "new/file"));
    let file = client.stub.stat(stat_request("new/file")).await.expect("stats").into_inner();
    assert_eq!((file.kind(), file.size, file.mode, file.uid), (v1::FileKind::File, 7, 0o755, 65534));
    assert!(file.modified_unix_ms > 1_600_000_000_000);
    let bad = v1::WriteFileHeader { mode: 0o10_0644, ..header("x") };
    let refused =
        client.stub.write_file(tokio_stream::iter(write_parts(bad, b""))).await.expect_err("refused");
    assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
}

/// Proves: DESIGN-4.3
#[tokio::test]
async fn pages_folders_and_binary_files() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    client.sh("seq 1 5000 > long; mkdir -p d/sub; touch d/b d/a; ln -s sub d/link; printf '\\211PNG\\r\\n\\032\\n\\0' > image").await;
    let Content::Text(page) = client.page("long").await.expect("reads") else { panic!("no text") };
    assert_eq!((page.total_lines, page.truncated, page.next_offset), (5000, true, 2001));
    assert!(page.content.starts_with("1: 1\n2: 2\n") && page.content.ends_with("\n2000: 2000"));
    let request = v1::ReadPageRequest { path: "long".to_owned(), offset: 4999, limit: 10 };
    let last = client.stub.read_page(request).await.expect("reads").into_inner().content;
    let expected = v1::TextPage {
        content: "4999: 4999\n5000: 5000".to_owned(),
        total_lines: 5000,
        truncated: false,
        next_offset: 0,
    };
    assert_eq!(last, Some(Content::Text(expected)));
    let Content::Directory(folder) = client.page("d").await.expect("reads") else { panic!("no folder") };
    assert_eq!(
        (folder.entries, folder.total_entries, folder.truncated),
        (["a", "b", "link/", "sub/"].map(str::to_owned).to_vec(), 4, false)
    );
    let request = v1::ReadPageRequest { path: "d".to_owned(), offset: 2, limit: 2 };
    let part = client.stub.read_page(request).await.expect("reads").into_inner().content;
    let expected = v1::DirectoryPage {
        entries: vec!["b".to_owned(), "link/".to_owned()],
        total_entries: 4,
        truncated: true,
        next_offset: 4,
    };
    assert_eq!(part, Some(Content::Directory(expected)));
    let binary = client.page("image").await.expect("reads");
    assert_eq!(binary, Content::Binary(v1::BinaryFile { size: 9, mime: "image/png".to_owned() }));
    // Files without a size are read too.
    let Content::Text(version) = client.page("/proc/version").await.expect("reads") else {
        panic!("no text")
    };
    assert!(version.content.starts_with("1: Linux"));
    let listing =
        client.stub.list_directory(v1::ListDirectoryRequest { path: "d".to_owned(), limit: 3 }).await;
    let listing = listing.expect("lists").into_inner();
    let seen: Vec<_> = listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind())).collect();
    assert_eq!(seen, [("a", v1::FileKind::File), ("b", v1::FileKind::File), ("link", v1::FileKind::Symlink)]);
    assert!(listing.truncated);
}

#[tokio::test]
async fn what_is_missing_or_special_is_said_at_once() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    client.sh("mkfifo pipe; touch server.ts server.js other; mkdir folder; ln -s nowhere dangling").await;
    let missing = failure(&client.page("servr.ts").await.expect_err("not there"));
    assert_eq!(missing.0, FailureCode::FileNotFound);
    assert_eq!(missing.1.suggestions, ["server.ts", "server.js"]);
    assert_eq!(missing.1.path, sandbox.path("servr.ts").display().to_string());
    let missing = failure(&client.read("Server.ts", 0, 0).await.expect_err("not there"));
    assert_eq!(missing.1.suggestions.first().map(String::as_str), Some("server.ts"));
    let cases = [
        ("pipe", FailureCode::InvalidRequest),
        ("/dev/zero", FailureCode::InvalidRequest),
        ("dangling", FailureCode::FileNotFound),
        ("no/such", FailureCode::FileNotFound),
        ("other/below", FailureCode::NotADirectory),
        ("", FailureCode::InvalidRequest),
        ("a\0b", FailureCode::InvalidRequest),
    ];
    for (path, expect) in cases {
        let page =
            tokio::time::timeout(Duration::from_secs(5), client.page(path)).await.expect("does not hang");
        assert_eq!(failure(&page.expect_err("refused")).0, expect, "page of {path:?}");
        let read = tokio::time::timeout(Duration::from_secs(5), client.read(path, 0, 0))
            .await
            .expect("does not hang");
        assert_eq!(failure(&read.expect_err("refused")).0, expect, "read of {path:?}");
    }
    let cases = [
        ("folder", FailureCode::IsDirectory),
        (".", FailureCode::IsDirectory),
        ("pipe", FailureCode::InvalidRequest),
        ("other/below", FailureCode::NotADirectory),
        ("", FailureCode::InvalidRequest),
        ("a\0b", FailureCode::InvalidRequest),
    ];
    for (path, expect) in cases {
        let written = tokio::time::timeout(Duration::from_secs(5), client.write(path, b"x"))
            .await
            .expect("does not hang");
        assert_eq!(failure(&written.expect_err("refused")).0, expect, "write of {path:?}");
    }
    assert_eq!(failure(&client.read("folder", 0, 0).await.expect_err("refused")).0, FailureCode::IsDirectory);
    let list = |path: &str| v1::ListDirectoryRequest { path: path.to_owned(), limit: 0 };
    assert_eq!(
        failure(&client.stub.list_directory(list("other")).await.expect_err("refused")).0,
        FailureCode::NotADirectory
    );
}

#[tokio::test]
async fn odd_names_are_names() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    for name in ["$(touch pwned)", "a b", "-rf", "new\nline", "ünï", "'\"`", "...", &"x".repeat(255)] {
        client.write(name, name.as_bytes()).await.expect("writes");
        assert_eq!(client.read(name, 0, 0).await.expect("reads"), name.as_bytes(), "{name:?}");
    }
    assert!(!sandbox.path("pwned").exists());
}

fn stat_request(path: &str) -> v1::StatRequest {
    v1::StatRequest { path: path.to_owned(), follow_links: false }
}

/// What an agent was writing when it was killed is gone with it.
#[tokio::test]
async fn a_killed_agent_leaves_nothing_of_a_write() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let client = binary.client().await;
    let workspace = binary.workspace();
    fs::write(workspace.join("file"), "old").expect("writable");
    let header = v1::WriteFileHeader { path: "file".to_owned(), ..Default::default() };
    let (parts, stream) = tokio::sync::mpsc::channel(4);
    let mut stub = client.stub.clone();
    let call = tokio::spawn(async move {
        stub.write_file(tokio_stream::wrappers::ReceiverStream::new(stream)).await.map(drop)
    });
    for part in write_parts(header, &[b'x'; 100_000]) {
        parts.send(part).await.expect("is read");
    }
    let agent = binary.agent_pid().expect("an agent");
    let writes = || {
        let open = fs::read_dir(format!("/proc/{agent}/fd")).into_iter().flatten().flatten();
        let mut open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        open.any(|file| file.is_file() && file.len() == 100_000)
    };
    eventually("the write is under way", || async { writes() }).await;
    let process = rustix::process::Pid::from_raw(agent.try_into().expect("a pid")).expect("a pid");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("killed");
    call.await.expect("no panic").expect_err("the call has failed");
    let names: Vec<_> =
        fs::read_dir(&workspace).expect("readable").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read(workspace.join("file")).expect("there"), b"old");
}
