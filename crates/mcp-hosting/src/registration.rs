//! What a server is registered with: as it was asked for, and as it is meant.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use emergent_provider::VolumeMount;
use emergent_store::{Environment, McpServerRow};
use emergent_types::{
    ByteSize, Cpu, IsolationLevel, NetworkMode, ProviderChoice, RestartPolicy, ServerMode, WorkspaceId,
};
use emergent_workspaces::{HostedServer, NewWorkspace, RequestedLimits};

const MAX_NAME: usize = 63;
const MAX_WORDS: usize = 256;
const MAX_COMMAND_BYTES: usize = 32 * 1024;
const MAX_IMAGE: usize = 512;
const MAX_PATH: usize = 512;
const MAX_TOOLS: usize = 1000;
const MAX_TOOL_NAME: usize = 256;
const MAX_VARIABLES: usize = 256;
const MAX_ENVIRONMENT_BYTES: usize = 128 * 1024;
const MAX_VOLUMES: usize = 8;
const DEFAULT_TIMEOUT_MS: u32 = 30_000;
const MAX_TIMEOUT_MS: u64 = 60 * 60 * 1000;
const DEFAULT_VOLUME: ByteSize = ByteSize::from_gib(1);

/// A server as somebody asks for it. What is `None` is the default.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// Names it: `[a-z0-9-]{1,63}`.
    pub name: Option<String>,
    /// `mcp_server`, if anything.
    pub container_type: Option<String>,
    /// `persistent`, if anything.
    pub lifecycle: Option<String>,
    /// The image that its sandbox starts from.
    pub image: Option<String>,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// Which provider.
    pub provider: Option<String>,
    /// Whether it speaks through its standard streams.
    pub stdio_bridge: Option<bool>,
    /// What happens when its program ends.
    pub restart_policy: Option<String>,
    /// Who shares its program.
    pub mode: Option<String>,
    /// One call at a time.
    pub serialize: Option<bool>,
    /// The tools that may be used.
    pub tools_allow: Option<Vec<String>>,
    /// The tools that may not be used.
    pub tools_deny: Option<Vec<String>>,
    /// How long a call may take.
    pub call_timeout_ms: Option<u64>,
    /// Where it listens, if it speaks HTTP itself.
    pub port: Option<u64>,
    /// Where it is spoken to there.
    pub path: Option<String>,
    /// What its sandbox may use.
    pub limits: LimitsRequest,
    /// Environment variables of its program.
    pub environment: BTreeMap<String, String>,
    /// Volumes that outlive its sandbox.
    pub volumes: Vec<VolumeRequest>,
    /// What its sandbox can reach.
    pub network: Option<String>,
    /// Nothing weaker will do.
    pub min_isolation: Option<String>,
}

/// Limits as text.
#[derive(Debug, Clone, Default)]
pub struct LimitsRequest {
    /// Processor time, such as `0.5`.
    pub cpu: Option<String>,
    /// Memory, such as `512M`.
    pub memory: Option<String>,
    /// Everything it can write, such as `1G`.
    pub disk: Option<String>,
}

/// A volume as somebody asks for it.
#[derive(Debug, Clone, Default)]
pub struct VolumeRequest {
    /// Its name within the installation.
    pub name: String,
    /// Where it is in the sandbox.
    pub target: String,
    /// How large it is made, such as `1G`.
    pub size: Option<String>,
}

/// A field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Every field that is wrong. At least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> =
            self.0.iter().map(|problem| format!("{}: {}", problem.field, problem.reason)).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for Problems {}

