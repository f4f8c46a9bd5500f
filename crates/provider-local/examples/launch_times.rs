//! Prints how long each step of a launch takes, beside the same steps done bare:
//! `launch_times HELPER [COUNT]`, as root, where HELPER is the path of
//! `emergent-local-helper`.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use emergent_agent_client::{AgentClient, AgentDialer, AgentKey, AgentStream, DialError, Greeting};
use emergent_provider::{NamedDemands, SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LaunchStep, LocalProvider, Options};
use emergent_types::{InstallationId, NetworkMode, ResourceLimits, WorkspaceId};

type Times = Vec<Duration>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [helper, count @ ..] = &arguments[..] else { return Err("launch_times HELPER [COUNT]".into()) };
    let count: usize = count.first().map_or(Ok(50), |count| count.parse())?;
    let data_dir = tempfile::tempdir()?;
    let provider = Arc::new(LocalProvider::new(Options {
        data_dir: data_dir.path().to_owned(),
        installation: InstallationId::generate(),
        agent: AgentSource::Bytes(emergent_agent_bundle::bytes().into()),
        helper: HelperCommand { program: std::fs::canonicalize(helper)?, args: Vec::new() },
    }));
    println!("{:?}", provider.health().await);

    let (mut creates, mut answers, mut destroys) = (Times::new(), Times::new(), Times::new());
    let mut steps = vec![Times::new(); LaunchStep::ALL.len()];
    for _ in 0..count {
        let id = WorkspaceId::generate();
        let spec = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            named: NamedDemands::default(),
            volumes: Vec::new(),
            agent_key: AgentKey::derive(b"times", id),
        };
        let start = Instant::now();
        provider.create(&spec).await?;
        creates.push(start.elapsed());
        let start = Instant::now();
        let greeting = Greeting { key: spec.agent_key, environment: Default::default(), deadline_unix_ms: 0 };
        AgentClient::new(Arc::new(Dialer(Arc::clone(&provider), id)), greeting).greet().await?;
        answers.push(start.elapsed());
        for timing in provider.latest_launch() {
            if let Some(at) = LaunchStep::ALL.iter().position(|step| *step == timing.step) {
                steps[at].push(Duration::from_micros(timing.micros));
            }
        }
        let start = Instant::now();
        provider.destroy(id).await?;
        destroys.push(start.elapsed());
    }
    let libcontainer: Times = (0..count)
        .map(|round| {
            let of = |wanted| LaunchStep::ALL.iter().position(|step| *step == wanted).unwrap_or_default();
            steps[of(LaunchStep::Build)][round] + steps[of(LaunchStep::Start)][round]
        })
        .collect();
    for (step, times) in LaunchStep::ALL.iter().zip(steps) {
        print_row(step.as_str(), times);
    }
    let create = print_row("create", creates);
    print_row("agent answers", answers);
    print_row("destroy", destroys);

    let (mkfs, mount) = bare(data_dir.path(), count)?;
    let bare = print_row("bare mkfs", mkfs)
        + print_row("bare mount", mount)
        + print_row("libcontainer", libcontainer);
    println!("create is {:.2} of the bare steps' {bare:.1} ms", create / bare);
    Ok(())
}

struct Dialer(Arc<LocalProvider>, WorkspaceId);

#[async_trait]
impl AgentDialer for Dialer {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        self.0.connect(self.1).await.map_err(|error| DialError { reason: error.to_string() })
    }
}

/// What anybody would do by hand for a disk of the same size.
fn bare(folder: &Path, count: usize) -> Result<(Times, Times), Box<dyn Error>> {
    let (image, point) = (folder.join("bare.img"), folder.join("bare"));
    std::fs::create_dir(&point)?;
    let run = |command: &mut Command| -> Result<(), Box<dyn Error>> {
        if command.status()?.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
    };
    let (mut mkfs, mut mount) = (Times::new(), Times::new());
    for _ in 0..count {
        let start = Instant::now();
        File::create(&image)?.set_len(ResourceLimits::WORKSPACE_DEFAULT.disk.bytes())?;
        let options = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-E", options]).arg(&image))?;
        mkfs.push(start.elapsed());
        let start = Instant::now();
        run(Command::new("mount").args(["-o", "loop,noinit_itable"]).args([&image, &point]))?;
        mount.push(start.elapsed());
        run(Command::new("umount").arg(&point))?;
        std::fs::remove_file(&image)?;
    }
    Ok((mkfs, mount))
}

/// Prints one row and answers its median in milliseconds.
fn print_row(name: &str, mut times: Times) -> f64 {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    println!("{name:>20}  p50 {:>7.2} ms  p95 {:>7.2} ms  min {:>7.2} ms", at(50), at(95), at(0));
    at(50)
}
