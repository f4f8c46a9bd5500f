//! As root, on a host that lacks something: the sandbox is made, and says what it lacks.

use crate::support::{Subject, run, spec, subject};
use emergent_provider::{NamedDemands, ProviderError, WorkspaceProvider};
use emergent_provider_local::{Controller, LocalProvider, Withheld};
use emergent_types::{DiskEnforcement, Enforcement};

/// A provider over the same data folder, on a host that lacks something.
fn provider_withholding(subject: &Subject, withheld: Withheld) -> LocalProvider {
    LocalProvider::withholding(subject.options(&[]), withheld)
}

#[tokio::test]
async fn a_disk_is_a_folder_where_it_cannot_be_a_file() {
    let subject = subject();
    let provider = provider_withholding(&subject, Withheld { disk_images: true, ..Withheld::default() });
    assert_eq!(provider.capabilities().await.limits.disk, DiskEnforcement::Monitored);
    let mut named = spec();
    named.named = NamedDemands { disk: true, ..NamedDemands::default() };
    let refused = provider.create(&named).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NotEnforceable { what: "disk", .. }), "{refused}");

    let spec = spec();
    let made = provider.create(&spec).await.unwrap();
    assert_eq!(made.disk_enforcement, DiskEnforcement::Monitored);
    assert!(made.warnings.iter().any(|warning| warning.contains("disk usage")), "{:?}", made.warnings);
    let script = "stat -c %U /workspace /home/user | xargs; echo kept > /workspace/kept; \
                  chown user /workspace/kept; touch /usr/x 2>/dev/null || echo closed";
    assert_eq!(run(&provider, spec.id, script).await.ok(), "root user\nclosed");
    provider.stop(spec.id).await.unwrap();
    // By a server that could make files: a disk stays what it is.
    let other = subject.restarted();
    assert_eq!(other.resume(&spec).await.unwrap().disk_enforcement, DiskEnforcement::Monitored);
    assert_eq!(run(&other, spec.id, "stat -c %U /workspace/kept").await.ok(), "user");
    assert!(other.disk_use(spec.id).await.unwrap().is_some());
    other.destroy(spec.id).await.unwrap();
    // One that is a file says itself when it is full.
    let hard = crate::support::spec();
    other.create(&hard).await.unwrap();
    assert_eq!(other.disk_use(hard.id).await.unwrap(), None);
    other.destroy(hard.id).await.unwrap();
    subject.assert_nothing_left();
}

#[tokio::test]
async fn a_missing_controller_costs_its_own_limit_only() {
    let subject = subject();
    for (controller, field) in [(Controller::Cpu, "cpu"), (Controller::Memory, "memory")] {
        let withheld = Withheld { controllers: vec![controller], ..Withheld::default() };
        let provider = provider_withholding(&subject, withheld);
        let limits = provider.capabilities().await.limits;
        let lost = |limit| limit == Enforcement::NotEnforced;
        assert_eq!(
            (lost(limits.cpu), lost(limits.memory), lost(limits.pids)),
            (field == "cpu", field == "memory", false)
        );
        let mut named = spec();
        named.named = NamedDemands { cpu: field == "cpu", memory: field == "memory", ..named.named };
        match provider.create(&named).await {
            Err(ProviderError::NotEnforceable { what, .. }) => assert_eq!(what, field),
            other => panic!("{field}: {other:?}"),
        }
        let spec = spec();
        let made = provider.create(&spec).await.unwrap();
        assert!(made.warnings.iter().any(|warning| warning.contains(field)), "{:?}", made.warnings);
        assert_eq!(run(&provider, spec.id, "echo works").await.ok(), "works");
        provider.destroy(spec.id).await.unwrap();
        subject.assert_nothing_left();
    }
}

/// A limit that was named for the create holds for the resume: on a host that has lost the
/// means, the sandbox stays down and keeps its disk.
#[tokio::test]
async fn what_was_named_is_not_dropped_by_a_resume() {
    let subject = subject();
    let mut spec = spec();
    spec.named = NamedDemands { memory: true, ..NamedDemands::default() };
    subject.provider.create(&spec).await.unwrap();
    subject.provider.stop(spec.id).await.unwrap();
    spec.named = NamedDemands::default();
    let withheld = Withheld { controllers: vec![Controller::Memory], ..Withheld::default() };
    let refused = provider_withholding(&subject, withheld).resume(&spec).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NotEnforceable { what: "memory", .. }), "{refused}");
    subject.provider.resume(&spec).await.unwrap();
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
