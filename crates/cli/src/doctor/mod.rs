//! `emergent doctor`: looks at this machine and says what works, what is missing, what that
//! costs, and how to get it.
//!
//! What can be seen is looked at, piece by piece, so that everything missing is told at once.
//! The verdict is not concluded from that but tried: the embedded provider makes a real
//! sandbox and removes it.

mod data_folder;
mod finding;
mod kernel;
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
use crate::settings::{Layer, Settings};

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
    let settings = Settings::load(common, flags).map_err(anyhow::Error::from)?;
    let mut checks = vec![
        kernel::version(),
        kernel::root(),
        kernel::user_namespaces(),
        kernel::control_groups(),
        kernel::loop_devices(),
        kernel::ext4(),
        kernel::seccomp(),
        tools::mkfs(),
        tools::shell(),
        data_folder::check(&settings.data_dir),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    checks.push(runtime.block_on(trial::check(&settings.data_dir)));
    checks.push(runtime.block_on(server::check(common)));

    let report = Report { ok: checks.iter().all(|finding| finding.level != Level::Missing), checks };
    output.result(&report, to_text);
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
