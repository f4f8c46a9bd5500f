//! From asking for a workspace to the first answer of a command in it, beside the bare steps
//! that cannot be avoided.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use emergent_agent_client::{
    AgentClient, AgentDialer, AgentKey, AgentStream, CommandSpec, DialError, ExecOptions, Greeting,
};
use emergent_provider::{NamedDemands, SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LaunchStep, LocalProvider, Options};
use emergent_test_support::{Census, Scope};
use emergent_types::{InstallationId, NetworkMode, ResourceLimits, WorkspaceId};

use super::spread;
use crate::bare::{self, BareTimes};
use crate::bench::Bench;
use crate::figure::Target;
use crate::http::Endpoint;
use crate::report::{Breakdown, Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::subprograms::Subprogram;
use crate::workspace::Workspace;

const METHOD: &str = "**create**: default limits; bare is the sum of `mkfs.ext4` on a sparse file of the same size \
    with the same options, a loop mount, and `libcontainer` starting `sleep` with the same namespaces and limits. \
    The three are made in turn; the first of each is not counted.";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let rounds = bench.rounds(100, 3);
    let library = Library::new(bench)?;
    let mut times = Times::default();
    with_server(&bench.server("create", 10)?, async |server| {
        // The first of a kind makes what later ones reuse: the template of the disk, caches.
        for round in 0..=rounds {
            let bare = bare_sandbox(bench, round)?;
            bench.settle().await;
            let through_library = library.create_and_ask().await?;
            bench.settle().await;
            let over_http = create_and_ask_over_http(server.endpoint()).await?;
            bench.settle().await;
            if round > 0 {
                times.add(&bare, &through_library, over_http);
            }
        }
        Ok(())
    })
    .await?;
    library.check_nothing_is_left()?;
    times.into_section()
}

fn bare_sandbox(bench: &Bench, round: usize) -> Result<BareTimes> {
    let name = format!("emergent-bench-{}-{round}", std::process::id());
    let folder = bench.folder(&name)?;
    let times = bare::make_and_remove(&folder, &name)?;
    std::fs::remove_dir_all(folder)?;
    Ok(times)
}

async fn create_and_ask_over_http(endpoint: &Endpoint) -> Result<Duration> {
    let start = Instant::now();
    let mut workspace = Workspace::create(endpoint).await?;
    workspace.bash("true").await?;
    let took = start.elapsed();
    workspace.destroy().await?;
    Ok(took)
}

/// The provider, without a server around it.
struct Library {
    provider: Arc<LocalProvider>,
    data_dir: PathBuf,
    installation: InstallationId,
}

/// How long the parts of one create through the library took.
struct LibraryTimes {
    steps: Vec<(LaunchStep, Duration)>,
    create: Duration,
    greet: Duration,
    bash: Duration,
}

impl LibraryTimes {
    fn total(&self) -> Duration {
        self.create + self.greet + self.bash
    }
}

impl Library {
    fn new(bench: &Bench) -> Result<Self> {
        let data_dir = bench.folder("library")?;
        let installation = InstallationId::generate();
        let provider = LocalProvider::new(Options {
            data_dir: data_dir.clone(),
            installation,
            agent: AgentSource::Bytes(emergent_agent_bundle::bytes().into()),
            helper: HelperCommand::current_exe(Subprogram::SandboxLauncher.word()),
        });
        Ok(Self { provider: Arc::new(provider), data_dir, installation })
    }

    fn check_nothing_is_left(&self) -> Result<()> {
        let left =
            Census::take(&Scope::Installation { id: self.installation, data_dir: self.data_dir.clone() });
        ensure!(left.is_empty(), "left behind:\n{left}");
        Ok(())
    }

    async fn create_and_ask(&self) -> Result<LibraryTimes> {
        let id = WorkspaceId::generate();
        let times = self.try_create_and_ask(id).await;
        self.provider.destroy(id).await?;
        times
    }

