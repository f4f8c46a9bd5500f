//! Prints how long each step of a launch takes: `launch_times HELPER AGENT [COUNT]`, as root.

use std::time::{Duration, Instant};

use emergent_agent_client::AgentKey;
use emergent_provider::{SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LaunchStep, LocalProvider, Options};
use emergent_types::{InstallationId, NetworkMode, ResourceLimits, WorkspaceId};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [helper, agent, count @ ..] = &arguments[..] else {
        return Err("launch_times HELPER AGENT [COUNT]".into());
    };
    let count: usize = count.first().map_or(Ok(50), |count| count.parse())?;
    let data_dir = tempfile::tempdir()?;
    let provider = LocalProvider::new(Options {
        data_dir: data_dir.path().to_owned(),
        installation: InstallationId::generate(),
        agent: AgentSource::Path(agent.into()),
        helper: HelperCommand { program: helper.into(), args: Vec::new() },
    });
    println!("{:?}", provider.health().await);

    let (mut creates, mut destroys) = (Vec::new(), Vec::new());
    let mut steps = vec![Vec::new(); LaunchStep::ALL.len()];
    for _ in 0..count {
        let id = WorkspaceId::generate();
        let spec = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            agent_key: AgentKey::derive(b"times", id),
        };
        let start = Instant::now();
        provider.create(&spec).await?;
        creates.push(start.elapsed());
        for timing in provider.latest_launch() {
            if let Some(at) = LaunchStep::ALL.iter().position(|step| *step == timing.step) {
                steps[at].push(Duration::from_micros(timing.micros));
            }
        }
        let start = Instant::now();
        provider.destroy(id).await?;
        destroys.push(start.elapsed());
    }
    for (step, times) in LaunchStep::ALL.iter().zip(steps) {
        print_row(step.as_str(), times);
    }
    print_row("create", creates);
    print_row("destroy", destroys);
    Ok(())
}

fn print_row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    println!("{name:>20}  p50 {:>7.2} ms  p95 {:>7.2} ms  min {:>7.2} ms", at(50), at(95), at(0));
}
