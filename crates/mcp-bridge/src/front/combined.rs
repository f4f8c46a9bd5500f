//! Several servers as one: their tools, under the names of their servers.
//!
//! Only tools are merged. Prompts and resources are found at each server's own endpoint, and so is
//! what a server asks of its clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{FutureExt as _, join_all, select_all};
use tokio::sync::{Notify, watch};

use super::Inner;
use super::connector::{Connector, OpenError, Principal};
use super::merge;
use super::options::FrontOptions;
use super::peer::{Arrived, Begun, Held, Tag};
use super::resident::Residents;
use crate::command::Filter;
use crate::era::{Era, MODERN, NEWEST_LEGACY, SUBSCRIPTION_KEY, named_version, negotiate};
use crate::error::CallError;
use crate::handshake::{local_error, local_result};
use crate::json::{Kind, Malformed, Message, RawJson, pick, quoted, span_of, text_of};
use crate::session::{CallNumber, Introduction, lock};
use crate::translate::{ABOLISHED, OWN_INFO};
use crate::{Client, Handle, Phase};

/// Between the name of a server and the name of its tool. Names of servers have no underscores, so
/// the first one of these is where the name of the tool starts, whatever that is. Models' makers
/// allow fewer characters than the protocol does; these they all allow.
pub const SEPARATOR: &str = "__";

const CHANGED: &str = "notifications/tools/list_changed";
/// The place of listen requests among calls: no server has it.
const LISTENING: usize = usize::MAX;

/// A server whose tools are offered.
pub struct Member {
    /// Its name: `[a-z0-9-]{1,63}`.
    pub name: String,
    /// The way to it.
    pub connector: Arc<dyn Connector>,
}

/// Knows which servers a principal may use.
#[async_trait::async_trait]
pub trait Directory: Send + Sync + 'static {
    /// The servers, as of now. It is asked before every list and every call.
    async fn members(&self, principal: &Principal) -> Vec<Member>;

    /// Moves on whenever there may be other servers, or other tools of them.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// What a session or a request on a combined front talks to.
pub(super) struct Combined {
    directory: Arc<dyn Directory>,
    principal: Principal,
    options: Arc<FrontOptions>,
    residents: Arc<Residents>,
    /// Hears that the servers are others.
    changes: Mutex<watch::Receiver<()>>,
    state: Mutex<State>,
    news: Notify,
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    introduction: Option<Introduction>,
    links: BTreeMap<String, Arc<Link>>,
    last_link: usize,
    /// Open listen requests that want to hear of tools, by the ids of their clients.
    listens: BTreeMap<CallNumber, String>,
    own: VecDeque<Arrived>,
}

/// A server that is connected to.
pub(super) struct Link {
    place: usize,
    pub(super) client: Client,
    handle: Handle,
    #[expect(dead_code, reason = "held, not read")]
    held: Held,
}

impl Link {
    /// Whether its program has not shaken hands yet.
    pub(super) fn is_starting(&self) -> bool {
        matches!(&*self.handle.phase().borrow(), Phase::Starting)
    }

    pub(super) async fn ready(&self, limit: Duration) -> Result<(), CallError> {
        self.handle.ready(limit).await.map(drop)
    }
}

impl Combined {
    pub(super) fn new(inner: &Inner, directory: &Arc<dyn Directory>, principal: &Principal) -> Arc<Self> {
        Arc::new(Self {
            directory: directory.clone(),
            principal: principal.clone(),
            options: inner.options.clone(),
            residents: inner.residents.clone(),
            changes: Mutex::new(inner.changes.subscribe()),
            state: Mutex::default(),
            news: Notify::new(),
            numbers: AtomicU64::new(0),
        })
    }

    pub(super) async fn begin(
        self: &Arc<Self>,
        text: RawJson,
        timeout: Option<Duration>,
        note: impl Fn(Tag) + Send,
    ) -> Result<Begun, CallError> {
        let message = Message::read_strictly(text)?;
        let Kind::Request { id, method, .. } = &message.kind else {
            return Err(Malformed::Shape("the message is no request").into());
        };
        let id = message.at(id).to_owned();
        let era = match named_version(&message)? {
            Some(_) => Era::Modern,
            None => Era::Legacy,
        };
        if era == Era::Modern && ABOLISHED.contains(&method.as_str()) {
            return Ok(at_once(local_error(&id, -32601, "Method not found")));
        }
        match method.as_str() {
            "initialize" => self.initialize(&message, &id),
            "ping" => Ok(at_once(local_result(&id, "{}"))),
            "server/discover" => Ok(at_once(local_result(&id, &discovery()))),
            "tools/list" => Ok(self.list(id, era)),
            "tools/call" => self.call(message, id, timeout, note).await,
            "subscriptions/listen" => Ok(self.listen(&message, id, note)),
            _ => Ok(at_once(local_error(&id, -32601, "Method not found"))),
        }
    }

