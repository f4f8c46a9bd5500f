use std::sync::{Arc, Mutex};
use std::time::Duration;

use emergent_mcp_bridge::front::{Connector, Directory, Front, FrontOptions, Member, Principal};
use emergent_mcp_bridge::{Bridge, Handle, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::web::{TAG, Web, settle};
use crate::support::{Fake, legacy, modern, pipes};

#[derive(Default)]
struct Servers(Mutex<Vec<(String, Handle)>>);

#[async_trait::async_trait]
impl Directory for Servers {
    async fn members(&self, principal: &Principal) -> Vec<Member> {
        let all = self.0.lock().unwrap();
        // A guest may use the first one alone.
        let most = if principal.as_str() == "guest" { 1 } else { all.len() };
        all.iter()
            .take(most)
            .map(|(name, handle)| Member {
                name: name.clone(),
                connector: Arc::new(handle.clone()) as Arc<dyn Connector>,
            })
            .collect()
    }
}

/// A server with pages of tools that says which one was called.
fn play(mut fake: Fake, name: &'static str) {
    tokio::spawn(async move {
        while let Ok(Some(line)) = fake.input.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            let Some(method) = request["method"].as_str() else { continue };
            match (method, request["params"]["cursor"].as_str()) {
                ("tools/list", None) => {
                    let list = r#"{"tools":[{"name":"_same","x":1.0}],"nextCursor":"more"}"#;
                    fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{list}}}"#, request["id"])).await;
                }
                ("tools/list", Some(_)) => {
                    fake.answer(&request, json!({"tools": [{"name": format!("only__{name}")}]})).await;
                }
                ("tools/call", _) => {
                    let token = &request["params"]["_meta"]["progressToken"];
                    if !token.is_null() {
                        let params = json!({"progressToken": token, "progress": 1});
                        fake.say(
                            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                                .to_string(),
                        )
                        .await;
                    }
                    if request["params"]["name"] == "change" {
                        fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
                    }
                    let result = json!({"server": name, "tool": request["params"]["name"]});
                    fake.answer(&request, result).await;
                }
                _ => {}
            }
        }
    });
}

async fn combined() -> (Front, Arc<Servers>) {
    let servers = Arc::new(Servers::default());
    let (old, old_fake, old_ended) = legacy(Options::default()).await;
    let (new, new_fake, new_ended) = modern(Options::default()).await;
    // This one never answers anything.
    let (broken, broken_fake, broken_ended) = legacy(Options::default()).await;
    std::mem::forget((old_ended, new_ended, broken_ended, broken_fake));
    play(old_fake, "old");
    play(new_fake, "new");
    *servers.0.lock().unwrap() =
        vec![("new-one".into(), new), ("broken".into(), broken), ("old".into(), old)];
    let options = FrontOptions { merge_timeout: Duration::from_millis(300), ..FrontOptions::default() };
    (Front::combined(servers.clone(), options), servers)
}

#[tokio::test]
async fn the_tools_of_all_servers_in_both_eras() {
    let (front, servers) = combined().await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["new-one___same", "new-one__only__new", "old___same", "old__only__old"];
    let listed = web.post(&list).await.answer().await;
    assert_eq!(names(&listed), all, "sorted, and without the one that is broken");
    assert_eq!(listed["result"]["tools"][0]["x"], json!(1.0));
    let listed = web.modern(json!(1), "tools/list", json!({})).await.answer().await;
    assert_eq!(names(&listed), all);
    assert_eq!(listed["result"]["cacheScope"], "private");

    for (name, server, tool) in
        [("new-one___same", "new", "_same"), ("old__only__old", "old", "only__old"), ("old__x", "old", "x")]
    {
        let params = json!({"name": name, "arguments": {}});
        for answer in [
            web.call(json!("i"), name, json!({})).await.answer().await,
            web.modern(json!("i"), "tools/call", params).await.answer().await,
        ] {
            assert_eq!(answer["id"], "i");
            assert_eq!(
                (&answer["result"]["server"], &answer["result"]["tool"]),
                (&json!(server), &json!(tool))
            );
        }
    }
    for unknown in ["nobody__x", "old", "old_x", ""] {
        let answer = web.call(json!(1), unknown, json!({})).await.answer().await;
        assert_eq!(answer["error"]["code"], -32602, "{unknown}");
    }
    let prompts = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"});
    assert_eq!(web.post(&prompts).await.answer().await["error"]["code"], -32601);
    // What a principal may use is what it sees, and it may change.
    let guest = Web::introduced(&front, "guest", "2025-11-25").await;
    assert_eq!(names(&guest.post(&list).await.answer().await), all[..2]);
    assert_eq!(guest.call(json!(1), "old__x", json!({})).await.answer().await["error"]["code"], -32602);
    servers.0.lock().unwrap().clear();
    assert_eq!(names(&web.post(&list).await.answer().await), [""; 0]);
    assert_eq!(web.call(json!(1), "old__x", json!({})).await.answer().await["error"]["code"], -32602);
}

#[tokio::test]
async fn progress_and_changes_come_through() {
    let (front, servers) = combined().await;
    let web = Web::introduced(&front, "me", "2025-06-18").await;
    let mut events = web.get(None).await.events();
    let mut listening = web
        .modern(
            json!("L"),
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}),
        )
        .await
        .events();
    assert_eq!(listening.data().await["params"]["notifications"], json!({"toolsListChanged": true}));
    settle().await;
    let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "old__change", "_meta": {"progressToken": "t"}}});
    let mut called = web.post(&call).await.events();
    assert_eq!(called.data().await["params"], json!({"progressToken": "t", "progress": 1}));
    assert_eq!(called.data().await["result"]["tool"], "change");
    assert_eq!(events.data().await["method"], "notifications/tools/list_changed");
    let heard = listening.data().await;
    assert_eq!(
        (&heard["method"], &heard["params"]["_meta"][TAG]),
        (&json!("notifications/tools/list_changed"), &json!("L"))
    );

    // Somebody registered or removed a server.
    servers.0.lock().unwrap().remove(0);
    front.servers_changed();
    assert_eq!(events.data().await["method"], "notifications/tools/list_changed");
    assert_eq!(listening.data().await["method"], "notifications/tools/list_changed");
    events.silence(30).await;
}

/// A list is not held up, each time, by a program that never gets ready.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_starting_is_hardly_waited_for() {
    let servers = Arc::new(Servers::default());
    let (io, _silent) = pipes(1 << 16);
    let (starting, _ended) = Bridge::start(Options::default(), io);
    let (ready, fake, _ended) = legacy(Options::default()).await;
    play(fake, "ready");
    *servers.0.lock().unwrap() = vec![("ready".into(), ready), ("starting".into(), starting)];
    let front = Front::combined(servers, FrontOptions::default());
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let began = tokio::time::Instant::now();
    let list = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.answer().await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2, "{list}");
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
}

struct Changing(watch::Sender<u64>);

#[async_trait::async_trait]
impl Directory for Changing {
    async fn members(&self, _: &Principal) -> Vec<Member> {
        Vec::new()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.subscribe())
    }
}

#[tokio::test]
async fn clients_hear_that_there_are_other_servers() {
    let directory = Arc::new(Changing(watch::Sender::new(0)));
    let front = Front::combined(directory.clone(), FrontOptions::default());
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = web.get(None).await.events();
    directory.0.send_replace(1);
    assert_eq!(events.data().await["method"], "notifications/tools/list_changed");
}
