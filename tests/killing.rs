//! `kill -9` of a real server at a durable step, with real sandboxes, and what the next one makes of it.
//!
//! Whoever was promised something has it, nobody has it twice, and nothing is left that nobody has.

use std::time::{Duration, Instant};

use emergent_client::{
    BashRequest, Client, CreateWorkspace, ListWorkspaces, RequestedLimits, RestoreWorkspace, Workspace,
};
use emergent_test_support::{TestServer, TestServerOptions, eventually};
use emergent_types::{ByteSize, Cpu, ProviderKind, SnapshotId, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::Place;

/// What is done when the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Restore,
    Refill,
    Claim,
    Stop,
    Resume,
    Destroy,
    Snapshot,
    DeleteSnapshot,
    Adopt,
}

use Operation::*;

/// Every place that an operation comes to.
pub(crate) fn places_of(operation: Operation) -> Vec<Place> {
    Place::ALL.iter().copied().filter(|place| leading_to(*place).contains(&operation)).collect()
}

/// A test for each operation: none takes long, and the report names what failed.
macro_rules! test_each_operation {
    ($kill_at:expr) => {
        $crate::killing::test_each_operation!($kill_at, create: Create, restore: Restore, refill: Refill,
            claim: Claim, stop: Stop, resume: Resume, destroy: Destroy, snapshot: Snapshot,
            delete_snapshot: DeleteSnapshot, adopt: Adopt);
    };
    ($kill_at:expr, $($name:ident: $operation:ident),*) => {
        $(
            #[tokio::test]
            async fn $name() {
                $kill_at($crate::killing::Operation::$operation).await;
            }
        )*
    };
}
pub(crate) use test_each_operation;

fn leading_to(place: Place) -> &'static [Operation] {
    match place {
        Place::CreateBeforeTheRow | Place::CreateRowWritten => &[Create, Restore],
        Place::CreateSandboxMade
        | Place::CreateSandboxRecorded
        | Place::CreateAgentGreeted
        | Place::CreateReady => &[Create, Restore, Refill],
        Place::RefillBeforeTheRow | Place::RefillRowWritten => &[Refill],
        Place::ClaimBeforeTheRow
        | Place::ClaimRowWritten
        | Place::ClaimLimitsAdjusted
        | Place::ClaimAgentTold => &[Claim],
        Place::StopBeforeTheIntent
        | Place::StopIntentWritten
        | Place::StopSandboxStopped
        | Place::StopWritten => &[Stop],
        Place::ResumeBeforeTheIntent
        | Place::ResumeIntentWritten
        | Place::ResumeSandboxStarted
        | Place::ResumeWritten => &[Resume],
        Place::DestroyBeforeTheIntent
        | Place::DestroyIntentWritten
        | Place::DestroySandboxRemoved
        | Place::DestroyRowRemoved => &[Destroy],
        Place::SnapshotBeforeTheRow
        | Place::SnapshotRowWritten
        | Place::SnapshotCopied
        | Place::SnapshotWritten => &[Snapshot],
        Place::DeletionBeforeTheIntent | Place::DeletionIntentWritten | Place::DeletionCopyRemoved => {
            &[DeleteSnapshot]
        }
        Place::AdoptBefore | Place::AdoptAllHaveOwners => &[Adopt],
    }
}

/// How long after the next server listens all is settled.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);

/// What is asked of a member whose limits can be changed: less than it has, and than any other has here.
const CLAIMED_CPU: Cpu = Cpu::from_millis(500);
const CLAIMED_MEMORY: ByteSize = ByteSize::from_mib(192);

/// How long one turn on the processors is, in microseconds.
const CPU_PERIOD: u64 = 100_000;

/// Kills a server at each of the places, one after the other, and looks at what the next one has.
pub(crate) async fn kill_at_each(options: &TestServerOptions, operation: Operation, places: Vec<Place>) {
    for place in places {
        let what = format!("{operation:?} at {:?}", place.name());
        let started = Instant::now();
        let victim = Victim::prepare(options, operation).await;
        let settled = victim.kill_at(place, &what).await;
        eprintln!("{what}: settled {settled:.1?} after the start, {:.1?} in all", started.elapsed());
    }
}

