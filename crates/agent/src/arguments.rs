//! The command line. By hand: an argument parser would be a third of the binary.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use emergent_agent::init::{AgentOptions, Listen, Options};
use emergent_agent::{Config, Limits, Scope};

pub(crate) const USAGE: &str = "\
usage: emergent-agent init [--listen PATH | --listen-fd N] [--workspace DIR] [--silence-limit SECONDS]
                           [--loopback] [--drop-capabilities] [--seccomp] [--stdio] [--image-environment]
                           [--nameserver ADDRESS]... [--memory-limit BYTES] [--process-limit N]
       emergent-agent serve --listen-fd N [--workspace DIR] [--silence-limit SECONDS] [--namespace]
                           [--first-connection N,N] [--image-environment] [--memory-limit BYTES]
                           [--process-limit N] [--kills-fd N] [--lease-fd N] (started by init)
       emergent-agent relay PATH
       emergent-agent measure FOLDER...
       emergent-agent copy FROM TO [FROM TO]...
       emergent-agent probe ADDRESS:PORT...
       emergent-agent version";

const DEFAULT_SOCKET: &str = "/run/emergent/agent.sock";
const DEFAULT_WORKSPACE: &str = "/workspace";

/// What this process is to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// PID 1.
    Init(Options),
    /// The agent, under init.
    Serve(AgentOptions),
    /// Standard input and output to the agent's socket.
    Relay { socket: PathBuf },
    /// Count what is below these folders.
    Measure { folders: Vec<PathBuf> },
    /// Copy each of the first folders into the second.
    Copy { pairs: Vec<(PathBuf, PathBuf)> },
    /// Try to connect to each of these.
    Probe { targets: Vec<SocketAddr> },
    /// Say which build this is.
    Version,
}

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("no mode is given")]
    NoMode,
    #[error("{0:?} is not known here")]
    Unknown(OsString),
    #[error("{0} needs a value")]
    NoValue(&'static str),
    #[error("{0:?} is not a number that fits here")]
    NotANumber(OsString),
    #[error("{0:?} is not an address")]
    NotAnAddress(OsString),
}

pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Mode, ArgumentError> {
    let mode = arguments.next().ok_or(ArgumentError::NoMode)?;
    let parsed = match mode.to_str() {
        Some("init") => return parse_init(arguments),
        Some("serve") => return parse_serve(arguments),
        Some("measure") => return Ok(Mode::Measure { folders: arguments.map(PathBuf::from).collect() }),
        Some("copy") => {
            let mut pairs = Vec::new();
            while let Some(from) = arguments.next() {
                pairs.push((from.into(), value("copy", &mut arguments)?.into()));
            }
            return Ok(Mode::Copy { pairs });
        }
        Some("probe") => {
            return arguments.map(address).collect::<Result<_, _>>().map(|targets| Mode::Probe { targets });
        }
        Some("relay") => Mode::Relay { socket: value("relay", &mut arguments)?.into() },
        Some("version") => Mode::Version,
        _ => return Err(ArgumentError::Unknown(mode)),
    };
    match arguments.next() {
        Some(surplus) => Err(ArgumentError::Unknown(surplus)),
        None => Ok(parsed),
    }
}

