//! Many at once, over the fake: what the control plane itself does under load.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use emergent_provider::WorkspaceProvider;
use emergent_workspaces::{CreateError, Miss, NewWorkspace, PoolSpec};

use crate::setup::{Installation, eventually};

fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("EMERGENT_TEST_LONG").is_some() { long } else { short }
}

/// Whoever is not served is told that there is no place, and nobody gets anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_creates_at_once() {
    let (places, asked) = (long(300, 1000), long(400, 1200));
    let installation =
        Installation::start_with(|options| options.max_concurrent = u32::try_from(places).unwrap()).await;
    let handle = installation.handle();
    let creates = (0..asked).map(|_| handle.create(NewWorkspace::default(), true));
    let answers = futures::future::join_all(creates).await;
    let mut ids = HashSet::new();
    for answer in answers {
        match answer {
            Ok(row) => assert!(ids.insert(row.id)),
            Err(error) => assert!(matches!(error, CreateError::LimitReached { .. }), "{error}"),
        }
    }
    assert_eq!(ids.len(), places);
    let destroyed = futures::future::join_all(ids.iter().map(|id| handle.destroy(*id))).await;
    assert!(destroyed.iter().all(Result::is_ok));
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// A hundred clients take members out of a pool all the time while members are killed under them: nobody gets
/// what somebody else has, and nobody gets a dead one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_and_a_pool_that_is_killed() {
    let claims = long(1000, 10_000);
    let installation = Arc::new(
        Installation::start_with(|options| {
            options.max_concurrent = 10_000;
            options.pools = vec![PoolSpec::of_defaults(20)];
            options.pool_interval = Duration::from_millis(50);
        })
        .await,
    );
    let (made, ours) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(HashSet::new())));
    let victims = Arc::new(Mutex::new(HashMap::new()));
    let clients = (0..100).map(|_| {
        let (installation, made) = (installation.clone(), made.clone());
        let (ours, victims) = (ours.clone(), victims.clone());
        tokio::spawn(async move {
            let handle = installation.handle();
            while handle.pools().hits < claims {
                made.fetch_add(1, Ordering::Relaxed);
                // Most are to be served by the pool, which is refilled two at a time.
                let deadline = Instant::now() + Duration::from_secs(2);
                while handle.pools().pools[0].ready == 0 && Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let asked_at = Instant::now();
                let row = handle.create(NewWorkspace::default(), true).await.unwrap();
                assert!(ours.lock().unwrap().insert(row.id), "{} was handed out twice", row.id);
                let written = async {
                    let call = handle.tool(row.id).await?;
                    call.write_file("mine", row.id.to_string().into()).await
                };
                if let Err(error) = written.await {
                    // Killed in the very moment in which it was handed out, and not before.
                    let killed_at = victims.lock().unwrap().get(&row.id).copied();
                    assert!(killed_at.is_some_and(|at| at > asked_at), "a dead one was handed out: {error}");
                }
                handle.destroy(row.id).await.unwrap();
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let killer = {
        let (installation, ours, victims) = (installation.clone(), ours.clone(), victims.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let seen = installation.provider.list().await.unwrap();
                // Only members: nobody's workspace is killed here.
                let member =
                    seen.iter().find(|seen| !ours.lock().unwrap().contains(&seen.id)).map(|seen| seen.id);
                if let Some(member) = member
                    && installation.handle().get(member).await.is_err()
                {
                    victims.lock().unwrap().insert(member, Instant::now());
                    installation.provider.lose_sandbox(member).await;
                }
            }
        })
    };
    for client in clients {
        client.await.unwrap();
    }
    killer.abort();
    let pools = installation.handle().pools();
    let missed: u64 = Miss::ALL.iter().map(|miss| pools.misses.because(*miss)).sum();
    let made = made.load(Ordering::Relaxed);
    assert_eq!(pools.hits + missed, made, "each was served by the pool or was not: {pools:?}");
    assert!(pools.hits >= claims, "{pools:?}");
    let killed = victims.lock().unwrap().len();
    assert!(killed > 0, "no member was killed");
    eprintln!("{claims} claims, {killed} members killed: {pools:?}");
    eventually("the pool is full, and nothing else is there", || async {
        installation.handle().pools().pools[0].ready == 20
            && installation.provider.list().await.unwrap().len() == 20
    })
    .await;
}
