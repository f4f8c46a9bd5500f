//! Fifty creates at once, and fifty destroys.

use std::time::{Duration, Instant};

use anyhow::Result;
use emergent_test_support::Census;
use futures::future::join_all;

use super::spread;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**crowd**: with `WORKSPACE_MAX_CONCURRENT` raised, all requests are sent at once, each on a \
    connection of its own; a create counts when a command in the workspace has answered. Left behind is what a \
    census of the machine finds after all were destroyed: processes, mounts, control groups, network namespaces, \
    links, loop devices, firewall tables, folders.";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let count = bench.rounds(50, 5);
    with_server(&bench.server("crowd", 64)?, async |server| {
        // What only the first create does is not a crowd's.
        Workspace::create(server.endpoint()).await?.destroy().await?;

        let start = Instant::now();
        let made = join_all((0..count).map(|_| async {
            let start = Instant::now();
            let mut workspace = Workspace::create(server.endpoint()).await?;
            workspace.bash("true").await?;
            Ok::<_, anyhow::Error>((workspace, start.elapsed()))
        }))
        .await;
        let creating = start.elapsed();
        let (mut workspaces, mut creates) = (Vec::new(), Samples::default());
        for result in made {
            match result {
                Ok((workspace, took)) => {
                    workspaces.push(workspace);
                    creates.add(took);
                }
                Err(error) => eprintln!("one of {count} creates at once failed: {error:#}"),
            }
        }
        let succeeded = workspaces.len() as u64;

        let start = Instant::now();
        let destroyed = join_all(workspaces.into_iter().map(|workspace| async {
            let start = Instant::now();
            workspace.destroy().await.map(|()| start.elapsed())
        }))
        .await;
        let destroying = start.elapsed();
        let destroys: Samples =
            destroyed.into_iter().collect::<Result<Vec<Duration>>>()?.into_iter().collect();
        // The kernel takes loop devices down a moment after their last user.
        bench.settle().await;
        let left = server.census()?;
        if !left.is_empty() {
            eprintln!("left behind:\n{left}");
        }

        let rows = vec![
            Row::new(format!("{count} creates at once: succeeded"), Figure::Count(succeeded))
                .target(Target::Exactly(Figure::Count(count as u64))),
            Row::new(format!("{count} creates at once: until all have answered"), Figure::Time(creating)),
            Row::new(format!("{count} creates at once: each"), spread(&creates)?),
            Row::new(format!("{count} destroys at once: until all are gone"), Figure::Time(destroying)),
            Row::new(format!("{count} destroys at once: each"), spread(&destroys)?),
            Row::new(format!("left behind by {count} workspaces"), Figure::Count(size(&left)))
                .target(Target::Exactly(Figure::Count(0))),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// How much a census has found.
fn size(census: &Census) -> u64 {
    let kinds = [
        &census.processes,
        &census.mounts,
        &census.control_groups,
        &census.network_namespaces,
        &census.links,
        &census.loop_devices,
        &census.firewall_tables,
        &census.state_folders,
    ];
    kinds.iter().map(|found| found.len() as u64).sum()
}
