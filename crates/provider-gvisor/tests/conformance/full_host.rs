//! Copies for which the host has no room.

use std::path::Path;
use std::process::Command;

use emergent_provider::conformance::Subject;
use emergent_provider::{ObservedSnapshot, ProviderError};
use emergent_provider_gvisor::{EngineAddress, Runtime};
use emergent_test_support::TestDocker;

/// A file system with next to no room, for as long as this lives.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn on(folder: &'a Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder can be made");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(folder).status();
        assert!(mounted.expect("mount can be started").success());
        Self(folder)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_snapshot_without_room_leaves_nothing_and_the_sandbox_goes_on() {
    let docker = TestDocker::get();
    let data = docker.data_folder();
    let snapshots = data.path().join("containers/snapshots");
    let keep = (data, docker);
    Subject::run(
        async || {
            let address = EngineAddress::new(keep.1.address());
            let provider = crate::provider(address, keep.0.path(), Runtime::Runsc);
            Subject::new(provider, Some("/workspace"), keep)
        },
        move |subject| Box::pin(async move { check(subject, &snapshots).await }),
    );
}

async fn check(subject: &Subject, snapshots: &Path) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("head -c 8M /dev/urandom > big").await;
    let id = subject.snapshot_id();
    {
        let _small = SmallDisk::on(snapshots);
        let full = subject.provider.snapshot(id, &sandbox.spec).await.expect_err("there is no room");
        assert!(matches!(full, ProviderError::Exhausted { resource: "disk", .. }), "{full}");
        assert_eq!(subject.provider.list_snapshots().await.expect("lists"), []);
        let left = std::fs::read_dir(snapshots).expect("it is there").flatten();
        let left: Vec<_> =
            left.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    // It was let go on, and the same works with room.
    assert_eq!(sandbox.sh("echo goes on > file; cat file").await, "goes on");
    let taken = subject.provider.snapshot(id, &sandbox.spec).await.expect("there is room");
    assert_eq!(subject.provider.list_snapshots().await.expect("lists"), [ObservedSnapshot::Whole(taken)]);
}
