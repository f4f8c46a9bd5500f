//! From a member of a pool to somebody's workspace.
//!
//! ```text
//!  it goes on where it stands still
//!      │
//!  does it answer? ── no ─► destroyed, and another one is taken
//!      │ yes
//!  its row becomes the new one: from here on it is somebody's ── refused ─► stays in its pool
//!      │
//!  its limits become those that were asked for ── cannot be ─► made anew, under the same row
//!      │
//!  its agent learns the variables and the deadline ── does not answer ─► made anew, under the same row
//!      │
//!  its code is checked out, where it is to have some
//!      │
//!  ready
//! ```

use std::time::{Duration, Instant};

use emergent_agent_client::AgentClient;
use emergent_orchestrator::Attempt;
use emergent_store::{
    AttemptOutcome, AttemptRecord, IdempotencyKey, InsertWorkspaceError, Repository, WorkspaceRow,
    WorkspaceUpdate,
};
use emergent_types::WorkspaceStatus;
use time::OffsetDateTime;
use tokio::sync::oneshot;

use super::creating::attempt_record;
use super::{Actor, CreateReply, Phase};
use crate::Place;
use crate::new_workspace::Named;
use crate::pool::Miss;

/// A member that does not answer in this time is not handed out.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Somebody wants a member of a pool.
pub(crate) struct Claim {
    /// What is wanted, under an id that is not the member's yet.
    pub(crate) wanted: WorkspaceRow,
    pub(crate) named: Named,
    /// Who would have been asked before its provider, and cannot serve now.
    pub(crate) passed_over: Vec<Attempt>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) reply: oneshot::Sender<Claimed>,
    /// Who waits for a sandbox that has to be made anew.
    pub(crate) anew: Option<CreateReply>,
}

/// What came of it.
pub(crate) enum Claimed {
    /// It is a workspace, and ready.
    Ready(Box<WorkspaceRow>),
    /// It is a workspace, was had in this time, and its code is being checked out.
    CheckingOut(Duration),
    /// It is a workspace, and its sandbox is made anew, because of this.
    Anew(Miss),
    /// It is not to be had.
    Unfit,
    /// There must be no such workspace.
    Refused(InsertWorkspaceError),
}

/// Since when somebody is being served.
struct Claiming {
    started_at: OffsetDateTime,
    clock: Instant,
}

impl Claim {
    /// It is not to be had.
    pub(super) fn refuse(self) {
        let _ = self.reply.send(Claimed::Unfit);
    }
}

impl Actor {
    pub(super) async fn claimed(&mut self, claim: Claim) -> Phase {
        let Claim { wanted, named, passed_over, key, reply, anew } = claim;
        let clock = Claiming { started_at: emergent_store::now(), clock: Instant::now() };
        let member = self.row();
        let (Some(pool), Some(client)) = (member.warm_pool.clone(), self.presence.agent()) else {
            let _ = reply.send(Claimed::Unfit);
            return Phase::Ready;
        };
        let goes_on = self.go_on().await;
        self.presence.contact.begin();
        if !goes_on || !is_alive(&client, self.deadline_unix_ms()).await {
            tracing::warn!(workspace = %self.id, pool, "a member of a pool does not answer and is removed");
            let _ = reply.send(Claimed::Unfit);
            return Phase::Destroying { replies: Vec::new() };
        }
        self.context.reach(Place::ClaimBeforeTheRow).await;
        let had = member.resource_limits;
        let row = handed_over(member, wanted, &passed_over, &clock);
        let max = self.context.options.max_concurrent;
        match self.context.store.claim_member(&row, max, key.as_ref()).await {
            Ok(()) => {}
            // Whether it is somebody's now is not known, so it must be nobody's.
            Err(error @ InsertWorkspaceError::Store(_)) => {
                if key.is_some() {
                    let _ = self.context.store.release_idempotency_key(self.id).await;
                }
                let _ = reply.send(Claimed::Refused(error));
                return Phase::Destroying { replies: Vec::new() };
            }
            Err(InsertWorkspaceError::NotInPool { .. }) => {
                let _ = reply.send(Claimed::Unfit);
                return Phase::Destroying { replies: Vec::new() };
            }
            Err(error) => {
                let _ = reply.send(Claimed::Refused(error));
                return Phase::Ready;
            }
        }
        self.context.reach(Place::ClaimRowWritten).await;
        self.presence.activity.set_ttl(row.ttl_seconds);
        self.presence.activity.note();
        // Before anybody sees whose it is.
        let adjusted = self.adjusted(&row, had, named).await;
        self.show(row);
        self.context.pools.wake();
        if let Err(error) = adjusted {
            tracing::warn!(workspace = %self.id, %error,
                "a member of a pool keeps its limits and is made anew: {error}");
            return self.make_anew(Miss::Shape, named, reply, anew).await;
        }
        self.context.reach(Place::ClaimLimitsAdjusted).await;
        if let Err(error) = client.greet_as(self.greeting()).await {
            tracing::warn!(workspace = %self.id, %error, "a member of a pool has died and is made anew: {error}");
            return self.make_anew(Miss::Empty, named, reply, anew).await;
        }
        self.context.reach(Place::ClaimAgentTold).await;
        let row = self.row();
        if !passed_over.is_empty() {
            tracing::warn!(workspace = %self.id, provider = %row.provider, security = true,
                "workspace {} fell back to provider {}", self.id, row.provider);
        }
        tracing::info!(workspace = %self.id, provider = %row.provider, pool,
            "workspace {} is ready, out of pool {pool}", self.id);
        if row.status == WorkspaceStatus::Creating {
            let _ = reply.send(Claimed::CheckingOut(clock.clock.elapsed()));
            return self.check_out(anew).await;
        }
        let _ = reply.send(Claimed::Ready(Box::new(row)));
        Phase::Ready
    }

