//! Creating workspaces: out of a pool where a member fits, and cold otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_orchestrator::{Absence, Demand, FirstChoice};
use emergent_store::{IdempotencyKey, InsertWorkspaceError, SnapshotRow, SnapshotStatus, WorkspaceRow};
use emergent_types::{NetworkMode, ProviderChoice, WorkspaceId, WorkspaceStatus};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::actor::{Actor, Claim, Claimed, Phase, Request};
use crate::new_workspace::Named;
use crate::pool::{MEMBER_TTL, Miss, fit};
use crate::service::{Context, Entry};
use crate::volumes::volumes_of;
use crate::{CreateError, Handle, NewWorkspace, Options, Place, PoolSpec};

/// How often a create that waits for an earlier one of the same key tries again.
const MAX_JOINED_FAILURES: u32 = 20;

/// How long to wait for the owner of a row that was just written, or for the end of a create
/// that failed.
const OWNER_DELAY: Duration = Duration::from_millis(50);

/// What came of a create.
#[derive(Debug, Clone)]
pub struct CreatedWorkspace {
    /// The workspace.
    pub row: WorkspaceRow,
    /// It had been made before, by the same request.
    pub replayed: bool,
}

/// A create that is under way.
enum Begun {
    /// It is done.
    Ready(Box<WorkspaceRow>),
    /// A sandbox is being made, and whoever waits is told here.
    Making(WorkspaceId, oneshot::Receiver<Result<WorkspaceRow, CreateError>>),
    /// A sandbox is being made, and nobody waits.
    Unattended(Arc<Entry>),
}

impl Handle {
    /// Creates a workspace. With `wait`, answers when it is ready, and a failure leaves no
    /// row; without, answers at once, and a failure stays visible in the row. Cancelling the
    /// wait does not cancel the creation.
    pub async fn create(&self, new: NewWorkspace, wait: bool) -> Result<WorkspaceRow, CreateError> {
        self.create_once(new, wait, None).await.map(|created| created.row)
    }

    /// The same under a key: a request that was sent before makes no second workspace. One
    /// that comes while the first is under way shares its outcome.
    pub async fn create_once(
        &self,
        new: NewWorkspace,
        wait: bool,
        key: Option<IdempotencyKey>,
    ) -> Result<CreatedWorkspace, CreateError> {
        let handle = self.clone();
        // On a task of its own: whoever goes away in the very moment in which the row is written
        // must not leave a row without an owner.
        let creating =
            async move { handle.create_to_the_end(&new, wait, key.as_ref()).await }.in_current_span();
        let lost = |error: tokio::task::JoinError| CreateError::Rejected { reason: error.to_string() };
        tokio::spawn(creating).await.map_err(lost)?
    }

    async fn create_to_the_end(
        &self,
        new: &NewWorkspace,
        wait: bool,
        key: Option<&IdempotencyKey>,
    ) -> Result<CreatedWorkspace, CreateError> {
        if self.context.is_closing() {
            return Err(CreateError::ShuttingDown);
        }
        self.check_provider(new.provider)?;
        // What the request says, before anything is filled in.
        let named = new.named(&self.context.options);
        let filled = self.filled_in(new).await?;
        let (network, fallback) = network_for(&self.context, &filled).await;
        let mut row = filled.to_row(&self.context.options, network, !wait);
        (row.requested_provider, row.named_demands) = (new.provider, Some(named.demands));
        row.warnings.extend(fallback);
        let mut failed_before = 0;
        let begun = loop {
            match self.begin(&row, new, named, wait, key).await {
                Ok(begun) => break begun,
                Err(InsertWorkspaceError::KeyKnown { workspace_id: id, same_request: false }) => {
                    return Err(CreateError::KeyConflict { id, is_gone: false });
                }
                Err(InsertWorkspaceError::KeyKnown { workspace_id: id, same_request: true }) => {
                    if let Some(row) = self.first_outcome(id, wait).await? {
                        return Ok(CreatedWorkspace { row, replayed: true });
                    }
                    // The first one failed and gave its key back, or it is gone for good.
                    failed_before += 1;
                    if failed_before > MAX_JOINED_FAILURES {
                        return Err(CreateError::KeyConflict { id, is_gone: true });
                    }
                }
                Err(InsertWorkspaceError::LimitReached { active, max, .. }) => {
                    return Err(CreateError::LimitReached { active, max });
                }
                Err(InsertWorkspaceError::NameTaken { name }) => return Err(CreateError::NameTaken { name }),
                Err(InsertWorkspaceError::Store(error)) => return Err(CreateError::Store(error)),
                Err(error) => return Err(CreateError::Rejected { reason: error.to_string() }),
            }
        };
        let row = match begun {
            Begun::Ready(row) => *row,
            Begun::Making(id, outcome) => outcome.await.unwrap_or(Err(CreateError::Destroyed { id }))?,
            Begun::Unattended(entry) => entry.row(),
        };
        Ok(CreatedWorkspace { row, replayed: false })
    }

