//! Images without an engine for all tests of this machine: unpacking one takes longer than most tests.

use std::fs::File;
use std::path::PathBuf;

use emergent_provider_gvisor::DirectImages;
use emergent_test_support::TestDocker;

/// Where they are: the image of tests under that name among them.
pub(crate) fn once(name: &str) -> PathBuf {
    let archive = TestDocker::image_archive();
    let shared = archive.with_file_name("direct");
    std::fs::create_dir_all(&shared).unwrap();
    let lock = File::create(shared.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let images = DirectImages::of(&shared);
    if !images.has(name) {
        let unpacking = async {
            let file = tokio::fs::File::open(&archive).await.unwrap();
            images.put(name, tokio_util::io::ReaderStream::with_capacity(file, 1 << 20)).await.unwrap()
        };
        // On a thread of its own: the test's may be in a runtime already.
        std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            scope.spawn(move || runtime.block_on(unpacking)).join().unwrap();
        });
    }
    shared.join("direct/images")
}
