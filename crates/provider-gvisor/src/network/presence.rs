//! Whether an engine has been there all the time.

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::EventsOptionsBuilder;
use futures::StreamExt;
use tokio::task::JoinHandle;

/// A stream that ends when the engine does, or its host. One that is cut off on its way ends as well: then
/// something is looked at once too often.
pub(super) struct Presence(JoinHandle<()>);

impl Presence {
    /// From now on.
    pub(super) fn watch(docker: &Docker) -> Self {
        let docker = docker.clone();
        Self(tokio::spawn(async move {
            // Of all that an engine tells, what happens next to never.
            let seldom = HashMap::from([("type", vec!["plugin"])]);
            let mut events = docker.events(Some(EventsOptionsBuilder::new().filters(&seldom).build()));
            while let Some(Ok(_)) = events.next().await {}
        }))
    }

    /// Whether it has been there ever since.
    pub(super) fn is_unbroken(&self) -> bool {
        !self.0.is_finished()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.abort();
    }
}
