//! Large contents in both directions.

use bytes::Bytes;
use emergent_agent_client::UploadError;
use futures::stream;

use super::Subject;

const PIECE: usize = 1 << 20;
const PIECES: usize = 24;

fn piece(number: usize) -> Bytes {
    (0..PIECE).map(|index| ((index / 7 + number * 31) % 251) as u8).collect::<Vec<_>>().into()
}

/// A large content arrives as it was sent, and so does any range of it.
pub async fn a_large_file_goes_in_and_out(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let source = stream::iter((0..PIECES).map(|number| Ok::<_, std::io::Error>(piece(number))));
    let size = (PIECE * PIECES) as u64;
    let written =
        sandbox.client.write_stream("in/large", Some(0o640), Some(size), source).await.expect("writes");
    assert_eq!((written.bytes_written, written.created), (size, true));
    assert_eq!(sandbox.sh("stat -c '%s %a' in/large; ls -A in").await, format!("{size} 640\nlarge"));
    let mut stream = sandbox.client.read_file("in/large", 0, 0).await.expect("opens");
    assert_eq!(stream.size(), size);
    let mut read = Vec::new();
    while let Some(chunk) = stream.next().await.expect("reads") {
        read.extend_from_slice(&chunk);
    }
    let sent: Vec<u8> = (0..PIECES).flat_map(piece).collect();
    assert!(read == sent, "another content");
    let from = 3 * PIECE - 5;
    let mut stream = sandbox.client.read_file("in/large", from as u64, 10).await.expect("opens");
    let mut part = Vec::new();
    while let Some(chunk) = stream.next().await.expect("reads") {
        part.extend_from_slice(&chunk);
    }
    assert_eq!(part, sent[from..from + 10]);
}

/// A content that breaks off leaves the old one, and nothing else.
pub async fn a_broken_upload_leaves_nothing(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir in; echo old > in/file").await;
    let broken = || stream::iter([Ok(piece(0)), Ok(piece(1)), Err("lost")]);
    for path in ["in/file", "in/new"] {
        let outcome = sandbox.client.write_stream(path, None, None, broken()).await;
        assert!(matches!(outcome, Err(UploadError::Source("lost"))), "{outcome:?}");
    }
    let short = stream::iter([Ok::<_, std::io::Error>(piece(0))]);
    let outcome = sandbox.client.write_stream("in/file", None, Some(2 * PIECE as u64), short).await;
    assert!(matches!(outcome, Err(UploadError::Length { got, .. }) if got == PIECE as u64), "{outcome:?}");
    super::subject::eventually("only the old file is there", || async {
        sandbox.sh("ls -A in; cat in/file").await == "file\nold"
    })
    .await;
}