    /// Takes a member of a pool, or writes the row and lets its owner make a sandbox.
    async fn begin(
        &self,
        row: &WorkspaceRow,
        new: &NewWorkspace,
        named: Named,
        wait: bool,
        key: Option<&IdempotencyKey>,
    ) -> Result<Begun, InsertWorkspaceError> {
        let from_a_pool = new.warm_start && new.snapshot.is_none() && new.hosted.is_none();
        let claimed = match from_a_pool {
            true => self.claim(row, named, wait, key).await?,
            false => Err(Miss::Disabled),
        };
        let miss = match claimed {
            Ok(begun) => return Ok(begun),
            Err(miss) => miss,
        };
        self.context.reach(Place::CreateBeforeTheRow).await;
        let (store, max_concurrent) = (&self.context.store, self.context.options.max_concurrent);
        match &new.hosted {
            None => store.insert_workspace(row, max_concurrent, key).await?,
            Some(hosted) => store.insert_mcp_server(row, &hosted.server, key).await?,
        }
        self.context.reach(Place::CreateRowWritten).await;
        // A create that is refused was none, and one from a snapshot or of a server asks no pool.
        if row.snapshot_id.is_none() && new.hosted.is_none() {
            tracing::info!(workspace = %row.id, miss = miss.as_str(), "workspace {} starts cold", row.id);
            self.context.pools.tally.miss(miss);
        }
        let (reply, outcome) = waiting(wait);
        let entry = Actor::spawn(&self.context, row.clone(), Phase::Creating { reply, named });
        Ok(match outcome {
            Some(outcome) => Begun::Making(row.id, outcome),
            None => Begun::Unattended(entry),
        })
    }

    /// A member of a pool that is what a cold create would make, or why there is none.
    async fn claim(
        &self,
        row: &WorkspaceRow,
        named: Named,
        wait: bool,
        key: Option<&IdempotencyKey>,
    ) -> Result<Result<Begun, Miss>, InsertWorkspaceError> {
        let clock = Instant::now();
        let pools = &self.context.pools;
        if pools.stocks().iter().all(|stock| stock.size() == 0) {
            return Ok(Err(Miss::Disabled));
        }
        let cold = cold(&self.context, row, named.isolation).await;
        let Some(cold) = cold.filter(|cold| cold.capabilities.warm_pool) else {
            return Ok(Err(Miss::Provider));
        };
        loop {
            let fits = |member: &WorkspaceRow| fit::check(member, row, named.demands, &cold);
            let mut member = Err(Miss::Empty);
            for stock in pools.stocks() {
                member = match (member, stock.take(&self.context.registry, fits)) {
                    (found @ Ok(_), _) | (_, found @ Ok(_)) => found,
                    (Err(one), Err(other)) => Err(one.max(other)),
                };
                if member.is_ok() {
                    break;
                }
            }
            let member = match member {
                Ok(member) => member,
                Err(miss) => return Ok(Err(miss)),
            };
            let (reply, claimed) = oneshot::channel();
            let (anew, outcome) = waiting(wait);
            let passed_over = cold.passed_over.clone();
            let claim = Claim { wanted: row.clone(), named, passed_over, key: key.cloned(), reply, anew };
            if member.ask(Request::Claim(Box::new(claim))).await.is_err() {
                continue;
            }
            match claimed.await.unwrap_or(Claimed::Unfit) {
                Claimed::Ready(row) => {
                    pools.tally.hit(clock.elapsed());
                    return Ok(Ok(Begun::Ready(row)));
                }
                Claimed::CheckingOut(taken) => {
                    pools.tally.hit(taken);
                    return Ok(Ok(match outcome {
                        Some(outcome) => Begun::Making(member.id, outcome),
                        None => Begun::Unattended(member),
                    }));
                }
                Claimed::Anew(miss) => {
                    pools.tally.miss(miss);
                    return Ok(Ok(match outcome {
                        Some(outcome) => Begun::Making(member.id, outcome),
                        None => Begun::Unattended(member),
                    }));
                }
                Claimed::Unfit => {}
                Claimed::Refused(error) => return Err(error),
            }
        }
    }

    /// The request with what it leaves to the copy of a disk that it starts from.
    async fn filled_in(&self, new: &NewWorkspace) -> Result<NewWorkspace, CreateError> {
        let Some(id) = new.snapshot else { return Ok(new.clone()) };
        let snapshot = self.context.store.get_snapshot(id).await?;
        // One that is not whole may be used by who has just had it made.
        let is_there = |row: &SnapshotRow| match row.status {
            SnapshotStatus::Ready => true,
            SnapshotStatus::Creating => self.context.snapshots.has(id),
            SnapshotStatus::Deleting => false,
        };
        let snapshot = snapshot.filter(is_there).ok_or(CreateError::SnapshotNotFound { id })?;
        match new.provider {
            ProviderChoice::Explicit(other) if other != snapshot.provider => {
                Err(CreateError::NotEnforceable {
                    field: "provider",
                    reason: format!("snapshot {id} is with provider {}", snapshot.provider),
                })
            }
            _ => Ok(new.clone().with_snapshot(&snapshot)),
        }
    }

