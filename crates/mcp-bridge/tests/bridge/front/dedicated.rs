use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emergent_mcp_bridge::front::{Connector, Front, FrontOptions, OpenError, Opened, Opening, Sharing};
use emergent_mcp_bridge::{Bridge, EraChoice, Mode, Options};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::web::{Web, settle};
use crate::support::{Fake, pipes};

/// Starts scripts in place of processes, and counts those that are held.
struct Stage {
    started: mpsc::UnboundedSender<Fake>,
    open: Arc<AtomicUsize>,
    modes: Arc<Mutex<Vec<bool>>>,
}

struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl Connector for Stage {
    fn sharing(&self) -> Sharing {
        Sharing::Dedicated
    }

    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        self.modes.lock().unwrap().push(opening.declaration.is_some());
        let mode = opening.declaration.map_or(Mode::Shared, Mode::Dedicated);
        let (io, fake) = pipes(1 << 16);
        let (handle, ended) =
            Bridge::start(Options { mode, era: EraChoice::Legacy, ..Options::default() }, io);
        tokio::spawn(ended);
        self.open.fetch_add(1, Ordering::SeqCst);
        self.started.send(fake).unwrap();
        Ok(Opened { handle, guard: Some(Box::new(Held(self.open.clone()))) })
    }
}

struct Theatre {
    front: Front,
    started: mpsc::UnboundedReceiver<Fake>,
    open: Arc<AtomicUsize>,
    modes: Arc<Mutex<Vec<bool>>>,
}

fn theatre(options: FrontOptions) -> Theatre {
    let (started, fakes) = mpsc::unbounded_channel();
    let (open, modes) = (Arc::<AtomicUsize>::default(), Arc::default());
    let stage = Stage { started, open: open.clone(), modes: Arc::clone(&modes) };
    Theatre { front: Front::new(Arc::new(stage), options), started: fakes, open, modes }
}

impl Theatre {
    async fn session(&mut self, who: &str) -> (Web, Fake, Value) {
        let (web, (fake, hello)) = tokio::join!(Web::introduced(&self.front, who, "2025-11-25"), async {
            let mut fake = self.started.recv().await.unwrap();
            let hello = fake.initialize().await;
            (fake, hello)
        });
        (web, fake, hello)
    }
}

#[tokio::test]
async fn a_server_asks_its_own_client_and_nobody_else() {
    let mut theatre = theatre(FrontOptions::default());
    let (web, mut fake, hello) = theatre.session("me").await;
    let (other, _other_fake, _) = theatre.session("me").await;
    assert_eq!(hello["params"]["capabilities"], json!({"sampling": {}, "elicitation": {}, "roots": {}}));
    assert_eq!(theatre.open.load(Ordering::SeqCst), 2);
    let mut elsewhere = other.get(None).await.events();

    // In the middle of a call, on the stream of the call.
    let (call, request) = tokio::join!(web.call(json!(1), "t", json!({})), async {
        let request = fake.expect("tools/call").await;
        fake.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"log"}}"#).await;
        request
    });
    let mut call = call.events();
    assert!(call.data().await.is_null());
    assert_eq!(call.data().await["params"]["data"], "log");
    for (n, method) in ["sampling/createMessage", "elicitation/create", "roots/list"].iter().enumerate() {
        let asked = json!({"jsonrpc": "2.0", "id": format!("q{n}"), "method": method, "params": {"n": n}});
        fake.say(&asked.to_string()).await;
        let heard = call.data().await;
        assert_eq!((&heard["method"], &heard["params"]["n"]), (&json!(method), &json!(n)));
        let answer = json!({"jsonrpc": "2.0", "id": heard["id"], "result": {"said": n}});
        assert_eq!(web.post(&answer).await.status, StatusCode::ACCEPTED);
        let answered = fake.hear().await;
        assert_eq!((&answered["id"], &answered["result"]["said"]), (&json!(format!("q{n}")), &json!(n)));
    }
    fake.answer(&request, json!({"done": true})).await;
    assert_eq!(call.data().await["result"]["done"], true);

    // Out of the blue, on the stream of the GET.
    fake.say(r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#).await;
    let mut events = web.get(None).await.events();
    let heard = events.data().await;
    assert_eq!(heard["method"], "roots/list");
    // Nobody else can answer.
    other.post(&json!({"jsonrpc": "2.0", "id": heard["id"], "result": {"roots": []}})).await;
    fake.silence(30).await;
    web.post(&json!({"jsonrpc": "2.0", "id": heard["id"], "error": {"code": 1, "message": "no"}})).await;
    assert_eq!(fake.hear().await["error"]["message"], "no");
    elsewhere.silence(30).await;
}

#[tokio::test]
async fn the_process_ends_with_its_session() {
    let mut theatre = theatre(FrontOptions::default());
    let (web, mut fake, _) = theatre.session("me").await;
    let (_kept, _kept_fake, _) = theatre.session("you").await;
    let _events = web.get(None).await;
    assert_eq!(web.send("DELETE", &[], "").await.status, StatusCode::NO_CONTENT);
    settle().await;
    assert_eq!(theatre.open.load(Ordering::SeqCst), 1);
    assert!(fake.input.next_line().await.unwrap().is_none(), "its stdin is closed");
    theatre.front.end_sessions_of(&emergent_mcp_bridge::front::Principal::new("you"));
    settle().await;
    assert_eq!(theatre.open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_a_client_does_not_take_is_answered_for_it() {
    let mut theatre = theatre(FrontOptions { max_stream_events: 2, ..FrontOptions::default() });
    let (_web, mut fake, _) = theatre.session("me").await;
    for n in 0..3 {
        fake.say(&json!({"jsonrpc": "2.0", "id": n, "method": "roots/list"}).to_string()).await;
        settle().await;
    }
    let answered = fake.hear().await;
    assert_eq!((&answered["id"], &answered["error"]["code"]), (&json!(0), &json!(-32603)));
}

/// Requests that stand alone share a process by who asks, and it goes when nobody needs it.
#[tokio::test(start_paused = true)]
async fn the_newer_era_has_a_process_for_each_principal() {
    let mut theatre = theatre(FrontOptions { idle_ttl: Duration::from_secs(100), ..FrontOptions::default() });
    let (me, you) = (Web::new(&theatre.front, "me"), Web::new(&theatre.front, "you"));
    let list = |web: &Web| {
        let web = web.clone();
        tokio::spawn(async move { web.modern(json!(1), "prompts/list", json!({})).await.answer().await })
    };
    let asked = [list(&me), list(&me), list(&you)];
    let mut heard = 0;
    let mut fakes = Vec::new();
    for _ in 0..2 {
        let mut fake = theatre.started.recv().await.unwrap();
        fake.initialize().await;
        fakes.push(fake);
    }
    while heard < 3 {
        for fake in &mut fakes {
            while let Ok(Ok(Some(line))) =
                tokio::time::timeout(Duration::from_millis(10), fake.input.next_line()).await
            {
                let request: Value = serde_json::from_str(&line).unwrap();
                fake.answer(&request, json!({"prompts": []})).await;
                heard += 1;
            }
        }
    }
    for asked in asked {
        assert_eq!(asked.await.unwrap()["result"]["resultType"], "complete");
    }
    assert_eq!(*theatre.modes.lock().unwrap(), [false, false]);
    assert_eq!(theatre.open.load(Ordering::SeqCst), 2);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(theatre.open.load(Ordering::SeqCst), 0);
}
