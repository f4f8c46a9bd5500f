//! Reading and writing files.

use bytes::Bytes;
use emergent_agent_client::{AgentError, FileKind, Page};

use super::{Subject, TestSandbox};

async fn write(sandbox: &TestSandbox, path: &str, content: &[u8]) -> emergent_agent_client::Written {
    sandbox
        .client
        .write_file(path, Bytes::copy_from_slice(content))
        .await
        .unwrap_or_else(|error| panic!("write {path:?}: {error}"))
}

async fn bytes_of(sandbox: &TestSandbox, path: &str) -> Vec<u8> {
    let mut stream = sandbox.client.read_file(path, 0, 0).await.expect("opens");
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await.expect("reads") {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// Proves: DESIGN-4.3, DESIGN-4.4
pub async fn written_content_is_read_back(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let content: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let written = write(&sandbox, "a/new/folder/file", &content).await;
    assert!(written.created);
    assert_eq!(written.bytes_written, content.len() as u64);
    assert_eq!(bytes_of(&sandbox, &sandbox.path("a/new/folder/file")).await, content);
    let again = write(&sandbox, "a/new/folder/file", b"short").await;
    assert!(!again.created);
    assert_eq!(sandbox.sh("cat a/new/folder/file; ls -A a/new/folder").await, "shortfile");
    write(&sandbox, "empty", b"").await;
    assert_eq!(bytes_of(&sandbox, "empty").await, b"");
    // A link is written through, as every program would.
    sandbox.sh("ln -s a/new/folder/file link").await;
    write(&sandbox, "link", b"through").await;
    assert_eq!(sandbox.sh("readlink link; cat a/new/folder/file").await, "a/new/folder/file\nthrough");
}

/// A long file is read page by page, and every line is seen once.
pub async fn pages_go_on_where_they_ended(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("seq 1 5000 | sed 's/^/line /' > long").await;
    let mut offset = 1;
    let mut lines = Vec::new();
    loop {
        let page = sandbox.client.read_page("long", offset, 0).await.expect("reads");
        let Page::Text { content, total_lines, truncated, next_offset } = page else { panic!("{page:?}") };
        assert_eq!(total_lines, 5000);
        assert!(content.len() <= 51 << 10);
        lines.extend(content.lines().map(str::to_owned));
        assert_eq!(truncated, next_offset.is_some());
        match next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    let expected: Vec<_> = (1..=5000).map(|number| format!("{number}: line {number}")).collect();
    assert_eq!(lines, expected);
}

/// A folder is read as its entries.
pub async fn a_folder_is_listed(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir -p d/sub && touch d/b d/a && ln -s a d/link").await;
    let page = sandbox.client.read_page("d", 0, 0).await.expect("reads");
    let Page::Directory { entries, total_entries, truncated, .. } = page else { panic!("{page:?}") };
    assert_eq!(entries, ["a", "b", "link", "sub/"]);
    assert_eq!((total_entries, truncated), (4, false));
    let listing = sandbox.client.list_directory("d", 0).await.expect("lists");
    let kinds: Vec<_> = listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("a", FileKind::File),
            ("b", FileKind::File),
            ("link", FileKind::Symlink),
            ("sub", FileKind::Directory)
        ]
    );
    let stat = sandbox.client.stat("d/link").await.expect("stats");
    assert_eq!((stat.kind, stat.target.as_deref()), (FileKind::Symlink, Some("a")));
}

/// Bytes that are not text are not sent as text.
pub async fn a_binary_file_is_named_as_such(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").await;
    let page = sandbox.client.read_page("image.png", 0, 0).await.expect("reads");
    assert_eq!(page, Page::Binary { size: 16, mime: "image/png".to_owned() });
}

/// A wrong name is answered with the names that were perhaps meant.
pub async fn a_missing_file_has_near_names(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("touch server.ts server.js other").await;
    let error = sandbox.client.read_page("servr.ts", 0, 0).await.expect_err("not there");
    let AgentError::Failed { code, about, .. } = &error else { panic!("{error}") };
    assert_eq!(code.as_str(), "file_not_found");
    assert!(about.suggestions.iter().any(|name| name.ends_with("server.ts")), "{about:?}");
    let error = sandbox.client.stat("no/such").await.expect_err("not there");
    assert!(
        matches!(&error, AgentError::Failed { code, .. } if code.as_str() == "file_not_found"),
        "{error}"
    );
}

/// Names full of shell syntax, spaces and newlines are names.
pub async fn odd_paths_are_data(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for name in ["$(touch pwned)", "a b", "-rf", "new\nline", "ünï", "'\"`", "..."] {
        write(&sandbox, name, name.as_bytes()).await;
        assert_eq!(bytes_of(&sandbox, &sandbox.path(name)).await, name.as_bytes(), "{name:?}");
    }
    assert_eq!(sandbox.run("test -e pwned").await.exit.code, 1);
    for bad in ["nul\0byte", ""] {
        let error = sandbox.client.write_file(bad, Bytes::new()).await.expect_err("refused");
        assert!(matches!(error, AgentError::Failed { .. }), "{bad:?}: {error}");
    }
    let error = sandbox.client.write_file(".", Bytes::new()).await.expect_err("a folder");
    assert!(matches!(&error, AgentError::Failed { code, .. } if code.as_str() == "is_directory"), "{error}");
}

/// A pipe or a device is refused, not waited for.
pub async fn special_files_do_not_hang(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkfifo pipe").await;
    for path in [sandbox.path("pipe"), "/dev/zero".to_owned()] {
        let error = sandbox.client.read_page(&path, 0, 0).await.expect_err("refused");
        assert!(matches!(error, AgentError::Failed { .. }), "{path}: {error}");
        let outcome = match sandbox.client.read_file(&path, 0, 0).await {
            Ok(mut stream) => stream.next().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(outcome, Err(AgentError::Failed { .. })), "{path}: {outcome:?}");
    }
}

/// Replacing a script leaves it executable.
pub async fn an_overwrite_keeps_the_mode(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    write(&sandbox, "run", b"#!/bin/sh\necho one\n").await;
    assert_eq!(sandbox.sh("stat -c %a run").await, "644");
    sandbox.sh("chmod 750 run").await;
    write(&sandbox, "run", b"#!/bin/sh\necho two\n").await;
    assert_eq!(sandbox.sh("stat -c %a run; ./run").await, "750\ntwo");
}