impl Registration {
    /// What is asked of `workspaces`, or everything that is wrong.
    pub(crate) fn parse(self) -> Result<NewWorkspace, Problems> {
        let mut checking = Checking::default();
        let check = &mut checking;
        check.word("container_type", self.container_type.as_deref(), "mcp_server");
        check.word("lifecycle", self.lifecycle.as_deref(), "persistent");
        let name = check.name(self.name);
        let image = self.image.filter(|image| check.image(image));
        let named_command = self.command.is_some();
        let command = self.command.and_then(|command| check.command(command));
        if image.is_none() && !named_command {
            check.problem("command", "is needed: without an image nobody knows what to run");
        }
        let provider = check.parsed("provider", self.provider).unwrap_or(ProviderChoice::Auto);
        let stdio_bridge = self.stdio_bridge.unwrap_or(true);
        let mode = check.parsed("mode", self.mode).unwrap_or(ServerMode::Shared);
        let port = match (stdio_bridge, self.port) {
            (true, None) => None,
            (true, Some(_)) => {
                check.problem("port", "only a server with stdio_bridge false listens");
                None
            }
            (false, None) => {
                check.problem("port", "is needed where stdio_bridge is false");
                None
            }
            (false, Some(port)) => check.port(port),
        };
        if stdio_bridge && self.path.is_some() {
            check.problem("path", "only a server with stdio_bridge false listens");
        }
        let limits = RequestedLimits {
            cpu: check.parsed::<Cpu>("resource_limits.cpu", self.limits.cpu),
            memory: check.parsed("resource_limits.memory", self.limits.memory),
            disk: check.parsed("resource_limits.disk", self.limits.disk),
        };
        let now = emergent_store::now();
        let server = McpServerRow {
            id: WorkspaceId::generate(),
            name,
            image: image.clone(),
            command,
            image_defaults: None,
            provider,
            restart_policy: check
                .parsed("restart_policy", self.restart_policy)
                .unwrap_or(RestartPolicy::Always),
            mode,
            serialize: self.serialize.unwrap_or(false),
            stdio_bridge,
            port,
            path: self.path.and_then(|path| check.path(path)),
            tools_allow: self.tools_allow.map(|names| check.tools("tools_allow", names)),
            tools_deny: self.tools_deny.map(|names| check.tools("tools_deny", names)).unwrap_or_default(),
            call_timeout_ms: check
                .call_timeout(self.call_timeout_ms)
                .map_or(DEFAULT_TIMEOUT_MS, NonZeroU32::get),
            environment: Environment::from_iter(check.environment(self.environment)),
            created_at: now,
            updated_at: now,
        };
        let volumes = check.volumes(self.volumes);
        let new = NewWorkspace {
            provider,
            limits,
            min_isolation: check.parsed::<IsolationLevel>("min_isolation", self.min_isolation),
            network: check.parsed::<NetworkMode>("network", self.network),
            base_image: image,
            warm_start: false,
            hosted: Some(HostedServer { server, volumes }),
            ..NewWorkspace::default()
        };
        checking.done(new)
    }
}

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Checking {
    problems: Vec<Problem>,
}

impl Checking {
    pub(crate) fn problem(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.problems.push(Problem { field: field.into(), reason: reason.into() });
    }

