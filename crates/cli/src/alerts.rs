//! `emergent alerts`

use std::process::ExitCode;

use emergent_client::{Alert, AlertList};

use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;
use crate::output::{Output, table};
use crate::workspace::view::minute;

/// Shows what somebody should look at now.
pub(crate) fn run(common: &CommonArguments, output: Output) -> Result<ExitCode, Failure> {
    connection::run(common, async |client| {
        output.result(&client.alerts().await?, rows);
        Ok(ExitCode::SUCCESS)
    })
}

fn rows(list: &AlertList) -> String {
    if list.items.is_empty() {
        return "there are no alerts".to_owned();
    }
    let row = |alert: &Alert| {
        vec![alert.severity.clone(), alert.kind.clone(), minute(alert.since), alert.message.clone()]
    };
    table(&["SEVERITY", "KIND", "SINCE", "MESSAGE"], list.items.iter().map(row))
}
