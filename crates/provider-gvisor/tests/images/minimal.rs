//! A Docker that has no image and no registry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_provider::conformance::Subject;
use emergent_provider::{ProviderError, SandboxSpec};
use emergent_provider_gvisor::DEFAULT_IMAGE;
use emergent_test_support::TestDocker;

const REPOSITORY: &str = "emergent/workspace-minimal";

#[test]
fn in_place_of_the_default_image_there_is_one_of_the_hosts_system() {
    let docker = Arc::new(TestDocker::without_images());
    let theirs = Arc::clone(&docker);
    Subject::run(
        async || super::subject(&docker),
        move |subject| Box::pin(async move { check(subject, &theirs).await }),
    );
}

async fn check(subject: &Subject, docker: &TestDocker) {
    named_images_are_not_replaced(subject).await;

    // Two at once: one image.
    let (first, second) = tokio::join!(subject.sandbox(), subject.sandbox());
    for sandbox in [&first, &second] {
        assert_eq!(warnings_about_images(&sandbox.sandbox.warnings), 1, "{:?}", sandbox.sandbox.warnings);
    }
    assert_eq!(first.sh("cd / && ls -d workspace bin/sh etc/passwd").await, "bin/sh\netc/passwd\nworkspace");
    assert_eq!(first.sh("echo $LANG; id -un user").await, "C.UTF-8\nuser");
    let made = docker.docker(&["image", "ls", "--quiet", REPOSITORY]);
    assert_eq!(made.lines().count(), 1, "{made}");
    assert_eq!(
        docker.docker(&["image", "ls", "--quiet", DEFAULT_IMAGE]),
        "",
        "the default's name stays free"
    );

    // The next one neither waits for a registry nor makes another.
    let clock = Instant::now();
    let third = subject.sandbox().await;
    assert!(clock.elapsed() < Duration::from_secs(8), "{:?}", clock.elapsed());
    assert_eq!(warnings_about_images(&third.sandbox.warnings), 1);

    // Whoever brings the default image has it used at once.
    docker.docker(&["tag", &made, DEFAULT_IMAGE]);
    let fourth = subject.sandbox().await;
    assert_eq!(warnings_about_images(&fourth.sandbox.warnings), 0, "{:?}", fourth.sandbox.warnings);
}

/// Proves that a step down is never silent: what a request names is what it gets.
async fn named_images_are_not_replaced(subject: &Subject) {
    for image in [DEFAULT_IMAGE, "r.example.invalid/a/b:1"] {
        let spec = SandboxSpec { base_image: Some(image.to_owned()), ..subject.spec() };
        let refused = subject.provider.create(&spec).await.expect_err("there is no such image");
        let ProviderError::ImageNotFound { reference, reason, .. } = &refused else { panic!("{refused}") };
        assert_eq!(reference, image);
        assert!(!reason.is_empty() && refused.to_string().contains("image_not_found"), "{refused}");
        assert!(refused.allows_fallback() && !refused.is_retryable());
    }
    let spec = SandboxSpec { base_image: Some("../a".to_owned()), ..subject.spec() };
    let refused = subject.provider.create(&spec).await.expect_err("that is no name");
    assert!(matches!(refused, ProviderError::NotEnforceable { what: "base_image", .. }), "{refused}");
}

fn warnings_about_images(warnings: &[String]) -> usize {
    let about = |warning: &&String| {
        warning.contains("`emergent image build`")
            && warning.contains(DEFAULT_IMAGE)
            && warning.contains("the host that the server runs on")
    };
    warnings.iter().filter(about).count()
}
