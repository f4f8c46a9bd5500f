//! Finds the server, and the token to show it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use emergent_client::Client;

use crate::arguments::CommonArguments;
use crate::exit::Failure;
use crate::private_file;
use crate::settings::environment::{EMERGENT_TOKEN, EMERGENT_URL, Environment};
use crate::settings::{Layer, Settings, data_dir};

/// A client of the server that is meant: the one that is named, else the one that uses the
/// data folder.
pub(crate) fn connect(common: &CommonArguments) -> Result<Client, Failure> {
    let environment = Environment::of_process();
    let named = |flag: &Option<String>, variable| {
        flag.clone().or_else(|| environment.text(variable).map(str::to_owned))
    };
    match (named(&common.url, EMERGENT_URL), named(&common.token, EMERGENT_TOKEN)) {
        (Some(url), Some(token)) => Ok(Client::new(&url, &token)?),
        (url, token) => {
            // Commands do not listen anywhere, so whether that would be safe is not theirs to say.
            let flags = Layer { allow_plain_http: Some(true), ..Layer::default() };
            let settings = Settings::load(common, flags).map_err(anyhow::Error::from)?;
            let url = url.unwrap_or_else(|| url_of(&settings));
            let token = token.map_or_else(|| admin_token(&settings.data_dir), Ok)?;
            Ok(Client::new(&url, &token)?)
        }
    }
}

/// Runs a command that talks to the server.
pub(crate) fn run(
    common: &CommonArguments,
    command: impl AsyncFnOnce(Client) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let client = connect(common)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = runtime.block_on(command(client));
    // A read of the terminal cannot be taken back, and must not be waited for.
    runtime.shutdown_background();
    ended
}

/// Where the server of the data folder listens. It says so itself, so this is right even
/// where a flag of its own changed the port.
fn url_of(settings: &Settings) -> String {
    let written = private_file::read(&data_dir::listen(&settings.data_dir)).ok().flatten();
    written.unwrap_or_else(|| format!("http://{}", settings.listen))
}

fn admin_token(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir::admin_token(data_dir);
    let token = private_file::read(&path)
        .context("no token: give one with --token or EMERGENT_TOKEN, or run this as the server's user")?;
    token.ok_or_else(|| {
        anyhow!(
            "no token: {} does not exist; give one with --token or EMERGENT_TOKEN, or name the server's folder \
             with --data-dir",
            path.display()
        )
    })
}