fn parse_init(mut arguments: impl Iterator<Item = OsString>) -> Result<Mode, ArgumentError> {
    let mut options = Options {
        listen: Listen::Path(DEFAULT_SOCKET.into()),
        workspace: DEFAULT_WORKSPACE.into(),
        silence_limit: Config::SILENCE_LIMIT,
        loopback: false,
        drop_capabilities: false,
        seccomp: false,
        stdio: false,
        nameservers: Vec::new(),
        image_environment: false,
        limits: Limits::default(),
    };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--listen") => options.listen = Listen::Path(value("--listen", &mut arguments)?.into()),
            Some("--listen-fd") => {
                options.listen = Listen::Descriptor(number("--listen-fd", &mut arguments)?);
            }
            Some("--workspace") => options.workspace = value("--workspace", &mut arguments)?.into(),
            Some("--silence-limit") => options.silence_limit = seconds(&mut arguments)?,
            Some("--loopback") => options.loopback = true,
            Some("--drop-capabilities") => options.drop_capabilities = true,
            Some("--seccomp") => options.seccomp = true,
            Some("--stdio") => options.stdio = true,
            Some("--nameserver") => {
                options.nameservers.push(address(value("--nameserver", &mut arguments)?)?);
            }
            Some("--image-environment") => options.image_environment = true,
            Some("--memory-limit") => {
                options.limits.memory = Some(number("--memory-limit", &mut arguments)?);
            }
            Some("--process-limit") => {
                options.limits.processes = Some(number("--process-limit", &mut arguments)?);
            }
            _ => return Err(ArgumentError::Unknown(argument)),
        }
    }
    Ok(Mode::Init(options))
}

fn parse_serve(mut arguments: impl Iterator<Item = OsString>) -> Result<Mode, ArgumentError> {
    let mut listener = None;
    let mut options = AgentOptions {
        listener: -1,
        workspace: DEFAULT_WORKSPACE.into(),
        scope: Scope::Commands,
        silence_limit: Config::SILENCE_LIMIT,
        first_connection: None,
        image_environment: false,
        limits: Limits::default(),
        kills: None,
        lease: None,
    };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--listen-fd") => listener = Some(number("--listen-fd", &mut arguments)?),
            Some("--workspace") => options.workspace = value("--workspace", &mut arguments)?.into(),
            Some("--silence-limit") => options.silence_limit = seconds(&mut arguments)?,
            Some("--kills-fd") => options.kills = Some(number("--kills-fd", &mut arguments)?),
            Some("--lease-fd") => options.lease = Some(number("--lease-fd", &mut arguments)?),
            Some("--namespace") => options.scope = Scope::Namespace,
            Some("--first-connection") => options.first_connection = Some(pair(&mut arguments)?),
            Some("--image-environment") => options.image_environment = true,
            Some("--memory-limit") => {
                options.limits.memory = Some(number("--memory-limit", &mut arguments)?);
            }
            Some("--process-limit") => {
                options.limits.processes = Some(number("--process-limit", &mut arguments)?);
            }
            _ => return Err(ArgumentError::Unknown(argument)),
        }
    }
    options.listener = listener.ok_or(ArgumentError::NoValue("--listen-fd"))?;
    Ok(Mode::Serve(options))
}

fn value(
    name: &'static str,
    arguments: &mut impl Iterator<Item = OsString>,
) -> Result<OsString, ArgumentError> {
    arguments.next().ok_or(ArgumentError::NoValue(name))
}

fn number<N: FromStr>(
    name: &'static str,
    arguments: &mut impl Iterator<Item = OsString>,
) -> Result<N, ArgumentError> {
    let text = value(name, arguments)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or(ArgumentError::NotANumber(text))
}

/// An address, with a port where one belongs to it.
fn address<A: FromStr>(text: OsString) -> Result<A, ArgumentError> {
    let address = text.to_str().and_then(|text| text.parse().ok());
    address.ok_or(ArgumentError::NotAnAddress(text))
}

/// Two descriptors with a comma between them.
fn pair(arguments: &mut impl Iterator<Item = OsString>) -> Result<(RawFd, RawFd), ArgumentError> {
    let text = value("--first-connection", arguments)?;
    let numbers = text.to_str().and_then(|text| {
        let (first, second) = text.split_once(',')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    });
    numbers.ok_or(ArgumentError::NotANumber(text))
}

