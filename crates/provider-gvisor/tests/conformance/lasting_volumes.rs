//! Volumes with names: what holds with Docker and without.

use emergent_provider::conformance::Subject;
use emergent_provider::{ProviderError, SandboxSpec, VolumeMount, VolumeName};
use emergent_types::{ByteSize, DiskEnforcement};

pub(crate) fn with_volumes(subject: &Subject, places: &[&str]) -> SandboxSpec {
    let volumes = places.iter().map(|place| {
        VolumeMount::new(name(place), place, ByteSize::from_mib(16)).expect("a place for a volume")
    });
    SandboxSpec { volumes: volumes.collect(), ..subject.spec() }
}

/// A volume for each place.
pub(crate) fn name(place: &str) -> VolumeName {
    place.trim_start_matches('/').replace('/', "-").parse().expect("a name")
}

pub(crate) async fn outlives_its_sandbox(subject: &Subject) {
    // In the place of a folder of every workspace, and deep below one.
    let places = ["/data", "/var/lib/service"];
    let first = subject.sandbox_with(with_volumes(subject, &places)).await;
    for place in places {
        first.sh(&format!("mkdir -p {place}/deep && echo kept > {place}/deep/file")).await;
    }
    let limited = first.sandbox.disk_enforcement == DiskEnforcement::Hard;
    if limited {
        let full =
            first.run("dd iflag=fullblock if=/dev/zero of=/data/big bs=1M count=32; rm -f /data/big").await;
        assert!(full.stderr.to_text().contains("No space left"), "{}", full.stderr.to_text());
    }
    assert_eq!(limited, first.sandbox.warnings.is_empty(), "{:?}", first.sandbox.warnings);

    let in_use = subject.provider.remove_volume(&name(places[0])).await.expect_err("a sandbox has it");
    assert!(matches!(in_use, ProviderError::VolumeInUse { .. }), "{in_use}");
    subject.provider.stop(first.id()).await.expect("stop works");
    subject.resume(&first).await;
    assert_eq!(first.sh("cat /data/deep/file /var/lib/service/deep/file").await, "kept\nkept");
    subject.provider.destroy(first.id()).await.expect("destroy works");

    assert_eq!(subject.provider.list_volumes().await.expect("lists"), places.map(name));
    let second = subject.sandbox_with(with_volumes(subject, &places[..1])).await;
    assert_eq!(second.sh("cat /data/deep/file; ls -A /var/lib/service 2>/dev/null | wc -l").await, "kept\n0");
    subject.provider.destroy(second.id()).await.expect("destroy works");
    for _ in 0..2 {
        for place in places {
            subject.provider.remove_volume(&name(place)).await.expect("removal works");
        }
        assert!(subject.provider.list_volumes().await.expect("lists").is_empty());
    }
    let third = subject.sandbox_with(with_volumes(subject, &places[..1])).await;
    assert_eq!(third.sh("ls -A /data | grep -vc lost+found || true").await, "0", "a new one is empty");
    subject.provider.destroy(third.id()).await.expect("destroy works");
    subject.provider.remove_volume(&name(places[0])).await.expect("removal works");
}

#[test]
fn a_volume_outlives_its_sandbox() {
    Subject::run(crate::subject, |subject| Box::pin(outlives_its_sandbox(subject)));
}
