//! `emergent doctor`: looks at this machine and says what works, what is missing, what that
//! costs, and how to get it.
//!
//! What can be seen is looked at, piece by piece, so that everything missing is told at once.
//! The verdict is not concluded from that but tried: the embedded provider makes a real
//! sandbox and removes it.

mod data_folder;
mod docker;
mod finding;
mod kernel;
mod network;
mod server;
mod tools;
mod trial;

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use self::finding::{Finding, Level};
use crate::arguments::CommonArguments;
use crate::exit::Failure;
use crate::output::Output;
use crate::settings::{self, Layer, Settings, SettingsError};

/// Everything that was found out.
#[derive(Serialize)]
struct Report {
    /// Whether workspaces can be made here.
    ok: bool,
    checks: Vec<Finding>,
}

/// Looks at this machine. Exits 1 when the embedded provider cannot work.
pub(crate) fn run(common: &CommonArguments, output: Output) -> Result<ExitCode, Failure> {
    // Looking does not listen, so whether that would be safe does not matter.
    let flags = Layer { allow_plain_http: Some(true), ..Layer::default() };
    let settings = Settings::load(common, flags);
    // What else there is to say does not depend on them.
    let (data_dir, max_concurrent) = match &settings {
        Ok(settings) => (Some(settings.data_dir.as_path()), settings.max_concurrent),
        Err(_) => (None, settings::DEFAULT_MAX_CONCURRENT),
    };
    let mut checks = vec![
        kernel::version(),
        kernel::root(),
        kernel::user_namespaces(),
        kernel::seccomp(),
        kernel::inotify(max_concurrent),
        tools::shell(),
    ];
    checks.extend(data_dir.map(data_folder::check));
    checks.extend(settings.as_ref().err().map(unusable));
    // Without root none of these could be used.
    if kernel::is_root() {
        checks.extend([kernel::control_groups(), kernel::loop_devices(), kernel::ext4(), tools::mkfs()]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    checks.push(runtime.block_on(trial::check(data_dir)));
    checks.push(network::check());
    checks.extend(runtime.block_on(docker::check(settings.as_ref().ok().map(|settings| &settings.gvisor))));
    checks.push(runtime.block_on(server::check(common)));

    let report = Report { ok: checks.iter().all(|finding| finding.level != Level::Missing), checks };
    output.result(&report, to_text);
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn unusable(error: &SettingsError) -> Finding {
    Finding::missing(
        "settings",
        error.to_string(),
        "the server does not start",
        "correct the flag, the variable or the line of emergent.toml that is named",
    )
}

fn to_text(report: &Report) -> String {
    let mut text: String = report.checks.iter().map(Finding::to_text).collect();
    text.push_str(if report.ok {
        "\nWorkspaces can be made here."
    } else {
        "\nWorkspaces cannot be made here yet: see what is marked with ✗."
    });
    text
}
