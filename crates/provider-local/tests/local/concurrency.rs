//! Many at once.

use std::sync::Arc;

use crate::support::{Ran, run, spec, subject};
use emergent_provider::{ObservedState, WorkspaceProvider};
use futures::future::join_all;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once() {
    let subject = subject();
    let specs: Vec<_> = (0..50).map(|_| spec()).collect();
    let made = join_all(specs.iter().map(|spec| {
        let (provider, spec) = (Arc::clone(&subject.provider), spec.clone());
        tokio::spawn(async move { provider.create(&spec).await })
    }))
    .await;
    for result in made {
        result.unwrap().unwrap();
    }
    let listed = subject.provider.list().await.unwrap();
    assert_eq!(listed.len(), specs.len());
    assert!(listed.iter().all(|sandbox| sandbox.state == ObservedState::Running));
    let answers = join_all(specs.iter().map(|spec| run(&subject.provider, spec.id, "hostname"))).await;
    let names: std::collections::HashSet<_> = answers.into_iter().map(Ran::ok).collect();
    assert_eq!(names.len(), specs.len());

    for result in join_all(specs.iter().map(|spec| subject.provider.destroy(spec.id))).await {
        result.unwrap();
    }
    subject.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sandbox_asked_for_many_times_is_one_sandbox() {
    let subject = subject();
    let spec = spec();
    let creates = join_all((0..8).map(|_| subject.provider.create(&spec)));
    let stops = join_all((0..4).map(|_| subject.provider.destroy(spec.id)));
    let (created, removed) = tokio::join!(creates, stops);
    for result in created {
        result.unwrap();
    }
    for result in removed {
        result.unwrap();
    }
    assert!(subject.provider.list().await.unwrap().len() <= 1);
    subject.provider.destroy(spec.id).await.unwrap();
    subject.assert_nothing_left();
}
