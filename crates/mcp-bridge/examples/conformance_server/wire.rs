//! Lines in and out.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Why a request has no result.
pub(crate) enum Failure {
    /// The client is to say something first.
    NeedsInput(Value),
    Refused {
        code: i64,
        text: String,
        data: Value,
    },
}

impl Failure {
    pub(crate) fn refused(code: i64, text: impl Into<String>) -> Self {
        Self::Refused { code, text: text.into(), data: Value::Null }
    }
}

/// What all requests share.
#[derive(Default)]
pub(crate) struct Wire {
    output: Mutex<()>,
    asked: Mutex<HashMap<u64, mpsc::Sender<Value>>>,
    last: AtomicU64,
    listeners: Mutex<Vec<(Value, Value)>>,
    seal: RandomState,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    fn say(&self, message: &Value) {
        let _whole_lines = lock(&self.output);
        let mut out = std::io::stdout().lock();
        // Without a reader there is nobody to tell.
        let _gone = writeln!(out, "{message}").and_then(|()| out.flush());
    }

    pub(crate) fn heard_answer(&self, message: Value) {
        let asked = message["id"].as_u64().and_then(|id| lock(&self.asked).remove(&id));
        if let Some(asked) = asked {
            let _gone = asked.send(message);
        }
    }

    pub(crate) fn stop_listening(&self, id: &Value) {
        lock(&self.listeners).retain(|(listener, _)| listener != id);
    }

    /// Tells everybody who wants to know that a list changed.
    pub(crate) fn changed(&self, list: &str, modern: bool) {
        let method = format!("notifications/{list}/list_changed");
        if !modern {
            return self.say(&json!({"jsonrpc": "2.0", "method": method}));
        }
        for (id, filter) in lock(&self.listeners).iter() {
            if filter[format!("{list}ListChanged")] == true {
                let params = json!({"_meta": {SUBSCRIPTION_KEY: id}});
                self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
        }
    }

    /// What is handed to clients and must come back as it was.
    pub(crate) fn sealed(&self, state: &str) -> String {
        format!("{state}.{:x}", self.seal.hash_one(state))
    }

    pub(crate) fn unsealed(&self, sealed: &Value) -> Option<String> {
        let (state, _) = sealed.as_str()?.rsplit_once('.')?;
        (self.sealed(state) == *sealed).then(|| state.to_owned())
    }
}

/// One request.
pub(crate) struct Request {
    pub(crate) wire: Arc<Wire>,
    id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) modern: bool,
}

impl Request {
    pub(crate) fn new(wire: Arc<Wire>, mut message: Value, modern: bool) -> Self {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        Self { wire, id: message["id"].take(), method, params: message["params"].take(), modern }
    }

    pub(crate) fn answer(&self, mut members: Value) {
        members["jsonrpc"] = json!("2.0");
        members["id"] = self.id.clone();
        self.wire.say(&members);
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.wire.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn progress(&self, progress: u64) {
        let token = &self.params["_meta"]["progressToken"];
        if !token.is_null() {
            self.notify(
                "notifications/progress",
                json!({"progressToken": token, "progress": progress, "total": 100}),
            );
        }
    }

    /// A request of the newer era that names no level wants no log.
    pub(crate) fn log(&self, text: &str) {
        if !self.modern || self.params["_meta"].get(LEVEL_KEY).is_some() {
            self.notify("notifications/message", json!({"level": "info", "data": text}));
        }
    }

    pub(crate) fn declares(&self, capability: &str) -> bool {
        self.params["_meta"][CAPABILITIES_KEY].get(capability).is_some()
    }

    pub(crate) fn listen(&self) {
        let filter = self.params["notifications"].clone();
        self.notify(
            "notifications/subscriptions/acknowledged",
            json!({"_meta": {SUBSCRIPTION_KEY: self.id}, "notifications": filter}),
        );
        lock(&self.wire.listeners).push((self.id.clone(), filter));
    }

    /// What the client was asked under this name, as its era asks: by a request of the server's, or
    /// by an answer that says what is needed.
    pub(crate) fn ask(&self, name: &str, method: &str, params: Value) -> Result<Value, Failure> {
        if self.modern {
            return self.input(name).ok_or_else(|| needs([(name, method, params)], None));
        }
        let (sender, answered) = mpsc::channel();
        let id = self.wire.last.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.wire.asked).insert(id, sender);
        self.wire.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = answered.recv_timeout(Duration::from_secs(20)).unwrap_or_default();
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Failure::refused(-32603, format!("{method}: {}", answer["error"]["message"]))),
        }
    }

    /// What the client said in answer to what was needed.
    pub(crate) fn input(&self, name: &str) -> Option<Value> {
        self.params["inputResponses"].get(name).filter(|input| input.is_object()).cloned()
    }
}

/// The answer that asks for input.
pub(crate) fn needs<'a>(
    requests: impl IntoIterator<Item = (&'a str, &'a str, Value)>,
    state: Option<String>,
) -> Failure {
    let requests: serde_json::Map<String, Value> = requests
        .into_iter()
        .map(|(name, method, params)| (name.to_owned(), json!({"method": method, "params": params})))
        .collect();
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    Failure::NeedsInput(result)
}
