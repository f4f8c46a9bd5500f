//! A server that makes sandboxes, says so, and then does nothing until it is killed; or one that takes a copy.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::{ByteSize, Cpu, NetworkMode, ResourceLimits, WorkspaceId};

type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn main(data_dir: &str, installation: &str, workspaces: &[&str]) -> ExitCode {
    finish(run(data_dir, installation, async |provider| {
        for workspace in workspaces {
            let spec = spec(workspace.parse()?);
            provider.create(&spec).await?;
            println!("{}", spec.id);
            std::io::stdout().flush()?;
        }
        std::future::pending::<()>().await;
        Ok(())
    }))
}

pub(crate) fn take_snapshot(data_dir: &str, installation: &str, workspace: &str, snapshot: &str) -> ExitCode {
    finish(run(data_dir, installation, async |provider| {
        provider.snapshot(snapshot.parse()?, &spec(workspace.parse()?)).await?;
        Ok(())
    }))
}

fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(data_dir: &str, installation: &str, work: impl AsyncFnOnce(&LocalProvider) -> Outcome) -> Outcome {
    let own_program = PathBuf::from("/proc/self/exe");
    let provider = LocalProvider::new(Options {
        data_dir: data_dir.into(),
        installation: installation.parse()?,
        agent: AgentSource::Path(own_program.clone()),
        helper: HelperCommand { program: own_program, args: Vec::new() },
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(&provider))
}

fn spec(id: WorkspaceId) -> SandboxSpec {
    SandboxSpec {
        id,
        limits: ResourceLimits {
            cpu: Cpu::from_millis(1000),
            memory: ByteSize::from_mib(64),
            disk: ByteSize::from_mib(32),
        },
        network: NetworkMode::Isolated,
        base_image: None,
        named: NamedDemands::default(),
        volumes: Vec::new(),
        agent_key: AgentKey::derive(b"test", id),
    }
}
