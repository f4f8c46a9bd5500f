//! Where a workspace's image comes from without Docker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_provider::conformance::Subject;
use emergent_provider::{ProviderError, SandboxSpec, WorkspaceProvider};
use emergent_provider_gvisor::{DEFAULT_IMAGE, DirectOptions, DirectProvider};
use emergent_types::InstallationId;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_not_found() {
    let subject = crate::subject().await;
    let named = |name: &str| SandboxSpec { base_image: Some(name.to_owned()), ..subject.spec() };
    match subject.provider.create(&named("debian:bookworm")).await {
        Err(ProviderError::ImageNotFound { reference, reason, .. }) => {
            assert_eq!(reference, "debian:bookworm");
            assert!(
                reason.contains("nothing is pulled") && reason.contains("emergent image build"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    let refused = subject.provider.create(&named("../../etc")).await;
    assert!(matches!(refused, Err(ProviderError::NotEnforceable { what: "base_image", .. })), "{refused:?}");
    assert_eq!(subject.provider.list().await.unwrap(), []);
}

/// Neither an image nor Docker: one made of this host's system, and the user is told.
#[test]
fn a_minimal_image_stands_in_for_the_default_one() {
    let make = async || {
        let data = tempfile::Builder::new().prefix("emergent-direct-").tempdir().unwrap();
        let options = crate::options(data.path(), InstallationId::generate());
        let provider =
            DirectProvider::new(DirectOptions { default_image: DEFAULT_IMAGE.to_owned(), ..options });
        Subject::new(Arc::new(provider), Some("/workspace"), data)
    };
    Subject::run(make, |subject| {
        Box::pin(async move {
            let sandbox = subject.sandbox().await;
            let warnings = sandbox.sandbox.warnings.join("\n");
            assert!(
                warnings.contains(DEFAULT_IMAGE) && warnings.contains("emergent image build"),
                "{warnings}"
            );
            assert_eq!(sandbox.sh("bash -c 'echo from bash'").await, "from bash");
            assert_eq!(sandbox.sh("getent hosts localhost | wc -l").await, "1");
        })
    });
}

/// What was being unpacked when a server was killed goes with the next one.
#[tokio::test(flavor = "multi_thread")]
async fn roots_that_nobody_has_finished_are_removed() {
    let data = crate::data_folder();
    let name = format!("{}.partial", uuid::Uuid::now_v7().simple());
    let unfinished = data.path().join("direct/images/roots").join(name);
    std::fs::create_dir_all(unfinished.join("usr/bin")).unwrap();
    let provider = DirectProvider::new(crate::options(data.path(), InstallationId::generate()));
    let health = provider.health().await;
    assert!(health.is_healthy(), "{health:?}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while unfinished.exists() {
        assert!(Instant::now() < deadline, "{} stays", unfinished.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
