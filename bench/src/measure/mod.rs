//! The measurements, one file each.

mod calls;
mod clone;
mod control;
mod create;
mod crowd;
mod disk;
mod flood;
mod footprint;
mod gvisor;
mod mcp;
mod population;
mod recovery;
mod tools;
mod transfer;
mod warm;

use std::fmt;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::bench::Bench;
use crate::report::Section;
use crate::stats::{Samples, Spread};

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// From asking for a workspace to the first answer of a command in it.
    Create,
    /// Single tool calls over HTTP.
    Calls,
    /// A command that prints a gibibyte.
    Flood,
    /// Fifty creates at once.
    Crowd,
    /// Memory, and the server's start.
    Footprint,
    /// `kill -9` of the server.
    Recovery,
    /// Durable writes, stop, resume and destroy.
    Disk,
    /// Edit, glob and grep over HTTP.
    Tools,
    /// A gibibyte up and down.
    Transfer,
    /// A repository into a workspace.
    Clone,
    /// Tool calls beside fifty workspaces and ten thousand rows, on both databases.
    Population,
    /// What the control plane takes by itself.
    Control,
    /// Sandboxes made ahead of time.
    Warm,
    /// Workspaces under gVisor beside bare containers.
    Gvisor,
    /// Hosted MCP servers beside bare ones, and beside another bridge.
    Mcp,
}

impl Measurement {
    /// All of them. Memory first, while nothing else has happened.
    pub(crate) const ALL: [Self; 15] = [
        Self::Footprint,
        Self::Create,
        Self::Calls,
        Self::Tools,
        Self::Disk,
        Self::Transfer,
        Self::Clone,
        Self::Flood,
        Self::Crowd,
        Self::Population,
        Self::Recovery,
        Self::Control,
        Self::Warm,
        Self::Gvisor,
        Self::Mcp,
    ];

    pub(crate) async fn run(self, bench: &Bench) -> Result<Section> {
        match self {
            Self::Create => create::run(bench).await,
            Self::Calls => calls::run(bench).await,
            Self::Flood => flood::run(bench).await,
            Self::Crowd => crowd::run(bench).await,
            Self::Footprint => footprint::run(bench).await,
            Self::Recovery => recovery::run(bench).await,
            Self::Disk => disk::run(bench).await,
            Self::Tools => tools::run(bench).await,
            Self::Transfer => transfer::run(bench).await,
            Self::Clone => clone::run(bench).await,
            Self::Population => population::run(bench).await,
            Self::Control => control::run(bench).await,
            Self::Warm => warm::run(bench).await,
            Self::Gvisor => gvisor::run(bench).await,
            Self::Mcp => mcp::run(bench).await,
        }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

fn spread(samples: &Samples) -> Result<Spread> {
    samples.spread().context("nothing was measured")
}

/// Text of exactly 2 KiB, as a small source file has it.
fn two_kibibytes() -> String {
    "fn main() { println!(\"one line of thirty-two of them\"); } //...\n".repeat(32)
}

#[cfg(test)]
mod tests {
    use super::two_kibibytes;

    #[test]
    fn two_kibibytes_are_two_kibibytes() {
        assert_eq!(two_kibibytes().len(), 2048);
    }
}
