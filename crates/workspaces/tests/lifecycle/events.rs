//! What is told of what happens.

use std::time::Duration;

use emergent_provider::fake::Fault;
use emergent_provider::{Health, Operation};
use emergent_types::{StopMode, WorkspaceId};
use emergent_workspaces::{Handle, Heard, NewWorkspace, Published, Subject, Subscription};
use serde_json::Value;

use crate::setup::{Installation, eventually};

async fn next(events: &mut Subscription) -> std::sync::Arc<Published> {
    match tokio::time::timeout(Duration::from_secs(15), events.next()).await {
        Ok(Heard::Event(event)) => event,
        other => panic!("{other:?}"),
    }
}

/// The next events of one kind: what `field` says in each, until it says `last`.
async fn until(events: &mut Subscription, kind: &str, field: &str, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|seen| seen != last) {
        let event = next(events).await;
        if event.event.kind == kind {
            seen.push(event.event.data[field].as_str().unwrap_or("null").to_owned());
        }
    }
    seen
}

fn from_now(installation: &Installation) -> Subscription {
    installation.handle().events().subscribe(None)
}

/// Everything that was told of a workspace so far.
fn told(handle: &Handle, id: WorkspaceId) -> Vec<Value> {
    let bus = handle.events();
    let mut events = bus.subscribe(Some(bus.before_oldest()));
    let mut found = Vec::new();
    while let Some(Heard::Event(event)) = events.take() {
        if matches!(event.event.about, Subject::Workspace { id: about, .. } if about == id) {
            found.push(event.event.data.clone());
        }
    }
    found
}

#[tokio::test]
async fn every_state_of_a_life_is_told_once_and_in_order() {
    let installation = Installation::start().await;
    let handle = installation.handle();
    let mut events = from_now(&installation);
    let id = installation.create().await.id;
    handle.stop(id, StopMode::Disk).await.unwrap();
    handle.resume(id).await.unwrap();
    handle.destroy(id).await.unwrap();
    let first = next(&mut events).await;
    assert_eq!(first.event.about, Subject::Workspace { id, owner: None });
    assert_eq!(first.event.data["workspace_id"], id.to_string());
    assert_eq!((&first.event.data["from"], &first.event.data["to"]), (&Value::Null, &"creating".into()));
    let states = until(&mut events, "workspace.state", "to", "destroyed").await;
    assert_eq!(states, ["ready", "stopping", "stopped", "resuming", "ready", "destroying", "destroyed"]);
    // Each begins where the one before ended.
    let lives: Vec<_> = told(&handle, id).into_iter().filter(|data| data.get("to").is_some()).collect();
    for pair in lives.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "{pair:?}");
    }
}

#[tokio::test]
async fn what_happens_to_a_workspace_by_itself_has_a_reason() {
    let installation = Installation::start().await;
    let handle = installation.handle();
    let id = installation.create().await.id;
    let mut events = from_now(&installation);
    installation.provider.lose_sandbox(id).await;
    until(&mut events, "workspace.state", "to", "ready").await;
    let recovered = told(&handle, id);
    let resuming = recovered.iter().find(|data| data["to"] == "resuming").unwrap();
    assert_eq!(resuming["reason"], "the sandbox was lost");
    assert!(
        recovered.iter().any(|data| data["message"].as_str().is_some_and(|text| text.contains("was lost")))
    );

    // Asked for, it has none; failing, it says so.
    handle.stop(id, StopMode::Disk).await.unwrap();
    installation.provider.plan(Operation::Resume, Fault::Fail("on purpose"));
    handle.resume(id).await.unwrap_err();
    until(&mut events, "workspace.state", "reason", "the resume failed").await;
    let all = told(&handle, id);
    let last = |to: &str| all.iter().rfind(|data| data["to"] == to).unwrap()["reason"].clone();
    assert_eq!((last("stopping"), last("resuming")), (Value::Null, Value::Null));
    assert_eq!(last("stopped"), "the resume failed");
    // What cannot be repaired has the error's.
    installation.provider.lose_everything(id).await;
    handle.resume(id).await.unwrap_err();
    until(&mut events, "workspace.state", "to", "failed").await;
    let failed = told(&handle, id).into_iter().rfind(|data| data["to"] == "failed").unwrap();
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("gone")), "{failed}");
}

