//! What a disk holds that is a folder: counted from outside, whatever the guest does to it.

use crate::account::provider_of_folders;
use crate::support::{run, spec, subject};
use emergent_provider::{ProviderError, WorkspaceProvider};
use emergent_types::WorkspaceId;

#[tokio::test]
async fn what_a_guest_writes_is_counted() {
    let subject = subject();
    let provider = provider_of_folders(&subject);
    let spec = spec();
    provider.create(&spec).await.unwrap();
    let measured = async || provider.disk_use(spec.id).await.unwrap().unwrap();
    let fresh = measured().await;
    assert_eq!((fresh.max_bytes, fresh.max_files), (64 << 20, 4096));
    assert!(fresh.bytes < 4 << 20 && fresh.percent() < 80, "{fresh:?}");

    // Out of sight for the server's account, and out of the disk.
    let script = "cd /workspace && mkdir -p closed/inner && head -c 20M /dev/zero > closed/inner/a && \
                  chmod 0 closed/inner/a closed/inner closed && ln -s / root && ln -s /usr usr && \
                  ln -s . loop && head -c 10M /dev/zero > /tmp/in-memory";
    run(&provider, spec.id, script).await.ok();
    let some = measured().await;
    let added = some.bytes - fresh.bytes;
    assert!((20 << 20..22 << 20).contains(&added), "{added}: {some:?}");
    assert!(!some.uncounted && some.percent() < 80, "{some:?}");

    run(&provider, spec.id, "head -c 33M /dev/zero > /workspace/b").await.ok();
    let near = measured().await;
    assert!((80..100).contains(&near.percent()), "{near:?}");
    run(&provider, spec.id, "head -c 33M /dev/zero > /home/c").await.ok();
    assert_eq!(measured().await.room(), 0);
    run(&provider, spec.id, "rm /workspace/b /home/c").await.ok();
    assert!(measured().await.percent() < 80);

    // Full of files that have no size.
    let script = "mkdir /workspace/many && cd /workspace/many && seq 5000 | xargs touch";
    run(&provider, spec.id, script).await.ok();
    assert_eq!(measured().await.room(), 0);
    run(&provider, spec.id, "rm -r /workspace/many").await.ok();

    // Deeper than anybody looks.
    let script = "cd /workspace && python3 -c '
import os
for _ in range(300):
    os.mkdir(\"d\"); os.chdir(\"d\")
'";
    run(&provider, spec.id, script).await.ok();
    let hidden = measured().await;
    assert!(hidden.uncounted && hidden.room() == 0, "{hidden:?}");

    // Whether it runs does not matter.
    provider.stop(spec.id).await.unwrap();
    assert!(measured().await.uncounted);
    provider.destroy(spec.id).await.unwrap();
    let gone = provider.disk_use(spec.id).await.unwrap_err();
    assert!(matches!(gone, ProviderError::NotFound { .. }), "{gone}");
    let never = provider.disk_use(WorkspaceId::generate()).await.unwrap_err();
    assert!(matches!(never, ProviderError::NotFound { .. }), "{never}");
    subject.assert_nothing_left();
}

/// A guest that moves folders about while they are counted.
#[tokio::test]
async fn a_disk_that_changes_meanwhile_is_counted_and_nothing_else_is() {
    let subject = subject();
    let provider = provider_of_folders(&subject);
    let spec = spec();
    provider.create(&spec).await.unwrap();
    let script = "cd /workspace && mkdir a b && (while :; do
            mkdir -p a/x/y/z && touch a/x/y/z/f && mv a/x b/x; ln -s / a/x; rm -r a/x; rm -rf b/x
        done) >/dev/null 2>&1 &";
    run(&provider, spec.id, script).await.ok();
    for _ in 0..20 {
        let measured = provider.disk_use(spec.id).await.unwrap().unwrap();
        assert!(measured.bytes < 8 << 20 && measured.files < 2000, "{measured:?}");
    }
    provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
