//! The client that outlives its connections.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use emergent_protocol::{GENERATION, v1};
use tokio::sync::{Mutex, Semaphore};
use tonic::Status;

use crate::link::{Link, Transport};
use crate::{AgentDialer, AgentError, AgentKey};

/// How long dialling and greeting may take together.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a call that does a bounded amount of work may take.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(30);

/// The greatest list: an entry of two bytes becomes a hundred when it is decoded.
pub(crate) const LISTING_BYTES: usize = 512 << 10;

/// The greatest message of a stream that carries pieces.
pub(crate) const STREAM_MESSAGE_BYTES: usize = 1 << 20;

/// What the control plane says first on every connection.
#[derive(Debug, Clone)]
pub struct Greeting {
    /// Proves who is speaking.
    pub key: AgentKey,
    /// Given to every command in the sandbox. May hold secrets of the user's; Debug prints
    /// them, so a greeting is never logged.
    pub environment: HashMap<String, String>,
    /// When the sandbox may end itself if nobody speaks to it; Unix milliseconds, 0 is never.
    pub deadline_unix_ms: u64,
}

impl Greeting {
    fn to_request(&self, deadline_unix_ms: u64) -> v1::HelloRequest {
        v1::HelloRequest {
            generation: GENERATION,
            key: self.key.expose().to_vec().into(),
            environment: self.environment.clone(),
            deadline_unix_ms,
        }
    }
}

/// What an agent says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The protocol generation it speaks.
    pub generation: u32,
    /// Its build's version. Told by the sandbox: for display only.
    pub version: String,
}

/// Talks to one sandbox's agent. Cheap to clone; clones share one connection.
#[derive(Clone)]
pub struct AgentClient {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Arc<dyn AgentDialer>,
    greeting: RwLock<Greeting>,
    /// The greeting's, until a later one is known.
    deadline_unix_ms: AtomicU64,
    link: Mutex<Option<Link>>,
    /// Places for tunnels that are closed and have not delivered everything.
    lingering: Arc<Semaphore>,
}

/// So many tunnels of one client linger at once.
const MAX_LINGERING: usize = 64;

impl AgentClient {
    /// A client that dials on first use.
    pub fn new(dialer: Arc<dyn AgentDialer>, greeting: Greeting) -> Self {
        let lingering = Arc::new(Semaphore::new(MAX_LINGERING));
        let deadline_unix_ms = AtomicU64::new(greeting.deadline_unix_ms);
        let (greeting, link) = (RwLock::new(greeting), Mutex::new(None));
        Self { shared: Arc::new(Shared { dialer, greeting, deadline_unix_ms, link, lingering }) }
    }

    pub(crate) fn lingering(&self) -> Arc<Semaphore> {
        self.shared.lingering.clone()
    }

    /// Makes sure that the agent answers on a fresh greeting.
    pub async fn greet(&self) -> Result<AgentInfo, AgentError> {
        let mut slot = self.shared.link.lock().await;
        let (link, answer) = self.open().await?;
        *slot = Some(link);
        Ok(AgentInfo {
            generation: answer.generation,
            version: answer.agent_version.chars().take(64).collect(),
        })
    }

    /// Says another greeting from now on, at once and over the connection that there is: variables are
    /// added to those of an earlier one.
    pub async fn greet_as(&self, greeting: Greeting) -> Result<(), AgentError> {
        self.set_deadline(greeting.deadline_unix_ms);
        let request = greeting.to_request(greeting.deadline_unix_ms);
        *self.shared.greeting.write().unwrap_or_else(PoisonError::into_inner) = greeting;
        self.call("hello", CONNECT_LIMIT, |mut stub| {
            let request = request.clone();
            async move { stub.hello(request).await }
        })
        .await
        .map(drop)
    }

    /// Closes the connection once the calls on it are done. The next call dials again.
    pub async fn disconnect(&self) {
        self.shared.link.lock().await.take();
    }

    async fn open(&self) -> Result<(Link, v1::HelloResponse), AgentError> {
        let attempt = async {
            let stream = self
                .shared
                .dialer
                .dial()
                .await
                .map_err(|error| AgentError::Unreachable { reason: error.reason, not_sent: true })?;
            let deadline = self.shared.deadline_unix_ms.load(Ordering::Relaxed);
            Link::open(stream, self.greeting(deadline)).await
        };
        tokio::time::timeout(CONNECT_LIMIT, attempt).await.unwrap_or_else(|_| {
            let reason = format!("no greeting within {CONNECT_LIMIT:?}");
            Err(AgentError::Unreachable { reason, not_sent: true })
        })
    }

    fn greeting(&self, deadline_unix_ms: u64) -> v1::HelloRequest {
        self.shared.greeting.read().unwrap_or_else(PoisonError::into_inner).to_request(deadline_unix_ms)
    }

    /// From now on greetings say this.
    pub(crate) fn set_deadline(&self, deadline_unix_ms: u64) {
        self.shared.deadline_unix_ms.store(deadline_unix_ms, Ordering::Relaxed);
    }

    /// The connection, if there is one.
    pub(crate) async fn current_link(&self) -> Option<Link> {
        self.shared.link.lock().await.clone().filter(|link| !link.is_closed())
    }

    async fn link(&self) -> Result<Link, AgentError> {
        let mut slot = self.shared.link.lock().await;
        if let Some(link) = slot.as_ref().filter(|link| !link.is_closed()) {
            return Ok(link.clone());
        }
        let (link, _) = self.open().await?;
        *slot = Some(link.clone());
        Ok(link)
    }

    /// Makes one call, bounded by `limit`. A call that certainly was not sent (the connection
    /// had just closed) is made once more on a new connection; any other failure is final,
    /// because what was asked may have happened.
    pub(crate) async fn call<T, F, C>(
        &self,
        name: &'static str,
        limit: Duration,
        make: C,
    ) -> Result<T, AgentError>
    where
        C: Fn(Stub) -> F,
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let attempt = async {
            match self.call_once(name, &make).await {
                Err(error) if error.is_not_sent() => self.call_once(name, &make).await,
                result => result,
            }
        };
        let result = tokio::time::timeout(limit, attempt).await;
        result.unwrap_or(Err(AgentError::TimedOut { call: name, limit }))
    }

    /// Makes one call, once, and for as long as it takes: the caller bounds it.
    pub(crate) async fn call_unbounded<T, F, C>(&self, name: &'static str, make: C) -> Result<T, AgentError>
    where
        C: Fn(Stub) -> F,
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        self.call_once(name, &make).await
    }

    async fn call_once<T, F, C>(&self, name: &'static str, make: &C) -> Result<T, AgentError>
    where
        C: Fn(Stub) -> F,
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let link = self.link().await?;
        match make(link.stub()).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(AgentError::from_status(name, &status)),
        }
    }
}

pub(crate) type Stub = v1::agent_client::AgentClient<Transport>;
