//! Containers of this provider: what there is, and how it is removed.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

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
    const PAUSE: Duration = Duration::from_millis(50);
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
                created: container.created,
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
    /// When it was made, in the engine's seconds.
    created: Option<i64>,
}

impl Listed {
    /// Whether it was made so long ago and never started. One that runs is not judged by its age: the engine may
    /// have another clock.
    fn is_forgotten(&self, age: Duration) -> bool {
        self.condition == Condition::Unfinished && is_older(self.created, age)
    }
}

/// Whether that second of Docker's is so long ago. What has no time is new.
pub(crate) fn is_older(created: Option<i64>, age: Duration) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Some(created) = created.and_then(|seconds| u64::try_from(seconds).ok()) else { return false };
    now.saturating_sub(Duration::from_secs(created)) > age
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

/// Removes those that a filter finds and that were made so long ago and never started: whoever was about to do
/// something with them has been cut off.
pub(crate) async fn remove_forgotten(
    docker: &Docker,
    filter: &HashMap<String, Vec<String>>,
    age: Duration,
) -> Result<(), EngineError> {
    for container in list(docker, filter).await? {
        if container.is_forgotten(age) {
            remove(docker, &container.id).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(300);

    #[test]
    fn what_has_no_time_is_new() {
        assert!(is_older(Some(1), AGE) && !is_older(None, AGE) && !is_older(Some(i64::MAX), AGE));
    }

    #[test]
    fn only_what_is_old_and_was_never_started_is_forgotten() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let check = |state: &str, seconds_ago: u64, expect: bool| {
            let created = i64::try_from(now - seconds_ago).unwrap();
            let listed = Listed {
                id: "one".to_owned(),
                labels: HashMap::new(),
                condition: Condition::named(state),
                created: Some(created),
            };
            assert_eq!(listed.is_forgotten(AGE), expect, "{state}, {seconds_ago} s ago");
        };
        check("created", 400, true);
        check("created", 200, false);
        for state in ["running", "paused", "exited"] {
            check(state, 400, false);
        }
    }
}
