//! A full disk.

use emergent_protocol::{FailureCode, v1};

use crate::support::{Binary, BinaryOptions, failure, write_parts};

/// Either all or nothing is written.
#[tokio::test]
async fn no_space_leaves_the_old_content() {
    let small = "mount -t tmpfs -o size=1m,nr_inodes=20 tmpfs workspace &&";
    let binary = Binary::start(BinaryOptions { in_namespace: Some(small), ..Default::default() }).await;
    let mut client = binary.client().await;
    client.write("kept", b"old").await.expect("fits");
    let big = vec![b'n'; 4 << 20];
    // Known beforehand, and found out on the way.
    for size_hint in [big.len() as u64, 0] {
        let header = v1::WriteFileHeader { path: "kept".to_owned(), size_hint, ..Default::default() };
        let parts = tokio_stream::iter(write_parts(header, &big));
        let full = client.stub.write_file(parts).await.expect_err("does not fit");
        let (code, details) = failure(&full);
        assert_eq!(code, FailureCode::NoSpace);
        assert!(details.path.ends_with("/kept"), "{details:?}");
        assert_eq!(client.sh("cat kept; ls -A").await, "oldkept");
    }
    client.sh("for i in $(seq 30); do touch $i 2>/dev/null; done; true").await;
    let full = client.write("one-more", b"").await.expect_err("no inode");
    assert_eq!(failure(&full).0, FailureCode::NoSpace);
    client.sh("rm [0-9]*").await;
    client.write("one-more", b"").await.expect("fits again");
}