    /// The sandbox is gone or not what was asked for, and there is a workspace already that was promised one.
    async fn make_anew(
        &mut self,
        because: Miss,
        named: Named,
        reply: oneshot::Sender<Claimed>,
        anew: Option<CreateReply>,
    ) -> Phase {
        let since = Instant::now();
        self.presence.set_agent(None);
        self.record(WorkspaceUpdate::to_status(WorkspaceStatus::Creating)).await;
        let removed = match self.provider() {
            Ok(provider) => provider.destroy(self.id).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let _ = reply.send(Claimed::Anew(because));
        if let Err(error) = removed {
            // A create finds what runs as it is. So whoever was promised something else gets nothing.
            if because == Miss::Shape {
                let reason = format!("a sandbox with other limits could not be removed: {error}");
                let error = self.has_other_limits(since, reason);
                return self.give_up("not_adjusted", error, anew).await;
            }
            tracing::warn!(workspace = %self.id, error, "what is left of a dead sandbox stays for now: {error}");
        }
        Phase::Creating { reply: anew, named }
    }
}

/// Asks over the stream that is there, or over a new one: an idle stream may have been let go.
async fn is_alive(client: &AgentClient, deadline_unix_ms: u64) -> bool {
    let asked = async {
        match client.part(deadline_unix_ms).await {
            Ok(Some(_)) => true,
            Ok(None) => client.greet().await.is_ok(),
            Err(_) => false,
        }
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or(false)
}

/// The row of the workspace that a member becomes: what was asked for, and the sandbox that is there.
fn handed_over(
    member: WorkspaceRow,
    wanted: WorkspaceRow,
    passed_over: &[Attempt],
    claiming: &Claiming,
) -> WorkspaceRow {
    let started_at = claiming.started_at;
    let mut attempts: Vec<_> = passed_over.iter().map(attempt_record).collect();
    attempts.push(AttemptRecord {
        provider: member.provider,
        started_at,
        duration_ms: u64::try_from(claiming.clock.elapsed().as_millis()).unwrap_or(u64::MAX),
        outcome: AttemptOutcome::Succeeded,
    });
    let mut warnings = wanted.warnings;
    warnings.extend(member.warnings);
    let is_whole = !wanted.repositories.iter().any(Repository::is_pending);
    WorkspaceRow {
        id: member.id,
        // Whoever is promised code is promised nothing before it is there.
        status: if is_whole { WorkspaceStatus::Ready } else { WorkspaceStatus::Creating },
        provider: member.provider,
        provider_workspace_id: member.provider_workspace_id,
        isolation: member.isolation,
        network: member.network,
        persistence: member.persistence,
        disk_enforcement: member.disk_enforcement,
        attempts,
        warnings,
        created_at: started_at,
        last_used_at: started_at,
        expires_at: wanted.ttl_seconds.map(|ttl| started_at + Duration::from_secs(ttl.into())),
        warm_pool: None,
        ..wanted
    }
}