    pub(super) async fn notify(&self, text: RawJson) -> Result<(), CallError> {
        let message = Message::read_strictly(text.clone())?;
        if matches!(&message.kind, Kind::Notification { method, .. } if method == "notifications/cancelled") {
            // One of them has the call, if it is still open.
            for link in self.links() {
                link.client.notify(text.clone()).await?;
            }
        }
        Ok(())
    }

    pub(super) fn drain(&self) -> Vec<Arrived> {
        let mut changed = {
            let mut changes = lock(&self.changes);
            let news = changes.has_changed().unwrap_or(false);
            changes.mark_unchanged();
            news
        };
        let mut arrived: Vec<Arrived> = lock(&self.state).own.drain(..).collect();
        for link in self.links() {
            while let Some(incoming) = link.client.take_incoming() {
                let said = Arrived::new(link.place, incoming);
                if said.about.is_some() {
                    arrived.push(said);
                } else if is_change(&said.message) {
                    changed = true;
                }
            }
        }
        // However many servers changed, the merged list is one.
        if changed {
            let listens = lock(&self.state).listens.clone();
            arrived.extend(listens.into_iter().map(|(number, id)| Arrived {
                about: Some((LISTENING, number)),
                asks: false,
                message: RawJson::known(format!(
                    r#"{{"jsonrpc":"2.0","method":"{CHANGED}","params":{{"_meta":{{"{SUBSCRIPTION_KEY}":{id}}}}}}}"#
                )),
            }));
            let message = RawJson::known(format!(r#"{{"jsonrpc":"2.0","method":"{CHANGED}"}}"#));
            arrived.push(Arrived { about: None, asks: false, message });
        }
        arrived
    }

    pub(super) async fn news(&self) {
        let more = self.news.notified();
        if !lock(&self.state).own.is_empty() {
            return;
        }
        let mut changes = lock(&self.changes).clone();
        let changed = async {
            // Without a front there is nobody left to tell.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let links = self.links();
        let said = links.iter().map(|link| link.client.news().boxed());
        let said = select_all(said.chain([changed.boxed()]));
        tokio::select! {
            () = more => {}
            _ = said => {}
        }
    }

    fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.state).links.values().cloned().collect()
    }

    /// Connects to a server, unless that is done.
    pub(super) async fn link(&self, member: &Member) -> Result<Arc<Link>, OpenError> {
        let known = lock(&self.state).links.get(&member.name).cloned();
        if let Some(link) = known.filter(|link| !link.handle.is_over()) {
            return Ok(link);
        }
        let opened = self.residents.open(&self.principal, &member.name, member.connector.as_ref());
        let (handle, held) = opened.await?;
        let client = handle.connect().map_err(|error| OpenError::Unavailable(error.to_string()))?;
        let mut state = lock(&self.state);
        if let Some(link) = state.links.get(&member.name).filter(|link| !link.handle.is_over()) {
            return Ok(link.clone());
        }
        // Introduced, it hears of changes.
        client.introduce(state.introduction.clone().unwrap_or_else(|| Introduction {
            version: NEWEST_LEGACY,
            capabilities: "{}".to_owned(),
            info: OWN_INFO.to_owned(),
        }));
        state.last_link += 1;
        let link = Arc::new(Link { place: state.last_link, client, handle, held });
        state.links.insert(member.name.clone(), link.clone());
        drop(state);
        self.news.notify_one();
        Ok(link)
    }

    /// The servers as of now. Those that are none any more are left.
    pub(super) async fn members(&self) -> Vec<Member> {
        let mut members = self.directory.members(&self.principal).await;
        members.sort_by(|one, other| one.name.cmp(&other.name));
        let mut state = lock(&self.state);
        state.links.retain(|name, _| members.iter().any(|member| member.name == *name));
        members
    }

    fn initialize(&self, message: &Message, id: &str) -> Result<Begun, CallError> {
        let [asked, capabilities, info] =
            pick(message.params().unwrap_or("{}"), ["protocolVersion", "capabilities", "clientInfo"])?;
        let version = negotiate(&asked.and_then(text_of).unwrap_or_default());
        lock(&self.state).introduction = Some(Introduction {
            version,
            capabilities: capabilities.unwrap_or("{}").to_owned(),
            info: info.unwrap_or(OWN_INFO).to_owned(),
        });
        Ok(at_once(local_result(
            id,
            &format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{OWN_INFO}}}"#
            ),
        )))
    }

    fn list(self: &Arc<Self>, id: String, era: Era) -> Begun {
        let (combined, patience) = (self.clone(), self.options.merge_timeout);
        let answer = async move {
            let tools = merge::tools(&combined, patience).await.join(",");
            let more = match era {
                Era::Legacy => "",
                Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#,
            };
            Ok(local_result(&id, &format!(r#"{{"tools":[{tools}]{more}}}"#)))
        };
        Begun { answer: Box::pin(answer), cancel: None }
    }

    async fn call(
        &self,
        message: Message,
        id: String,
        timeout: Option<Duration>,
        note: impl Fn(Tag) + Send,
    ) -> Result<Begun, CallError> {
        let Some(raw) = message.param("name") else {
            return Ok(at_once(local_error(&id, -32602, "the name of the tool is missing")));
        };
        let name = text_of(raw).unwrap_or_default();
        let members = self.members().await;
        let found = name
            .split_once(SEPARATOR)
            .and_then(|(server, tool)| Some((members.iter().find(|member| member.name == server)?, tool)));
        let Some((member, tool)) = found else {
            return Ok(at_once(local_error(&id, -32602, &format!("there is no tool {name:?}"))));
        };
        let link = match self.link(member).await {
            Ok(link) => link,
            Err(error) => {
                return Ok(at_once(local_error(&id, -32000, &format!("{}: {error}", member.name))));
            }
        };
        let text = message.with([(span_of(message.text.as_str(), raw), quoted(tool))]);
        let begin = link.client.begin_noting(text, timeout, |number| note((link.place, number)));
        let call = begin.await?;
        let cancel = Some(call.canceller());
        let held = link.clone();
        let answer = async move {
            let answer = call.answer().await;
            drop(held);
            answer
        };
        Ok(Begun { answer: Box::pin(answer), cancel })
    }

    fn listen(self: &Arc<Self>, message: &Message, id: String, note: impl Fn(Tag) + Send) -> Begun {
        let Ok(filter) = serde_json::from_str::<Filter>(message.param("notifications").unwrap_or("{}"))
        else {
            return at_once(local_error(&id, -32602, "notifications is not what can be listened to"));
        };
        let number = CallNumber(self.numbers.fetch_add(1, Ordering::Relaxed));
        note((LISTENING, number));
        let honoured = if filter.tools_list_changed { r#""toolsListChanged":true"# } else { "" };
        let acknowledged = RawJson::known(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{SUBSCRIPTION_KEY}":{id}}},"notifications":{{{honoured}}}}}}}"#
        ));
        let mut state = lock(&self.state);
        state.own.push_back(Arrived { about: Some((LISTENING, number)), asks: false, message: acknowledged });
        if filter.tools_list_changed {
            state.listens.insert(number, id);
        }
        drop(state);
        self.news.notify_one();
        let combined = self.clone();
        let answer = async move {
            // Who is connected to is heard of.
            let members = combined.members().await;
            join_all(members.iter().map(|member| combined.link(member))).await;
            std::future::pending().await
        };
        Begun { answer: Box::pin(answer), cancel: None }
    }
}

/// An answer that nobody has to be asked for.
fn at_once(answer: RawJson) -> Begun {
    Begun { answer: Box::pin(std::future::ready(Ok(answer))), cancel: None }
}

fn discovery() -> String {
    format!(
        r#"{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{OWN_INFO}}}}}"#
    )
}

fn is_change(message: &RawJson) -> bool {
    let method = pick(message.as_str(), ["method"]).ok().and_then(|[method]| method);
    method.and_then(text_of).as_deref() == Some(CHANGED)
}
