//! Unpacked roots: kept as long as a workspace or Docker has the image, then removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_provider::SandboxSpec;
use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{EngineAddress, EngineImages, Runtime};
use emergent_test_support::TestDocker;
use emergent_types::{DiskEnforcement, InstallationId};

use crate::small_image;

/// The name of a root whose image no Docker has. Roots are looked at in the order of their names: when this one is
/// gone, all others have been.
const FORGOTTEN: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffaa";

const UNFINISHED: &str = "00000000000000000000000000000000000000000000000000000000000000bb";

#[test]
fn roots_go_with_the_last_that_needs_them() {
    let docker = Arc::new(TestDocker::get());
    let data = docker.folder();
    let installation = InstallationId::generate();
    let (theirs, folder) = (Arc::clone(&docker), data.path().to_owned());
    let keep = (data, Arc::clone(&docker));
    Subject::run(
        async || Subject::new(super::provider(&docker, keep.0.path(), installation), None, keep),
        move |subject| Box::pin(async move { check(subject, &theirs, &folder, installation).await }),
    );
}

/// Both providers of an installation share its roots. What one of them keeps a copy for, the other lets be.
#[test]
fn a_copy_keeps_the_root_that_it_belongs_over() {
    let docker = Arc::new(TestDocker::get());
    let data = docker.folder();
    let installation = InstallationId::generate();
    let (theirs, folder) = (Arc::clone(&docker), data.path().to_owned());
    let keep = (data, Arc::clone(&docker));
    let dockers_own = super::provider_with(&docker, keep.0.path(), installation, Runtime::Default);
    Subject::run(
        async || Subject::new(dockers_own, None, keep),
        move |subject| Box::pin(async move { check_copy(subject, &theirs, &folder, installation).await }),
    );
}

async fn check_copy(subject: &Subject, docker: &Arc<TestDocker>, data: &Path, installation: InstallationId) {
    let (name, root) = import_small_image(docker, data, installation).await;
    let spec = SandboxSpec { base_image: Some(name.clone()), ..subject.spec() };
    let sandbox = subject.provider.create(&spec).await.expect("create works");
    assert_eq!(sandbox.disk_enforcement, DiskEnforcement::Hard);
    let snapshot = subject.snapshot_id();
    subject.provider.snapshot(snapshot, &spec).await.expect("snapshot works");
    subject.provider.destroy(spec.id).await.expect("destroy works");
    docker.docker(&["image", "rm", &name]);
    tidied(docker, data, installation).await;
    assert!(root.is_dir(), "the root that a copy belongs over was removed");

    let restored = SandboxSpec { base_image: Some(name), ..subject.spec() };
    subject.provider.restore(snapshot, &restored).await.expect("restore works");
    subject.provider.destroy(restored.id).await.expect("destroy works");
    subject.provider.delete_snapshot(snapshot).await.expect("deletion works");
    tidied(docker, data, installation).await;
    assert!(!root.exists(), "a root that nothing uses stays");
}

/// An image of this test's own with Docker; answers its name, and where its root is once it is unpacked.
async fn import_small_image(
    docker: &TestDocker,
    data: &Path,
    installation: InstallationId,
) -> (String, PathBuf) {
    let name = format!("emergent/test-small:{}", installation.short());
    let images = EngineImages::of(EngineAddress::new(docker.address())).await.expect("Docker answers");
    let content = futures::stream::iter([Ok::<_, std::io::Error>(small_image::archive(&name))]);
    let imported = images.import(&name, &["WORKDIR /workspace"], content).await.expect("import works");
    let root = roots(data).join(imported.id.strip_prefix("sha256:").expect("a hash"));
    (name, root)
}

async fn check(subject: &Subject, docker: &Arc<TestDocker>, data: &Path, installation: InstallationId) {
    let (name, root) = import_small_image(docker, data, installation).await;
    let spec = SandboxSpec { base_image: Some(name.clone()), ..subject.spec() };
    subject.provider.create(&spec).await.expect("create works");
    assert!(root.join("etc/of-the-image").is_file(), "{}", root.display());

    // Used by one that runs, and by one that is stopped.
    tidied(docker, data, installation).await;
    assert!(root.is_dir(), "the root of a running workspace was removed");
    subject.provider.stop(spec.id).await.expect("stop works");
    docker.docker(&["image", "rm", &name]);
    tidied(docker, data, installation).await;
    assert!(root.is_dir(), "the root of a stopped workspace was removed");

    subject.provider.destroy(spec.id).await.expect("destroy works");
    tidied(docker, data, installation).await;
    assert!(!root.exists(), "a root that nothing uses stays");
}

fn roots(data: &Path) -> PathBuf {
    data.join("containers/images")
}

/// A server that has just been started looks around. When it has removed what certainly nobody needs, it has come by
/// the rest.
async fn tidied(docker: &Arc<TestDocker>, data: &Path, installation: InstallationId) {
    // One that is there twice because a server was killed, and one that nobody has finished unpacking.
    let forgotten = [FORGOTTEN.to_owned(), format!("{FORGOTTEN}.leaving"), format!("{UNFINISHED}.partial")];
    let forgotten = forgotten.map(|name| roots(data).join(name));
    for folder in &forgotten {
        std::fs::create_dir_all(folder.join("usr/bin")).expect("a folder can be made");
    }
    let provider = super::provider(docker, data, installation);
    assert!(provider.health().await.is_healthy());
    let deadline = Instant::now() + Duration::from_secs(20);
    for folder in forgotten {
        while folder.exists() {
            assert!(Instant::now() < deadline, "{} stays", folder.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