#[tokio::test]
async fn an_expired_workspace_says_so() {
    let installation = Installation::start().await;
    let mut events = from_now(&installation);
    let new = NewWorkspace { ttl: Some(Duration::from_secs(1)), ..NewWorkspace::default() };
    let id = installation.handle().create(new, true).await.unwrap().id;
    until(&mut events, "workspace.state", "to", "destroyed").await;
    let destroying = told(&installation.handle(), id).into_iter().find(|data| data["to"] == "destroying");
    assert_eq!(destroying.unwrap()["reason"], "expired");
}

/// A restart begins with greater ids, so that whoever comes back is told that something is missing.
#[tokio::test]
async fn ids_grow_over_restarts() {
    let mut installation = Installation::start().await;
    installation.create().await;
    let newest = installation.handle().events().newest();
    installation.shut_down().await;
    installation.start_again().await;
    let handle = installation.handle();
    assert!(handle.events().newest() > newest);
    let mut events = handle.events().subscribe(Some(newest));
    assert!(matches!(events.take(), Some(Heard::Lost { last }) if last > newest));
}

/// Proves: RISK-DOWNTIME-5
#[tokio::test]
async fn a_provider_that_changes_is_told_of_counted_and_alerted() {
    // Only what is told of the change itself raises the alert.
    let installation =
        Installation::start_with(|options| options.usage_interval = Duration::from_secs(3600)).await;
    let handle = installation.handle();
    let mut events = from_now(&installation);
    let unhealthy = || handle.alerts().into_iter().find(|alert| alert.id == "provider_unhealthy:local");
    assert_eq!(unhealthy(), None);
    installation.provider.set_health(Health::Unhealthy { reason: "on purpose".to_owned() });
    installation.check_health().await;
    assert_eq!(until(&mut events, "provider.state", "status", "unhealthy").await, ["unhealthy"]);
    let raised = until(&mut events, "alert.raised", "alert_id", "provider_unhealthy:local").await;
    assert_eq!(raised.len(), 1);
    assert!(unhealthy().is_some_and(|alert| alert.message.contains("on purpose")));

    // Another reason for the same state is no change, and the alert says it all the same.
    installation.provider.set_health(Health::Unhealthy { reason: "for another reason".to_owned() });
    installation.check_health().await;
    // A check that panics has not passed.
    installation.provider.set_health(Health::Healthy);
    installation.check_health().await;
    assert_eq!(until(&mut events, "provider.state", "status", "healthy").await, ["healthy"]);
    until(&mut events, "alert.cleared", "alert_id", "provider_unhealthy:local").await;
    assert_eq!(unhealthy(), None);
    installation.provider.break_health_checks();
    installation.check_health().await;
    assert_eq!(until(&mut events, "provider.state", "status", "unhealthy").await, ["unhealthy"]);
    eventually("the alert says that the check broke", || async {
        unhealthy().is_some_and(|alert| alert.message.contains("the health check broke"))
    })
    .await;
    let counts = handle.provider_state_changes();
    assert!(
        counts.contains(&("local", "unhealthy", 2)) && counts.contains(&("local", "healthy", 2)),
        "{counts:?}"
    );
}

/// Whoever waits for an image that is pulled sees that, and how far it is.
#[tokio::test]
async fn who_waits_is_told_how_far_it_is() {
    let installation = Installation::start().await;
    let handle = installation.handle();
    let mut events = from_now(&installation);
    installation.provider.plan(Operation::Create, Fault::Delay(Duration::from_secs(4)));
    installation.provider.set_progress(Some("1 of 2 layers"));
    let id = handle.create(NewWorkspace::default(), false).await.unwrap().id;
    eventually("it is told", || async { handle.progress(id).as_deref() == Some("1 of 2 layers") }).await;
    installation.provider.set_progress(Some("2 of 2 layers"));
    let said = until(&mut events, "workspace.progress", "message", "2 of 2 layers").await;
    assert_eq!(said, ["1 of 2 layers", "2 of 2 layers"]);
    installation.provider.set_progress(None);
    until(&mut events, "workspace.state", "to", "ready").await;
    assert_eq!(handle.progress(id), None);
}
