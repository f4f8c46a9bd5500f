//! What is known of `runsc`: by what Docker was told of it, and by its own word where it is on this host.

use std::path::Path;
use std::time::Duration;

use bollard::models::Runtime as Registered;
use emergent_types::RuntimeFacts;

/// How long it may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Releases are named after their day. Before this one a namespace of a container's is taken for the host's
/// on new kernels.
const NETWORK_FIXED: u32 = 20_240_801;

/// The first release whose default is systrap; before it, ptrace.
const SYSTRAP_DEFAULT: u32 = 20_230_501;

/// Looks at the runtime that Docker knows by this name. The program is only asked where it is Docker's own
/// host's: a path of another machine means nothing here.
pub(crate) async fn look(name: &str, registered: &Registered, is_here: bool) -> RuntimeFacts {
    let version = match &registered.path {
        Some(path) if is_here => version_of(Path::new(path)).await,
        _ => None,
    };
    let arguments = registered.runtime_args.clone().unwrap_or_default();
    facts(name, version, &arguments)
}

fn facts(name: &str, version: Option<String>, arguments: &[String]) -> RuntimeFacts {
    let release = version.as_deref().and_then(release_day);
    let platform = option(arguments, "platform").or_else(|| {
        // Only a release whose default is known says it by saying nothing.
        Some(if release? >= SYSTRAP_DEFAULT { "systrap" } else { "ptrace" }.to_owned())
    });
    let network = option(arguments, "network").unwrap_or_else(|| "sandbox".to_owned());
    RuntimeFacts { name: name.to_owned(), version, platform, network: Some(network) }
}

/// What is wrong with it, and what breaks for that; for people.
pub(crate) fn flaw(runtime: &RuntimeFacts) -> Option<String> {
    let version = runtime.version.as_deref()?;
    let release = release_day(version)?;
    if release < SYSTRAP_DEFAULT {
        return Some(format!(
            "{} {version} is too old: it has no platform systrap, and with ptrace every call of a program is \
             several times slower; install a release of May 2023 or later",
            runtime.name
        ));
    }
    if release < NETWORK_FIXED && runtime.network.as_deref() != Some("host") {
        return Some(format!(
            "{} {version} is too old: on new kernels it takes the network namespace of a container for the host's \
             and does not start it (gVisor #10704); install a release of August 2024 or later, or register it with \
             --network=host",
            runtime.name
        ));
    }
    None
}

/// The value of `--name=value` or `--name value`, or the same with one hyphen; the last one counts.
fn option(arguments: &[String], name: &str) -> Option<String> {
    let mut found = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        match word.split_once('=') {
            Some((left, value)) if left == name => found = Some(value.to_owned()),
            None if word == name => found = words.next().cloned(),
            _ => {}
        }
    }
    found
}

/// `release-20240729.0` is of 2024-07-29, and so is `0.0~20240729.0`, as Debian has it.
fn release_day(version: &str) -> Option<u32> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit());
    numbers.find(|number| number.len() == 8 && number.starts_with("20"))?.parse().ok()
}

async fn version_of(program: &Path) -> Option<String> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_LIMIT, command.output()).await.ok()?.ok()?;
    said_version(&String::from_utf8_lossy(&output.stdout))
}

/// `runsc version release-20240729.0`, and a line on the specification it follows.
fn said_version(said: &str) -> Option<String> {
    let first = said.lines().next()?;
    let version = first.strip_prefix("runsc version ")?.trim();
    (!version.is_empty() && version.len() < 64).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(version: &str, arguments: &[&str]) -> RuntimeFacts {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        facts("runsc", said_version(version), &arguments)
    }

    #[test]
    fn a_version_is_what_it_says_first() {
        assert_eq!(
            said_version("runsc version release-20240729.0\nspec: 1.1.0\n").as_deref(),
            Some("release-20240729.0")
        );
        assert_eq!(said_version("runc version 1.1.5"), None);
        assert_eq!(said_version(""), None);
        assert_eq!(release_day("release-20240729.0"), Some(20_240_729));
        assert_eq!(release_day("0.0~20240729.0"), Some(20_240_729));
        assert_eq!(release_day("VERSION_MISSING"), None);
    }

    #[test]
    fn what_docker_was_told_counts_and_defaults_where_they_are_known() {
        let check = |version: &str, arguments: &[&str], platform: Option<&str>, network: &str| {
            let seen = seen(version, arguments);
            assert_eq!(
                (seen.platform.as_deref(), seen.network.as_deref()),
                (platform, Some(network)),
                "{arguments:?}"
            );
        };
        check("runsc version release-20240729.0", &[], Some("systrap"), "sandbox");
        check("runsc version release-20220103.0", &[], Some("ptrace"), "sandbox");
        check("", &[], None, "sandbox");
        check("", &["--platform=kvm", "--network=host"], Some("kvm"), "host");
        check(
            "",
            &["-platform", "ptrace", "--debug", "--network=none", "--network=sandbox"],
            Some("ptrace"),
            "sandbox",
        );
    }

    #[test]
    fn too_old_a_release_is_named_with_what_it_breaks() {
        let check = |version: &str, arguments: &[&str], expect: Option<&str>| {
            let flaw = flaw(&seen(version, arguments));
            assert_eq!(flaw.is_some(), expect.is_some(), "{flaw:?}");
            assert!(flaw.zip(expect).is_none_or(|(flaw, expect)| flaw.contains(expect)));
        };
        check("runsc version release-20240729.0", &["--network=host"], None);
        check("runsc version release-20240729.0", &[], Some("#10704"));
        check("runsc version 0.0~20240729.0", &[], Some("#10704"));
        check("runsc version release-20250101.0", &[], None);
        check("runsc version release-20220103.0", &["--network=host"], Some("systrap"));
        check("", &[], None);
    }
}
