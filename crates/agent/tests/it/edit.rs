//! Editing files, as far as it takes a real file.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use emergent_protocol::{FailureCode, v1};

use crate::support::{Binary, BinaryOptions, Client, Sandbox, failure};

async fn edit(
    client: &mut Client,
    path: &str,
    old: &str,
    new: &str,
) -> Result<v1::EditResponse, tonic::Status> {
    let request = v1::EditRequest {
        path: path.to_owned(),
        old_string: old.to_owned(),
        new_string: new.to_owned(),
        ..Default::default()
    };
    client.stub.edit(request).await.map(tonic::Response::into_inner)
}

/// The most memory that a process ever had.
fn most_resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// The size of the file makes no difference to what the agent needs.
#[tokio::test]
async fn a_file_of_any_size_is_edited_in_little_memory() {
    const LINES: usize = 1 << 20;
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let path = binary.workspace().join("large");
    let filler = [b'.'; 127].into_iter().chain([b'\n']).collect::<Vec<u8>>().repeat(LINES);
    {
        let mut file = fs::File::create(&path).expect("writable");
        file.write_all(&filler).expect("room");
        file.write_all(b"the one place\r\nanother\n").expect("room");
        file.write_all(&filler).expect("room");
    }
    assert!(fs::metadata(&path).expect("there").len() > 256 << 20);
    let edited = edit(&mut client, "large", "one place\nanother", "1\n2\n3").await.expect("edits");
    let line = LINES + 1;
    let middle = "-the one place\r\n-another\n+the 1\r\n+2\n+3\n";
    assert!(edited.diff.contains(&format!("\n@@ -{},8 +{},9 @@\n", line - 3, line - 3)), "{}", edited.diff);
    assert!(edited.diff.contains(middle), "{}", edited.diff);
    assert_eq!((edited.replacements, edited.lines_changed), (1, 3));
    let mut file = fs::File::open(&path).expect("there");
    let new = b"the 1\r\n2\n3\n";
    assert_eq!(file.metadata().expect("there").len(), (2 * filler.len() + new.len()) as u64);
    file.seek(SeekFrom::Start(filler.len() as u64)).expect("seeks");
    let mut found = vec![0; new.len() + 128];
    file.read_exact(&mut found).expect("reads");
    assert_eq!(found, [new.as_slice(), &filler[..128]].concat());
    let refused = edit(&mut client, "large", "...\n...", "x").await.expect_err("it is there often");
    assert_eq!(failure(&refused).0, FailureCode::MultipleMatches);
    let refused = edit(&mut client, "large", "nowhere", "x").await.expect_err("it is not there");
    assert_eq!(failure(&refused).0, FailureCode::NoMatch);
    let most = most_resident_bytes(binary.agent_pid().expect("an agent"));
    assert!(most < 40 << 20, "the agent had {most} bytes");
}

#[tokio::test]
async fn what_the_kernel_keeps_cannot_be_edited() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let before = fs::metadata("/proc/sys/kernel/hostname").expect("there").ino();
    let refused =
        edit(&mut client, "/proc/sys/kernel/hostname", name.trim(), "x").await.expect_err("refused");
    assert_eq!(failure(&refused).0, FailureCode::PermissionDenied);
    let refused = client.write("/proc/sys/new", b"x").await.expect_err("refused");
    assert_eq!(failure(&refused).0, FailureCode::PermissionDenied);
    assert_eq!(fs::metadata("/proc/sys/kernel/hostname").expect("there").ino(), before);
}
