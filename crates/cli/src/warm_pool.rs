//! `emergent warm-pool`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Pool, WarmPool};

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::{Output, table};

#[derive(Debug, Args)]
pub(crate) struct WarmPoolArguments {
    /// Change how many sandboxes are kept ready
    #[arg(long)]
    size: Option<u32>,
}

/// Shows the pools, and changes the size of the default one where that is asked for.
pub(crate) fn run(
    common: &CommonArguments,
    arguments: &WarmPoolArguments,
    output: Output,
) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| {
        let pools = match arguments.size {
            Some(size) => client.resize_warm_pool(size).await?,
            None => client.warm_pool().await?,
        };
        output.result(&pools, shown);
        Ok(ExitCode::SUCCESS)
    })
}

fn shown(pools: &WarmPool) -> String {
    let row = |pool: &Pool| {
        let trouble = pool.trouble.clone().unwrap_or_default();
        let numbers = [pool.size, pool.ready, pool.resting, pool.creating].map(|number| number.to_string());
        [vec![pool.name.clone()], numbers.to_vec(), vec![trouble]].concat()
    };
    let misses: Vec<_> = pools.misses.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let members =
        table(&["POOL", "SIZE", "READY", "RESTING", "CREATING", "TROUBLE"], pools.pools.iter().map(row));
    format!("{members}\nhits {}, misses: {}", pools.hits, misses.join(", "))
}