    /// Refuses a provider that the administrator does not want to be used.
    fn check_provider(&self, choice: ProviderChoice) -> Result<(), CreateError> {
        let ProviderChoice::Explicit(provider) = choice else { return Ok(()) };
        match self.context.orchestrator.absence(provider) {
            Some(absence @ Absence::LeftOut) => {
                Err(CreateError::ProviderDisabled { provider, reason: absence.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// What came of a create that was asked for before; `None` where it is not there any more.
    async fn first_outcome(&self, id: WorkspaceId, wait: bool) -> Result<Option<WorkspaceRow>, CreateError> {
        let Some(entry) = self.context.registry.get(id).filter(|entry| !entry.is_in_pool()) else {
            // Its row is written a moment before it has an owner.
            tokio::time::sleep(OWNER_DELAY).await;
            return Ok(None);
        };
        if wait {
            let mut view = entry.view.clone();
            if view.wait_for(|row| row.status != WorkspaceStatus::Creating).await.is_err() {
                return Ok(None);
            }
        }
        let row = entry.row();
        // One that failed before whoever waits is being removed.
        if row.status == WorkspaceStatus::Destroying {
            tokio::time::sleep(OWNER_DELAY).await;
            return Ok(None);
        }
        Ok(Some(row))
    }
}

type Waiting = (
    Option<oneshot::Sender<Result<WorkspaceRow, CreateError>>>,
    Option<oneshot::Receiver<Result<WorkspaceRow, CreateError>>>,
);

fn waiting(wait: bool) -> Waiting {
    wait.then(oneshot::channel).unzip()
}

/// What is asked of a provider for a row.
pub(crate) fn demand(row: &WorkspaceRow, options: &Options, isolation_is_named: bool) -> Demand {
    // Volumes are where they were made, and so is a sandbox that is made anew.
    let has_volumes = row.isolation.is_some() && !volumes_of(row).is_empty();
    Demand {
        container_type: row.container_type,
        deployment_mode: row.deployment_mode,
        choice: if has_volumes { ProviderChoice::Explicit(row.provider) } else { row.requested_provider },
        preferred: options.preferred_provider,
        min_isolation: row.min_isolation,
        isolation_is_named,
    }
}

/// Who would be asked first for a sandbox for this row.
pub(crate) async fn cold(
    context: &Context,
    row: &WorkspaceRow,
    isolation_is_named: bool,
) -> Option<fit::Cold> {
    let demand = demand(row, &context.options, isolation_is_named);
    let FirstChoice { provider, passed_over } = context.orchestrator.first_choice(&demand).await?;
    let capabilities = provider.capabilities().await;
    Some(fit::Cold { provider: provider.kind(), capabilities, passed_over })
}

/// The row of a new member of a pool.
pub(crate) async fn member_row(context: &Context, pool: &PoolSpec) -> WorkspaceRow {
    let (network, _) = network_for(context, &pool.shape).await;
    let shape = NewWorkspace { ttl: Some(MEMBER_TTL), owner: None, ..pool.shape.clone() };
    let row = shape.to_row(&context.options, network, true);
    WorkspaceRow { warm_pool: Some(pool.name.clone()), ..row }
}

/// The network of a new workspace. One that the request names is kept and refused later
/// where it cannot be enforced; a default that no provider in question can enforce gives
/// way to isolation, never the other way round, and the warning says why.
async fn network_for(context: &Context, new: &NewWorkspace) -> (NetworkMode, Option<String>) {
    if let Some(named) = new.network {
        return (named, None);
    }
    let default = context.options.default_network;
    let mut reasons = Vec::new();
    for provider in context.orchestrator.providers() {
        let in_question = match new.provider {
            ProviderChoice::Auto => true,
            ProviderChoice::Explicit(kind) => provider.kind() == kind,
        };
        if !in_question {
            continue;
        }
        if provider.capabilities().await.networks.contains(&default) {
            return (default, None);
        }
        let why = provider.why_no_network(default).await;
        reasons.extend(why.map(|why| format!(" ({}: {why})", provider.kind())));
    }
    let warning = (default != NetworkMode::Isolated).then(|| {
        format!(
            "the default network mode \"{default}\" cannot be enforced here{}; the workspace is \"{}\"",
            reasons.concat(),
            NetworkMode::Isolated
        )
    });
    (NetworkMode::Isolated, warning)
}
