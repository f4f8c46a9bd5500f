//! `emergent workspace create`

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, CreateWorkspace, RequestedLimits};
use emergent_types::{
    ByteSize, Cpu, DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind,
};
use serde_json::{Map, Value};

use super::view;
use crate::exit::Failure;
use crate::named_value::one_of;
use crate::output::Output;
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// A repository to check out in /workspace
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// Its branch, tag or commit
    #[arg(long, requires = "repository")]
    branch: Option<String>,
    /// How many commits of its history; 0 is all [default: 1]
    #[arg(long, requires = "repository", value_name = "COMMITS")]
    depth: Option<u32>,
    /// The provider to use and no other, or auto
    #[arg(long, value_parser = one_of::<ProviderChoice>(providers()))]
    provider: Option<ProviderChoice>,
    /// Whether automatic choice may use a managed cloud
    #[arg(long, value_parser = one_of::<DeploymentMode>(DeploymentMode::ALL.iter().map(|mode| mode.as_str())))]
    deployment_mode: Option<DeploymentMode>,
    /// Processors, such as 2 or 0.5
    #[arg(long)]
    cpu: Option<Cpu>,
    /// Memory, such as 512M or 4G
    #[arg(long)]
    memory: Option<ByteSize>,
    /// Disk, such as 10G
    #[arg(long)]
    disk: Option<ByteSize>,
    /// The weakest isolation that will do
    #[arg(long, value_parser = one_of::<IsolationLevel>(IsolationLevel::ALL.iter().map(|level| level.as_str())))]
    min_isolation: Option<IsolationLevel>,
    /// What it can reach
    #[arg(long, value_parser = one_of::<NetworkMode>(NetworkMode::ALL.iter().map(|mode| mode.as_str())))]
    network: Option<NetworkMode>,
    /// An environment variable of everything that runs in it; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The image to start from
    #[arg(long)]
    base_image: Option<String>,
    /// How long it lives after its last use
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// Something to remember; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Have a sandbox made for it, also where one that was made ahead of time would do
    #[arg(long)]
    cold: bool,
    /// Answer at once instead of waiting until it is ready
    #[arg(long)]
    no_wait: bool,
    /// Print nothing but the id
    #[arg(short, long)]
    quiet: bool,
}

impl Create {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let (quiet, no_wait) = (self.quiet, self.no_wait);
        let request = self.into_request();
        let workspace = if no_wait {
            client.create_without_waiting(&request).await?
        } else {
            let _waiting = Progress::waiting(output, "creating a workspace");
            client.create(&request).await?
        };
        if quiet {
            output.line(&workspace.id.to_string());
        } else {
            output.result(&workspace, view::details);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn into_request(self) -> CreateWorkspace {
        let limits = RequestedLimits { cpu: self.cpu, memory: self.memory, disk: self.disk };
        CreateWorkspace {
            repository_url: self.repository,
            branch: self.branch,
            depth: self.depth,
            provider: self.provider,
            deployment_mode: self.deployment_mode,
            resource_limits: (limits != RequestedLimits::default()).then_some(limits),
            min_isolation: self.min_isolation,
            warm_start: self.cold.then_some(false),
            network: self.network,
            env: BTreeMap::from_iter(self.env),
            base_image: self.base_image,
            ttl_seconds: self.ttl,
            metadata: Map::from_iter(
                self.metadata.into_iter().map(|(name, value)| (name, Value::String(value))),
            ),
        }
    }
}

/// The names of every choice of a provider.
fn providers() -> impl Iterator<Item = &'static str> {
    ["auto"].into_iter().chain(ProviderKind::ALL.iter().map(|kind| kind.as_str()))
}

/// `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
