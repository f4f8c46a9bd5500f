//! Where MCP clients connect: one front a server, and one over all. Their sessions live here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emergent_mcp_bridge::front::{
    CallOutcome, CallReport, Connector, Directory, Front, FrontOptions, Member, Observer, Principal,
    SEPARATOR,
};
use emergent_mcp_hosting::{CallFailure, Handle, Way};
use emergent_store::TokenId;
use emergent_types::WorkspaceId;
use tokio::sync::watch;

use crate::audit::{Audit, Call, Ending, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode;

/// The fronts of all servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fronts(Arc<Inner>);

struct Inner {
    audit: Audit,
    of_servers: Mutex<HashMap<WorkspaceId, (u64, Front)>>,
    combined: Mutex<Option<(Arc<Offers>, Front)>>,
    /// Whose end somebody waits for.
    watched: Mutex<HashSet<Principal>>,
}

impl Fronts {
    pub(crate) fn new(audit: Audit) -> Self {
        Self(Arc::new(Inner {
            audit,
            of_servers: Mutex::default(),
            combined: Mutex::default(),
            watched: Mutex::default(),
        }))
    }

    /// Sees to it that what a caller has open ends with its token: a session that nobody can use any more would
    /// keep a process of a dedicated server.
    fn watch(&self, caller: &Caller) {
        let principal = principal(caller);
        if !lock(&self.0.watched).insert(principal.clone()) {
            return;
        }
        let (fronts, caller) = (Arc::downgrade(&self.0), caller.clone());
        tokio::spawn(async move {
            caller.ended().await;
            let Some(inner) = fronts.upgrade() else { return };
            lock(&inner.watched).remove(&principal);
            let mut all: Vec<Front> =
                lock(&inner.of_servers).values().map(|(_, front)| front.clone()).collect();
            all.extend(lock(&inner.combined).as_ref().map(|(_, front)| front.clone()));
            all.iter().for_each(|front| front.end_sessions_of(&principal));
        });
    }

    /// The front of one server. It is made when the first client comes, and anew when the server is run in
    /// another way.
    pub(crate) fn of(
        &self,
        servers: &Handle,
        id: WorkspaceId,
        caller: &Caller,
    ) -> Result<Front, CallFailure> {
        self.watch(caller);
        let way = servers.way(&id.to_string())?;
        let mut fronts = lock(&self.0.of_servers);
        fronts.retain(|id, _| servers.find(&id.to_string()).is_some());
        if let Some((edition, front)) = fronts.get(&id)
            && *edition == way.edition()
        {
            return Ok(front.clone());
        }
        let (_, name) = servers.find(&id.to_string()).ok_or(CallFailure::NotFound(id.to_string()))?;
        let edition = way.edition();
        let observer = Witness { audit: self.0.audit.clone(), servers: servers.clone(), server: Some(name) };
        let mut options = options(observer);
        if let Some(most) = way.most_sessions_of_one() {
            options.max_sessions_per_principal = most;
        }
        let front = Front::new(Arc::new(way), options);
        fronts.insert(id, (edition, front.clone()));
        Ok(front)
    }

    /// The front over all servers that a caller may use.
    pub(crate) fn combined(&self, servers: &Handle, caller: &Caller) -> Front {
        self.watch(caller);
        let mut combined = lock(&self.0.combined);
        let (offers, front) = combined.get_or_insert_with(|| {
            let offers = Arc::new(Offers { servers: servers.clone(), callers: Mutex::default() });
            let observer = Witness { audit: self.0.audit.clone(), servers: servers.clone(), server: None };
            (offers.clone(), Front::combined(offers, options(observer)))
        });
        offers.note(caller);
        front.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Host and Origin are checked by the wall in front of all endpoints, bodies by whoever reads them.
fn options(observer: Witness) -> FrontOptions {
    FrontOptions {
        call_timeout: None,
        max_body_bytes: usize::MAX,
        observer: Some(Arc::new(observer)),
        ..FrontOptions::default()
    }
}

/// Who a token is to the fronts.
pub(crate) fn principal(caller: &Caller) -> Principal {
    Principal::new(caller.id().to_string())
}

/// Which servers a token may use. What it may is learnt when it calls, which it does before anything is looked
/// up for it.
struct Offers {
    servers: Handle,
    callers: Mutex<HashMap<Principal, Caller>>,
}

impl Offers {
    fn note(&self, caller: &Caller) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, caller| !caller.is_over());
        callers.insert(principal(caller), caller.clone());
    }
}

#[async_trait::async_trait]
impl Directory for Offers {
    async fn members(&self, principal: &Principal) -> Vec<Member> {
        let caller = self.callers.lock().unwrap_or_else(PoisonError::into_inner).get(principal).cloned();
        let Some(caller) = caller else { return Vec::new() };
        let names = self.servers.healths().into_iter().map(|(name, _)| name);
        names
            .filter(|name| caller.may_use_server(name))
            .filter_map(|name| {
                let way: Way = self.servers.way(&name).ok()?;
                Some(Member { name, connector: Arc::new(way) as Arc<dyn Connector> })
            })
            .collect()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.servers.changes())
    }
}

/// Writes calls of tools down: server, tool and what came of it. What it was asked is nobody's business.
struct Witness {
    audit: Audit,
    servers: Handle,
    /// `None` where the tool's name says it.
    server: Option<String>,
}

impl Observer for Witness {
    fn called(&self, report: CallReport) {
        let Ok(caller) = report.principal.as_str().parse::<TokenId>() else { return };
        let (server, tool) = match &self.server {
            Some(server) => (server.as_str(), report.tool.as_str()),
            None => report.tool.split_once(SEPARATOR).unwrap_or(("", &report.tool)),
        };
        let summary = Summary::default()
            .text("server", server)
            .text("method", "tools/call")
            .text("tool", tool)
            .text("outcome", name_of(report.outcome));
        let record = self.audit.begin(Call {
            tool: "mcp_call",
            workspace: self.servers.find(server).map(|(id, _)| id),
            session: None,
            caller,
            request_id: report.request_id.unwrap_or_default(),
            summary,
        });
        record.took(report.duration, ending_of(report.outcome));
    }
}

fn name_of(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Ok => "ok",
        CallOutcome::ToolError => "tool_error",
        CallOutcome::ProtocolError => "protocol_error",
        CallOutcome::Ended => "ended",
        CallOutcome::Timeout => "timeout",
        CallOutcome::Cancelled => "cancelled",
    }
}

/// A tool that says that it failed has answered.
fn ending_of(outcome: CallOutcome) -> Ending {
    match outcome {
        CallOutcome::Ok | CallOutcome::ToolError => Ending::Ok,
        CallOutcome::ProtocolError => Ending::Error(ErrorCode::McpAnswerUnusable),
        CallOutcome::Ended => Ending::Error(ErrorCode::McpServerEnded),
        CallOutcome::Timeout => Ending::Error(ErrorCode::Timeout),
        CallOutcome::Cancelled => Ending::Cancelled,
    }
}