fn seconds(arguments: &mut impl Iterator<Item = OsString>) -> Result<Duration, ArgumentError> {
    // Bounded, so that it can be added to any point in time.
    number::<u32>("--silence-limit", arguments).map(|number| Duration::from_secs(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Mode, ArgumentError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn every_mode() {
        let defaults = Options {
            listen: Listen::Path("/run/emergent/agent.sock".into()),
            workspace: "/workspace".into(),
            silence_limit: Duration::from_secs(600),
            loopback: false,
            drop_capabilities: false,
            seccomp: false,
            stdio: false,
            nameservers: Vec::new(),
            image_environment: false,
            limits: Limits::default(),
        };
        let check = |line: &str, expect: Mode| assert_eq!(parsed(line), Ok(expect), "{line}");
        check("init", Mode::Init(defaults.clone()));
        check(
            "init --listen-fd 7 --workspace /w --silence-limit 5 --loopback --drop-capabilities --seccomp",
            Mode::Init(Options {
                listen: Listen::Descriptor(7),
                workspace: "/w".into(),
                silence_limit: Duration::from_secs(5),
                loopback: true,
                drop_capabilities: true,
                seccomp: true,
                ..defaults.clone()
            }),
        );
        check(
            "init --stdio --image-environment",
            Mode::Init(Options { stdio: true, image_environment: true, ..defaults.clone() }),
        );
        check(
            "init --nameserver 10.1.0.1 --nameserver fd00::1",
            Mode::Init(Options {
                nameservers: vec![[10, 1, 0, 1].into(), "fd00::1".parse().unwrap()],
                ..defaults.clone()
            }),
        );
        let limits = Limits { memory: Some(1 << 30), processes: Some(256) };
        check(
            "init --memory-limit 1073741824 --process-limit 256",
            Mode::Init(Options { limits, ..defaults.clone() }),
        );
        check("init --listen /s", Mode::Init(Options { listen: Listen::Path("/s".into()), ..defaults }));
        check(
            "serve --listen-fd 3 --namespace --first-connection 4,5 --image-environment",
            Mode::Serve(AgentOptions {
                listener: 3,
                workspace: "/workspace".into(),
                scope: Scope::Namespace,
                silence_limit: Duration::from_secs(600),
                first_connection: Some((4, 5)),
                image_environment: true,
                limits: Limits::default(),
                kills: None,
                lease: None,
            }),
        );
        check(
            "serve --listen-fd 3 --memory-limit 1073741824 --process-limit 256 --kills-fd 6 --lease-fd 7",
            Mode::Serve(AgentOptions {
                listener: 3,
                workspace: "/workspace".into(),
                scope: Scope::Commands,
                silence_limit: Duration::from_secs(600),
                first_connection: None,
                image_environment: false,
                limits,
                kills: Some(6),
                lease: Some(7),
            }),
        );
        check("relay /s", Mode::Relay { socket: "/s".into() });
        check(
            "copy /a /b /c /d",
            Mode::Copy { pairs: vec![("/a".into(), "/b".into()), ("/c".into(), "/d".into())] },
        );
        check("measure /a /b", Mode::Measure { folders: vec!["/a".into(), "/b".into()] });
        check("probe 10.1.0.1:80", Mode::Probe { targets: vec![([10, 1, 0, 1], 80).into()] });
        check("version", Mode::Version);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |line: &str, expect: ArgumentError| assert_eq!(parsed(line), Err(expect), "{line}");
        check("", ArgumentError::NoMode);
        check("frobnicate", ArgumentError::Unknown("frobnicate".into()));
        check("init --sec", ArgumentError::Unknown("--sec".into()));
        check("init --listen", ArgumentError::NoValue("--listen"));
        check("init --listen-fd x", ArgumentError::NotANumber("x".into()));
        check("init --nameserver 10.1", ArgumentError::NotAnAddress("10.1".into()));
        check("probe 10.1.0.1", ArgumentError::NotAnAddress("10.1.0.1".into()));
        check("init --memory-limit 1G", ArgumentError::NotANumber("1G".into()));
        check("serve", ArgumentError::NoValue("--listen-fd"));
        check("serve --first-connection 4", ArgumentError::NotANumber("4".into()));
        check("relay", ArgumentError::NoValue("relay"));
        check("version now", ArgumentError::Unknown("now".into()));
    }
}
