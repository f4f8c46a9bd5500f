//! Images that Docker has no more when a workspace needs them again.

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider::{ProviderError, SandboxSpec};
use emergent_test_support::{TEST_IMAGE, TestDocker};

/// The test image under a hash and a name of this test's own, with settings.
fn image_of_its_own(docker: &TestDocker, name: &str) {
    let container = docker.docker(&["create", TEST_IMAGE, "true"]);
    let changes =
        ["ENV OF_THE_IMAGE=a\\ b", "ENTRYPOINT [\"/server\", \"--stdio\"]", "CMD [\"x\"]", "WORKDIR /srv"];
    let mut commit = vec!["commit"];
    for change in changes {
        commit.extend(["--change", change]);
    }
    commit.extend([&*container, name]);
    docker.docker(&commit);
    docker.docker(&["rm", &container]);
}

fn run(check: impl AsyncFnOnce(&Subject, &TestDocker) + 'static, on_volumes: bool) {
    let docker = Arc::new(TestDocker::get());
    let theirs = Arc::clone(&docker);
    Subject::run(
        async || match on_volumes {
            false => super::subject(&docker),
            true => {
                let data = tempfile::tempdir().expect("a temporary folder can be made");
                let installation = emergent_types::InstallationId::generate();
                let provider = super::provider(&docker, data.path(), installation);
                Subject::new(provider, None, (data, Arc::clone(&docker)))
            }
        },
        move |subject| Box::pin(async move { check(subject, &theirs).await }),
    );
}

/// A workspace whose disk is laid over the unpacked image goes on without Docker's; so does a copy of it.
#[test]
fn an_unpacked_image_is_enough() {
    run(
        async |subject, docker| {
            let name = "emergent/test-lost:layered";
            image_of_its_own(docker, name);
            let spec = SandboxSpec { base_image: Some(name.to_owned()), ..subject.spec() };
            let sandbox = subject.sandbox_with(spec).await;
            let image = sandbox.sandbox.image.clone().expect("it has one");
            assert_eq!(
                (image.entrypoint, image.command),
                (vec!["/server".into(), "--stdio".into()], vec!["x".into()])
            );
            assert_eq!((image.workdir.as_deref(), image.user), (Some("/srv"), None));
            sandbox.sh("echo kept > file; echo etc > /etc/of-test").await;
            let snapshot = subject.snapshot_id();
            subject.provider.snapshot(snapshot, &sandbox.spec).await.expect("snapshot works");
            subject.provider.stop(sandbox.id()).await.expect("stop works");
            docker.docker(&["image", "rm", name]);

            let resumed = subject.resume(&sandbox).await;
            assert_eq!(resumed.image, sandbox.sandbox.image);
            assert_eq!(sandbox.sh("cat file /etc/of-test; echo \"$OF_THE_IMAGE\"").await, "kept\netc\na b");
            // Through a link at the root, which is not on the disk.
            assert_eq!(
                sandbox.sh("/bin/sh -c 'readlink /bin; git --version | cut -c1-3'").await,
                "usr/bin\ngit"
            );
            let restored = subject.restored_with(snapshot, subject.spec()).await;
            assert_eq!(restored.sh("cat file; echo \"$OF_THE_IMAGE\"").await, "kept\na b");
        },
        false,
    );
}

/// Where everything but the workspace's own files is in Docker's image, its loss is told by its name.
#[test]
fn a_lost_image_is_told_by_its_name() {
    run(
        async |subject, docker| {
            let name = "emergent/test-lost:volumes";
            image_of_its_own(docker, name);
            let spec = SandboxSpec { base_image: Some(name.to_owned()), ..subject.spec() };
            let sandbox = subject.sandbox_with(spec).await;
            sandbox.sh("echo kept > file").await;
            let snapshot = subject.snapshot_id();
            subject.provider.snapshot(snapshot, &sandbox.spec).await.expect("snapshot works");
            subject.provider.stop(sandbox.id()).await.expect("stop works");
            docker.docker(&["image", "rm", name]);
            let lost = subject.provider.resume(&sandbox.spec).await.expect_err("its image is gone");
            assert!(
                matches!(&lost, ProviderError::ImageNotFound { reference, .. } if reference == name),
                "{lost}"
            );
            let restored = SandboxSpec { base_image: Some(name.to_owned()), ..subject.spec() };
            let lost = subject.provider.restore(snapshot, &restored).await.expect_err("its image is gone");
            assert!(matches!(&lost, ProviderError::ImageNotFound { .. }), "{lost}");
            let left: Vec<_> =
                subject.provider.list().await.expect("lists").iter().map(|seen| seen.id).collect();
            assert_eq!(left, [sandbox.id()]);
        },
        true,
    );
}
