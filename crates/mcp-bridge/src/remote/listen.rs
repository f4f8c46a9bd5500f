//! What a server of the older era says unasked.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::Remote;
use super::body::Media;
use super::events::Events;
use crate::json::RawJson;

/// How long the server may take to open the stream.
const HEAD_LIMIT: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Listens as long as there is something to listen to. A server that has no such stream is left alone.
pub(super) async fn listen(remote: Arc<Remote>) {
    let (mut place, mut retry) = (None, FIRST_RETRY);
    loop {
        let opened = tokio::time::timeout(HEAD_LIMIT, remote.open_stream(place.as_deref())).await;
        if let Ok(Ok(response)) = opened {
            match response.status() {
                status if status.is_success() && Media::of(response.headers()) == Media::Events => {}
                StatusCode::NOT_FOUND if super::lock(&remote.session).id.is_some() => {
                    remote.lost.notify_one();
                    return;
                }
                status if status.is_server_error() => {
                    retry = (retry * 2).min(LONGEST_RETRY);
                    tokio::time::sleep(retry).await;
                    continue;
                }
                _ => return,
            }
            let mut events = Events::new(response.into_body(), remote.options.max_message_bytes);
            while let Ok(Some(event)) = events.next().await {
                place = event.id.or(place);
                retry = event.retry.unwrap_or(FIRST_RETRY).min(LONGEST_RETRY);
                if !event.data.is_empty() {
                    remote.say(RawJson::known(event.data)).await;
                }
            }
        } else {
            retry = (retry * 2).min(LONGEST_RETRY);
        }
        tokio::time::sleep(retry).await;
    }
}