    /// What was made, if nothing is wrong.
    pub(crate) fn done<T>(self, made: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(made) } else { Err(Problems(self.problems)) }
    }

    fn word(&mut self, field: &str, given: Option<&str>, only: &str) {
        if given.is_some_and(|given| given != only) {
            self.problem(field, format!("can only be {only:?} here"));
        }
    }

    fn parsed<T: std::str::FromStr<Err: fmt::Display>>(
        &mut self,
        field: &str,
        text: Option<String>,
    ) -> Option<T> {
        match text?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(field, error.to_string());
                None
            }
        }
    }

    fn name(&mut self, name: Option<String>) -> String {
        let Some(name) = name else {
            self.problem("name", "is missing");
            return String::new();
        };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(plain) {
            self.problem("name", "must be 1 to 63 lower-case letters, digits and hyphens");
        } else if name.parse::<WorkspaceId>().is_ok() {
            self.problem("name", "looks like an id, which would name another server");
        }
        name
    }

    fn image(&mut self, image: &str) -> bool {
        let is_one = !image.is_empty()
            && image.len() <= MAX_IMAGE
            && !image.starts_with('-')
            && image.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_one {
            self.problem("image", "is not the name of an image");
        }
        is_one
    }

    pub(crate) fn command(&mut self, command: Vec<String>) -> Option<Vec<String>> {
        let bytes: usize = command.iter().map(String::len).sum();
        let problem = if command.first().is_none_or(String::is_empty) {
            "must name a program"
        } else if command.len() > MAX_WORDS || bytes > MAX_COMMAND_BYTES {
            "is too long"
        } else if command.iter().any(|word| word.contains('\0')) {
            "has a zero byte"
        } else {
            return Some(command);
        };
        self.problem("command", problem);
        None
    }

    pub(crate) fn tools(&mut self, field: &str, names: Vec<String>) -> Vec<String> {
        let is_name = |name: &String| !name.is_empty() && name.len() <= MAX_TOOL_NAME && !name.contains('\0');
        if names.len() > MAX_TOOLS || !names.iter().all(is_name) {
            self.problem(field, format!("must be up to {MAX_TOOLS} names of 1 to {MAX_TOOL_NAME} bytes"));
        }
        names
    }

    pub(crate) fn call_timeout(&mut self, given: Option<u64>) -> Option<NonZeroU32> {
        let given = given?;
        let timeout = u32::try_from(given).ok().and_then(NonZeroU32::new).filter(|_| given <= MAX_TIMEOUT_MS);
        if timeout.is_none() {
            self.problem("call_timeout_ms", format!("must be between 1 and {MAX_TIMEOUT_MS}, not {given}"));
        }
        timeout
    }

    pub(crate) fn port(&mut self, port: u64) -> Option<u16> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0);
        if port.is_none() {
            self.problem("port", "must be between 1 and 65535");
        }
        port
    }

    pub(crate) fn path(&mut self, path: String) -> Option<String> {
        let is_path = path.starts_with('/')
            && path.len() <= MAX_PATH
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
            && path.parse::<http::uri::PathAndQuery>().is_ok();
        if !is_path {
            self.problem(
                "path",
                format!("must begin with / and be the path of a URL, of up to {MAX_PATH} bytes"),
            );
        }
        is_path.then_some(path)
    }

    pub(crate) fn environment(&mut self, variables: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        if variables.len() > MAX_VARIABLES || bytes > MAX_ENVIRONMENT_BYTES {
            self.problem(
                "environment",
                format!("can have {MAX_VARIABLES} variables and {MAX_ENVIRONMENT_BYTES} bytes at most"),
            );
        }
        for (name, value) in &variables {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let is_name = name.bytes().next().is_some_and(|first| letters(first) && !first.is_ascii_digit())
                && name.bytes().all(letters);
            if !is_name {
                let shown: String = name.chars().take(64).collect();
                self.problem(format!("environment.{shown}"), "is not the name of a variable");
            } else if value.contains('\0') {
                self.problem(format!("environment.{name}"), "has a zero byte");
            }
        }
        variables
    }

    fn volumes(&mut self, asked: Vec<VolumeRequest>) -> Vec<VolumeMount> {
        if asked.len() > MAX_VOLUMES {
            self.problem("volumes", format!("can be {MAX_VOLUMES} at most"));
        }
        let mut volumes: Vec<VolumeMount> = Vec::new();
        for (index, volume) in asked.into_iter().enumerate() {
            let size = self.parsed(&format!("volumes[{index}].size"), volume.size).unwrap_or(DEFAULT_VOLUME);
            let made = volume.name.parse().and_then(|name| VolumeMount::new(name, &volume.target, size));
            let twice = |made: &VolumeMount| {
                volumes.iter().any(|other| other.name() == made.name() || other.target() == made.target())
            };
            match made {
                Ok(made) if twice(&made) => {
                    self.problem(format!("volumes[{index}]"), "has the name or the place of another");
                }
                Ok(made) => volumes.push(made),
                Err(error) => self.problem(format!("volumes[{index}]"), error.to_string()),
            }
        }
        volumes
    }
}

#[cfg(test)]
mod tests;
