//! Disks whose limit is only watched.

use std::time::Duration;

use bytes::Bytes;
use emergent_provider::fake::Fault;
use emergent_provider::{DiskUse, Operation};
use emergent_types::WorkspaceId;
use emergent_workspaces::{ToolError, WriteStreamError};
use futures::stream;

use crate::setup::{Installation, eventually};

fn used(bytes: u64) -> DiskUse {
    DiskUse { bytes, max_bytes: 10 << 20, files: 1, max_files: 100, uncounted: false }
}

async fn write(installation: &Installation, id: WorkspaceId, bytes: usize) -> Result<(), ToolError> {
    let call = installation.handle().tool(id).await.unwrap();
    call.write_file("file", Bytes::from(vec![b'x'; bytes])).await.map(drop)
}

/// Uses the workspace until a write of so many bytes goes as expected.
async fn until(installation: &Installation, id: WorkspaceId, bytes: usize, fits: bool) {
    for _ in 0..500 {
        match write(installation, id, bytes).await {
            Ok(()) if fits => return,
            Err(ToolError::DiskFull { path, .. }) if !fits => return assert_eq!(path, "file"),
            Ok(()) | Err(ToolError::DiskFull { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a write of {bytes} bytes never became {fits}");
}

#[tokio::test]
async fn a_disk_that_fills_up_is_warned_of_and_then_closed() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    let before = installation.handle().get(id).await.unwrap().warnings;
    installation.provider.set_disk_use(used(5 << 20));
    until(&installation, id, 6 << 20, false).await;
    write(&installation, id, 1 << 20).await.unwrap();
    assert_eq!(installation.handle().get(id).await.unwrap().warnings, before);

    installation.provider.set_disk_use(used(9 << 20));
    until(&installation, id, 2 << 20, false).await;
    installation.provider.set_disk_use(used(10 << 20));
    until(&installation, id, 0, false).await;
    // A count that fails changes nothing.
    for _ in 0..3 {
        installation.provider.plan(Operation::Measure, Fault::Fail("no count"));
    }
    write(&installation, id, 1).await.unwrap_err();
    installation.provider.set_disk_use(used(1 << 20));
    until(&installation, id, 1 << 20, true).await;
    // Twice beyond the lines, and warned of once.
    installation.provider.set_disk_use(used(11 << 20));
    until(&installation, id, 0, false).await;
    eventually("both warnings, once each", || async {
        let warnings = installation.handle().get(id).await.unwrap().warnings;
        let of = |text: &str| warnings.iter().filter(|warning| warning.contains(text)).count();
        (of("80 %"), of("was reached")) == (1, 1)
    })
    .await;
}

/// Sends so many mebibytes without saying how many there will be.
async fn upload(installation: &Installation, id: WorkspaceId, mebibytes: usize) -> Result<u64, ToolError> {
    let call = installation.handle().tool(id).await.unwrap();
    let pieces = (0..16 * mebibytes).map(|_| Ok::<_, ()>(Bytes::from(vec![b'y'; 64 << 10])));
    match call.write_stream("large", None, None, stream::iter(pieces)).await {
        Ok(written) => Ok(written.bytes_written),
        Err(WriteStreamError::Tool(error)) => Err(error),
        Err(WriteStreamError::Source(()) | WriteStreamError::Length { .. }) => panic!("it came as it should"),
    }
}

/// An upload that does not say how long it is ends where the room does, and leaves what was there.
#[tokio::test]
async fn an_upload_of_unknown_size_ends_at_the_limit() {
    let installation = Installation::start().await;
    let id = installation.create().await.id;
    assert_eq!(upload(&installation, id, 1).await.unwrap(), 1 << 20);
    installation.provider.set_disk_use(used(6 << 20));
    until(&installation, id, 5 << 20, false).await;
    assert_eq!(upload(&installation, id, 3).await.unwrap(), 3 << 20);
    let refused = upload(&installation, id, 5).await.unwrap_err();
    let ToolError::DiskFull { path, wanted, .. } = refused else { panic!("{refused}") };
    assert_eq!((path.as_str(), wanted > 4 << 20, wanted <= 5 << 20), ("large", true, true));
    let call = installation.handle().tool(id).await.unwrap();
    let file = call.read_file("large", 0, 0).await.unwrap();
    assert_eq!(file.get_ref().size(), 3 << 20, "the old content is there");

    // A count in between says that there is less than there was.
    let provider = installation.provider.clone();
    let call = installation.handle().tool(id).await.unwrap();
    let pieces = stream::unfold(0, move |sent| {
        let provider = provider.clone();
        async move {
            if sent == 16 {
                provider.set_disk_use(used(10 << 20));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            (sent < 2000).then(|| (Ok::<_, ()>(Bytes::from_static(b"y")), sent + 1))
        }
    });
    let ended = call.write_stream("slow", None, None, pieces).await;
    assert!(matches!(ended, Err(WriteStreamError::Tool(ToolError::DiskFull { .. }))), "{ended:?}");
}