/// A server with a workspace that nothing is done to, one that something is done to, and a snapshot.
struct Victim {
    server: TestServer,
    options: TestServerOptions,
    operation: Operation,
    provider: ProviderKind,
    bystander: WorkspaceId,
    subject: WorkspaceId,
    snapshot: SnapshotId,
}

impl Victim {
    async fn prepare(options: &TestServerOptions, operation: Operation) -> Self {
        let options = options.clone().with("WORKSPACE_WARM_POOL_SIZE", u32::from(operation == Claim));
        let server = options.clone().start().await;
        let client = server.client();
        let bystander = client.create(&cold()).await.unwrap();
        let (provider, bystander) = (bystander.provider, bystander.id);
        let subject = client.create(&cold()).await.unwrap().id;
        sh(&client, bystander, "echo 1 > number").await;
        sh(&client, subject, "echo 2 > number").await;
        let snapshot = client.snapshot(subject, None).await.unwrap().id;
        if operation == Resume {
            client.stop(subject).await.unwrap();
        }
        Self { server, options, operation, provider, bystander, subject, snapshot }
    }

    /// How many sandboxes wait for somebody once all is settled.
    fn pool(&self) -> u32 {
        u32::from(matches!(self.operation, Claim | Refill))
    }

    async fn kill_at(mut self, place: Place, what: &str) -> Duration {
        self.server.kill();
        self.server.set_options(self.options.clone().with("EMERGENT_FAILPOINT", place.name()));
        if self.operation == Adopt {
            self.server.start_and_end().await;
        } else {
            self.server.start_again().await;
            let client = self.server.client();
            if self.operation == Claim {
                eventually("a member is ready", Duration::from_secs(60), async || {
                    (client.warm_pool().await.unwrap().ready == 1).then_some(())
                })
                .await;
            }
            self.perform(&client).await;
            self.server.wait().await;
        }
        self.server.set_options(self.options.clone());
        self.server.start_again().await;
        let waiting_for = format!("all is settled after {what}");
        let ((), settled) = eventually(&waiting_for, SETTLES_WITHIN, async || self.is_settled().await).await;
        self.look_at_promises(place, what).await;
        if self.adjusts_limits() {
            self.look_at_limits(place, what).await;
        }
        self.finish().await;
        settled
    }

    async fn perform(&self, client: &Client) {
        // Whoever asked sees the connection break.
        let _ = match self.operation {
            Create => client.create(&cold()).await.map(drop),
            Claim => client.create(&self.claim()).await.map(drop),
            Restore => client.restore(&self.restore()).await.map(drop),
            Refill => client.resize_warm_pool(1).await.map(drop),
            Stop => client.stop(self.subject).await.map(drop),
            Resume => client.resume(self.subject).await.map(drop),
            Destroy => client.destroy(self.subject).await.map(drop),
            Snapshot => client.snapshot(self.subject, None).await.map(drop),
            DeleteSnapshot => client.delete_snapshot(self.snapshot).await.map(drop),
            Adopt => Ok(()),
        };
    }

    /// Whether what is claimed has other limits than it had in its pool. Only of the local provider is it known
    /// that it can change both while a sandbox runs.
    fn adjusts_limits(&self) -> bool {
        self.operation == Claim && self.provider == ProviderKind::Local
    }

    fn claim(&self) -> CreateWorkspace {
        let limits = RequestedLimits { cpu: Some(CLAIMED_CPU), memory: Some(CLAIMED_MEMORY), disk: None };
        CreateWorkspace {
            resource_limits: self.adjusts_limits().then_some(limits),
            ..CreateWorkspace::default()
        }
    }

    fn restore(&self) -> RestoreWorkspace {
        RestoreWorkspace {
            snapshot_id: self.snapshot,
            resource_limits: None,
            network: None,
            env: Default::default(),
            ttl_seconds: None,
            metadata: Default::default(),
        }
    }

    async fn listed(&self) -> Vec<Workspace> {
        self.server.client().list(&ListWorkspaces::default()).await.unwrap().items
    }

    /// Every row is at rest, and the host has what the rows and the pool say, no more and no less.
    async fn is_settled(&self) -> Option<()> {
        let client = self.server.client();
        let listed = self.listed().await;
        let is_at_rest =
            |row: &Workspace| matches!(row.status, WorkspaceStatus::Ready | WorkspaceStatus::Stopped);
        let waiting = client.warm_pool().await.unwrap();
        let copies = client.snapshots(None, None).await.unwrap().items.len();
        let census = self.server.census();
        let is_settled = listed.iter().all(is_at_rest)
            && waiting.ready == self.pool()
            && census.state_folders.len() == listed.len() + waiting.ready as usize
            && census.snapshots.len() == copies;
        is_settled.then_some(())
    }

