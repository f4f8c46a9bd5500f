//! Whether a server runs, and what its providers say.

use emergent_client::{ClientError, ProviderList};

use super::finding::Finding;
use crate::arguments::CommonArguments;
use crate::connection;
use crate::exit::Failure;

const NAME: &str = "server";

pub(super) async fn check(common: &CommonArguments) -> Finding {
    match providers(common).await {
        Ok((url, list)) => {
            let states: Vec<String> = list
                .providers
                .iter()
                .map(|provider| format!("{} {}", provider.name, provider.status))
                .collect();
            Finding::ok(NAME, format!("{url}, providers: {}", states.join(", ")))
        }
        // Looking at a machine before the first start is what this is for.
        Err(Failure::Client(ClientError::Unreachable { .. }) | Failure::Usage(_) | Failure::Other(_)) => {
            Finding::ok(NAME, "not running; `emergent serve` starts it")
        }
        Err(Failure::Client(error)) => Finding::warning(
            NAME,
            error.to_string(),
            "the commands cannot use it",
            "name the right server and token with --url and --token",
        ),
    }
}

async fn providers(common: &CommonArguments) -> Result<(String, ProviderList), Failure> {
    let client = connection::connect(common)?;
    let list = client.providers().await?;
    Ok((client.url().to_owned(), list))
}