    async fn try_create_and_ask(&self, id: WorkspaceId) -> Result<LibraryTimes> {
        let key = AgentKey::derive(b"bench", id);
        let spec = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            named: NamedDemands::default(),
            volumes: Vec::new(),
            agent_key: key.clone(),
        };
        let dialer = Dialer { provider: Arc::clone(&self.provider), id };
        let greeting = Greeting { key, environment: HashMap::new(), deadline_unix_ms: 0 };

        let start = Instant::now();
        self.provider.create(&spec).await?;
        let create = start.elapsed();
        let start = Instant::now();
        let client = AgentClient::new(Arc::new(dialer), greeting);
        client.greet().await?;
        let greet = start.elapsed();
        let start = Instant::now();
        let outcome = client.exec(&CommandSpec::shell("true"), ExecOptions::default()).await?;
        let bash = start.elapsed();
        ensure!(outcome.exit.code == 0, "`true` failed: {outcome:?}");

        let timings = self.provider.latest_launch();
        let steps =
            timings.iter().map(|timing| (timing.step, Duration::from_micros(timing.micros))).collect();
        Ok(LibraryTimes { steps, create, greet, bash })
    }
}

struct Dialer {
    provider: Arc<LocalProvider>,
    id: WorkspaceId,
}

#[async_trait]
impl AgentDialer for Dialer {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        self.provider.connect(self.id).await.map_err(|error| DialError { reason: error.to_string() })
    }
}

/// Everything that was measured, by what it belongs to.
#[derive(Default)]
struct Times {
    bare: Samples,
    library: Samples,
    http: Samples,
    bare_parts: Parts,
    library_parts: Parts,
}

impl Times {
    fn add(&mut self, bare: &BareTimes, library: &LibraryTimes, http: Duration) {
        self.bare.add(bare.sum());
        self.library.add(library.total());
        self.http.add(http);

        let parts = &mut self.bare_parts;
        parts.add("mkfs.ext4", bare.format);
        parts.add("loop device and mount", bare.mount);
        parts.add("launcher process", bare.launcher.process);
        parts.add("libcontainer build", bare.launcher.build);
        parts.add("libcontainer start", bare.launcher.start);

        let parts = &mut self.library_parts;
        for (step, took) in &library.steps {
            parts.add(step.as_str(), *took);
        }
        let inside: Duration = library.steps.iter().map(|(_, took)| *took).sum();
        parts.add("records, locks and threads", library.create.saturating_sub(inside));
        parts.add("connect and greet", library.greet);
        parts.add("bash `true`", library.bash);
    }

    fn into_section(self) -> Result<Section> {
        let bare = spread(&self.bare)?;
        let rows = vec![
            Row::new("create until the first bash answer, provider alone", spread(&self.library)?)
                .beside(bare)
                .target(Target::Ratio(1.3)),
            Row::new("create until the first bash answer, over HTTP", spread(&self.http)?)
                .beside(bare)
                .target(Target::Ratio(1.3)),
        ];
        let breakdowns = vec![
            self.library_parts.into_breakdown("Create by step, provider alone")?,
            self.bare_parts.into_breakdown("The bare steps")?,
        ];
        Ok(Section::new(METHOD, rows).with_breakdowns(breakdowns))
    }
}

/// Samples by the name of the part, in the order in which parts first came.
#[derive(Default)]
struct Parts(Vec<(&'static str, Samples)>);

impl Parts {
    fn add(&mut self, part: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == part) {
            Some((_, samples)) => samples.add(took),
            None => self.0.push((part, Samples::from_iter([took]))),
        }
    }

    fn into_breakdown(self, title: &str) -> Result<Breakdown> {
        let parts = self.0.iter().map(|(name, samples)| Ok(((*name).to_owned(), spread(samples)?)));
        let parts = parts.collect::<Result<_>>().context(title.to_owned())?;
        Ok(Breakdown { title: title.to_owned(), parts })
    }
}