    async fn look_at_promises(&self, place: Place, what: &str) {
        let client = self.server.client();
        assert_eq!(sh(&client, self.bystander, "cat number").await, "1\n", "{what}");
        let count = self.listed().await.len();
        match self.operation {
            // Of what was not written down nobody knows.
            Resume if place == Place::ResumeBeforeTheIntent => {
                let status = client.workspace(self.subject).await.unwrap().status;
                assert_eq!((status, count), (WorkspaceStatus::Stopped, 2), "{what}");
            }
            Destroy if place != Place::DestroyBeforeTheIntent => {
                assert!(client.workspace(self.subject).await.is_err(), "{what}");
                assert_eq!(count, 1, "{what}");
            }
            Stop if place != Place::StopBeforeTheIntent => {
                let status = client.workspace(self.subject).await.unwrap().status;
                assert_eq!((status, count), (WorkspaceStatus::Stopped, 2), "{what}");
                client.resume(self.subject).await.unwrap();
                assert_eq!(sh(&client, self.subject, "cat number").await, "2\n", "{what}");
            }
            _ => {
                assert_eq!(sh(&client, self.subject, "cat number").await, "2\n", "{what}");
                // Nobody was told of a third, so it may be there or not.
                let most = if matches!(self.operation, Create | Claim | Restore) { 3 } else { 2 };
                assert!((2..=most).contains(&count), "{what}: {count} workspaces");
            }
        }
    }

    /// Every sandbox is limited to what its row says, also one that was claimed and not adjusted any more.
    async fn look_at_limits(&self, place: Place, what: &str) {
        let client = self.server.client();
        let listed = self.listed().await;
        let claimed = listed.iter().filter(|row| row.resource_limits.cpu == CLAIMED_CPU).count();
        // From the moment its row is written it is somebody's.
        assert_eq!(claimed, usize::from(place != Place::ClaimBeforeTheRow), "{what}: {listed:?}");
        for row in listed {
            let limits = row.resource_limits;
            let memory = limits.memory.bytes();
            let expect = [memory, u64::from(limits.cpu.millis()) * CPU_PERIOD / 1000, memory / 2048];
            let waiting_for = format!("{what}: workspace {} is limited to {limits:?}", row.id);
            // Who is found running answers a moment before its limits are made sure of.
            eventually(&waiting_for, SETTLES_WITHIN, async || {
                (limits_seen_by(&client, row.id).await == expect).then_some(())
            })
            .await;
        }
    }

    async fn finish(self) {
        if self.pool() > 0 {
            self.server.client().resize_warm_pool(0).await.unwrap();
        }
        self.server.finish().await;
    }
}

/// A small workspace of its own.
fn cold() -> CreateWorkspace {
    CreateWorkspace {
        resource_limits: Some(RequestedLimits {
            cpu: Some(Cpu::from_millis(1000)),
            memory: Some(ByteSize::from_mib(256)),
            disk: Some(ByteSize::from_mib(64)),
        }),
        warm_start: Some(false),
        ..CreateWorkspace::default()
    }
}

async fn sh(client: &Client, id: WorkspaceId, command: &str) -> String {
    let answer = client.bash(id, &BashRequest::new(command)).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{command}: {answer:?}");
    answer.stdout
}

/// What a sandbox of the local provider is limited to, as its own control groups say: bytes of memory and
/// microseconds of every turn on the processors; and the KiB of `/tmp`, which is half the memory. The groups have
/// one hierarchy for all or one per controller, and one of each pair of files.
async fn limits_seen_by(client: &Client, id: WorkspaceId) -> Vec<u64> {
    let command = "groups=/sys/fs/cgroup
        cat $groups/memory.max $groups/memory*/memory.limit_in_bytes 2>/dev/null
        cat $groups/cpu.max $groups/cpu*/cpu.cfs_quota_us 2>/dev/null
        df -k --output=size /tmp | tail -n 1";
    let seen = sh(client, id, command).await;
    // With one hierarchy for all, the length of a turn stands behind what there is of it.
    seen.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}
