//! Containers of this provider: what there is, and how it is removed.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};

use crate::engine::{EngineError, MissingIsFine};

/// What a container does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Its processes run.
    Running,
    /// They are there, and stand still.
    Paused,
    /// They have ended.
    Ended {
        /// The host's kernel ended it for want of memory.
        out_of_memory: bool,
    },
    /// It was never started, or is being removed.
    Unfinished,
}

impl Condition {
    /// From Docker's word for it.
    pub(crate) fn named(status: &str) -> Self {
        match status {
            "running" => Self::Running,
            "paused" => Self::Paused,
            "exited" | "dead" => Self::Ended { out_of_memory: false },
            // created, restarting, removing, and what newer engines may add.
            _ => Self::Unfinished,
        }
    }

    fn of(state: &ContainerState) -> Self {
        match Self::named(state.status.unwrap_or(ContainerStateStatusEnum::EMPTY).as_ref()) {
            Self::Ended { .. } => {
                // Not by the exit code, which it also has when somebody inside kills init.
                Self::Ended { out_of_memory: state.oom_killed == Some(true) }
            }
            other => other,
        }
    }
}

/// A container as Docker sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) condition: Condition,
    /// Its network's or image's state is the caller's to look into.
    pub(crate) raw: ContainerInspectResponse,
}

/// The container of that name, if there is one.
pub(crate) async fn look(docker: &Docker, name: &str) -> Result<Option<Seen>, EngineError> {
    let inspected = docker.inspect_container(name, None::<InspectContainerOptions>).await;
    match inspected.map_err(EngineError::from) {
        Ok(raw) => {
            let condition = raw.state.as_ref().map_or(Condition::Unfinished, Condition::of);
            Ok(Some(Seen { condition, raw }))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends and removes a container, with volumes that have no name. One that is not there is success,
/// and so is one that somebody else is removing.
pub(crate) async fn remove(docker: &Docker, name: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(name, Some(options.clone())).await.missing_is_fine() {
        Err(error) if error.is_conflict() => wait_until_gone(docker, name, error).await,
        other => other,
    }
}

/// Docker refuses a second removal while the first is under way.
async fn wait_until_gone(docker: &Docker, name: &str, refusal: EngineError) -> Result<(), EngineError> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        if look(docker, name).await?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(refusal)
}

/// Every container that a filter finds, running or not: its name, its labels, what it does.
pub(crate) async fn list(
    docker: &Docker,
    filter: &HashMap<String, Vec<String>>,
) -> Result<Vec<Listed>, EngineError> {
    let options = ListContainersOptionsBuilder::new().all(true).filters(filter).build();
    let listed = docker.list_containers(Some(options)).await?;
    Ok(listed
        .into_iter()
        .filter_map(|container| {
            Some(Listed {
                id: container.id?,
                labels: container.labels.unwrap_or_default(),
                condition: Condition::named(container.state.map(|state| state.to_string())?.as_str()),
            })
        })
        .collect())
}

/// A container of a list.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) labels: HashMap<String, String>,
    pub(crate) condition: Condition,
}

/// Removes every container that a filter finds.
pub(crate) async fn remove_all(
    docker: &Docker,
    filter: &HashMap<String, Vec<String>>,
) -> Result<(), EngineError> {
    for container in list(docker, filter).await? {
        remove(docker, &container.id).await?;
    }
    Ok(())
}
