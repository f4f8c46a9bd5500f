//! Unpacked roots: kept as long as a workspace or Docker has the image, then removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_provider::SandboxSpec;
use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::{EngineAddress, EngineImages};
use emergent_test_support::TestDocker;
use emergent_types::InstallationId;

use crate::small_image;

/// The name of a root whose image no Docker has.
const FORGOTTEN: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

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

async fn check(subject: &Subject, docker: &Arc<TestDocker>, data: &Path, installation: InstallationId) {
    let name = format!("emergent/test-small:{}", installation.short());
    let images = EngineImages::of(EngineAddress::new(docker.address())).await.expect("Docker answers");
    let content = futures::stream::iter([Ok::<_, std::io::Error>(small_image::archive(&name))]);
    let imported = images.import(&name, &["WORKDIR /workspace"], content).await.expect("import works");
    let root = roots(data).join(imported.id.strip_prefix("sha256:").expect("a hash"));

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

/// A server that has just been started looks around. When it has removed what certainly nobody needs,
/// it has come by the rest, or is about to.
async fn tidied(docker: &Arc<TestDocker>, data: &Path, installation: InstallationId) {
    let forgotten = roots(data).join(FORGOTTEN);
    std::fs::create_dir_all(forgotten.join("usr/bin")).expect("a folder can be made");
    let provider = super::provider(docker, data, installation);
    assert!(provider.health().await.is_healthy());
    let deadline = Instant::now() + Duration::from_secs(20);
    while forgotten.exists() {
        assert!(Instant::now() < deadline, "{} stays", forgotten.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}
