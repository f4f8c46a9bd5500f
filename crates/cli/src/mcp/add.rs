//! `emergent mcp add`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, RegisterMcpServer, RequestedLimits, RequestedVolume};
use emergent_types::{
    ByteSize, Cpu, IsolationLevel, NetworkMode, ProviderChoice, RestartPolicy, ServerHealth, ServerMode,
};

use super::view;
use crate::exit::Failure;
use crate::named_value::one_of;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name: lower-case letters, digits and hyphens
    name: String,
    /// The image that its sandbox starts from
    #[arg(long)]
    image: Option<String>,
    /// The provider to use and no other, or auto
    #[arg(long)]
    provider: Option<ProviderChoice>,
    /// An environment variable of its program; may be repeated. Without a value it is taken from here
    #[arg(long = "env", short = 'e', value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    /// A volume that outlives its sandbox; may be repeated
    #[arg(long = "volume", short = 'v', value_name = "NAME:PATH[:SIZE]")]
    volumes: Vec<String>,
    /// What happens when its program ends
    #[arg(long, value_parser = one_of::<RestartPolicy>(RestartPolicy::ALL.iter().map(|policy| policy.as_str())))]
    restart: Option<RestartPolicy>,
    /// Who shares its program
    #[arg(long, value_parser = one_of::<ServerMode>(ServerMode::ALL.iter().map(|mode| mode.as_str())))]
    mode: Option<ServerMode>,
    /// One call at a time
    #[arg(long)]
    serialize: bool,
    /// The port of a server that speaks HTTP itself and has no stdio bridge
    #[arg(long)]
    port: Option<u16>,
    /// Where such a server is spoken to [default: /mcp]
    #[arg(long, requires = "port")]
    path: Option<String>,
    /// A tool that may be used, and no other but those named so; may be repeated
    #[arg(long = "allow-tool", value_name = "TOOL")]
    allow: Vec<String>,
    /// A tool that may not be used; may be repeated
    #[arg(long = "deny-tool", value_name = "TOOL")]
    deny: Vec<String>,
    /// How long a call may take, in milliseconds [default: 30000]
    #[arg(long, value_name = "MS")]
    call_timeout: Option<u64>,
    /// Processors [default: 0.5]
    #[arg(long)]
    cpu: Option<Cpu>,
    /// Memory [default: 512M]
    #[arg(long)]
    memory: Option<ByteSize>,
    /// Everything it can write [default: 1G]
    #[arg(long)]
    disk: Option<ByteSize>,
    /// What it can reach
    #[arg(long, value_parser = one_of::<NetworkMode>(NetworkMode::ALL.iter().map(|mode| mode.as_str())))]
    network: Option<NetworkMode>,
    /// The weakest isolation that will do
    #[arg(long, value_parser = one_of::<IsolationLevel>(IsolationLevel::ALL.iter().map(|level| level.as_str())))]
    min_isolation: Option<IsolationLevel>,
    /// The program and its arguments; where not said, what the image's author wants to be run
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Add {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let limits = RequestedLimits { cpu: self.cpu, memory: self.memory, disk: self.disk };
        let named = self.cpu.is_some() || self.memory.is_some() || self.disk.is_some();
        let request = RegisterMcpServer {
            name: self.name,
            image: self.image,
            command: (!self.command.is_empty()).then_some(self.command),
            provider: self.provider,
            stdio_bridge: self.port.map(|_| false),
            port: self.port,
            path: self.path,
            restart_policy: self.restart,
            mode: self.mode,
            serialize: self.serialize,
            tools_allow: (!self.allow.is_empty()).then_some(self.allow),
            tools_deny: self.deny,
            call_timeout_ms: self.call_timeout,
            resource_limits: named.then_some(limits),
            environment: self.environment.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
            volumes: self.volumes.iter().map(|text| volume(text)).collect::<Result<_, _>>()?,
            network: self.network,
            min_isolation: self.min_isolation,
        };
        let server = client.register_mcp_server(&request).await?;
        output.result(&server, view::details);
        if server.health != ServerHealth::Ok {
            output.hint(&format!("it is not ready yet; `emergent mcp logs {}` tells more", server.name));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A variable, with the value it has here where none is given: so secrets stay out of the command line.
fn variable(text: &str) -> Result<(String, String), Failure> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    match std::env::var(text) {
        Ok(value) => Ok((text.to_owned(), value)),
        Err(_) => Err(Failure::Usage("--env: a variable without a value must be set here")),
    }
}

fn volume(text: &str) -> Result<RequestedVolume, Failure> {
    let wrong = Failure::Usage("--volume: expected NAME:PATH or NAME:PATH:SIZE, such as data:/data:1G");
    let mut parts = text.splitn(3, ':');
    let (Some(name), Some(target)) = (parts.next(), parts.next()) else { return Err(wrong) };
    let size = match parts.next().map(str::parse) {
        None => None,
        Some(Ok(size)) => Some(size),
        Some(Err(_)) => return Err(wrong),
    };
    Ok(RequestedVolume { name: name.to_owned(), target: target.to_owned(), size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read() {
        let made = volume("data:/data:64M").unwrap();
        assert_eq!((made.name.as_str(), made.target.as_str()), ("data", "/data"));
        assert_eq!(made.size, Some(ByteSize::from_mib(64)));
        assert_eq!(volume("data:/data").unwrap().size, None);
        assert!(volume("data").is_err() && volume("data:/data:much").is_err());
    }

    #[test]
    fn variables_are_read() {
        assert_eq!(variable("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        assert_eq!(variable("A=").unwrap(), ("A".to_owned(), String::new()));
        assert!(variable("A_VARIABLE_THAT_NOBODY_HAS_SET").is_err());
    }
}
