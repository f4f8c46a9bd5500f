use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{Bridge, Options, RawJson};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{call, echo, legacy, pipes, plain, raw, value};

#[tokio::test]
async fn fifty_clients_that_all_use_id_1() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let mut asked = Vec::new();
    for n in 0..50 {
        let client = handle.connect().unwrap();
        asked.push(tokio::spawn(async move {
            client.request(call("1", "tools/call", &format!(r#"{{"arguments":{n}}}"#))).await.unwrap()
        }));
    }
    let mut heard = Vec::new();
    for _ in 0..50 {
        heard.push(fake.expect("tools/call").await);
    }
    let ids: HashSet<u64> = heard.iter().map(|request| request["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 50);
    for request in heard.iter().rev() {
        fake.answer(request, request["params"]["arguments"].clone()).await;
    }
    for (n, asked) in asked.into_iter().enumerate() {
        assert_eq!(value(&asked.await.unwrap()), json!({"jsonrpc": "2.0", "id": 1, "result": n}));
    }
}

/// Answers are shuffled, some come twice, some come for ids that were never given out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_and_no_answer_astray() {
    let (io, mut fake) = pipes(1 << 16);
    let (handle, _ended) = Bridge::start(plain(), io);
    tokio::spawn(async move {
        fake.initialize().await;
        let mut seen = HashSet::new();
        let mut held: Vec<Value> = Vec::new();
        loop {
            let patience = Duration::from_millis(20);
            match tokio::time::timeout(patience, fake.input.next_line()).await {
                Ok(Ok(Some(line))) => {
                    let request: Value = serde_json::from_str(&line).unwrap();
                    assert!(seen.insert(request["id"].as_u64().unwrap()), "an id was used twice");
                    held.push(request);
                    if held.len() < 17 {
                        continue;
                    }
                }
                Ok(_) => return,
                Err(_) if held.is_empty() => continue,
                Err(_) => {}
            }
            let mix = seen.len().wrapping_mul(31);
            while !held.is_empty() {
                let request = held.swap_remove(mix % held.len());
                let result = request["params"]["arguments"].clone();
                fake.answer(&request, result).await;
                if seen.len() % 7 == 0 {
                    fake.answer(&request, json!("twice")).await;
                    fake.say(r#"{"jsonrpc":"2.0","id":987654321,"result":"whose"}"#).await;
                }
            }
        }
    });
    let mut tasks = Vec::new();
    for client_number in 0..50 {
        let client = Arc::new(handle.connect().unwrap());
        for lane in 0..4 {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                for n in 0..50 {
                    let nonce = format!("{client_number}/{lane}/{n}");
                    let id = format!("\"{lane}-{n}\"");
                    let request = call(&id, "tools/call", &format!(r#"{{"arguments":"{nonce}"}}"#));
                    let answer = value(&client.request(request).await.unwrap());
                    assert_eq!(answer["result"], nonce);
                    assert_eq!(answer["id"], format!("{lane}-{n}"));
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(handle.stats().late_answers > 100);
}

#[tokio::test]
async fn ids_and_tokens_keep_their_type_and_spelling() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = Arc::new(handle.connect().unwrap());
    for id in
        ["1", "\"1\"", "1.0", "1e2", "-7", "\"\\u0061\\n\"", "123456789012345678901234567890", "0.5", "\"\""]
    {
        let asked = tokio::spawn({
            let client = client.clone();
            let request =
                call(id, "tools/call", &format!(r#"{{"_meta":{{"progressToken":{id},"x":{id}}}}}"#));
            async move { client.request(request).await.unwrap() }
        });
        let heard = fake.hear().await;
        let own = heard["id"].as_u64().unwrap();
        let token = heard["params"]["_meta"]["progressToken"].as_u64().unwrap();
        fake.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}.0,"progress":1}}}}"#)).await;
        // Some servers read ids as floats.
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{own}.0,"result":{{}}}}"#)).await;
        let answer = asked.await.unwrap();
        assert_eq!(answer.as_str(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let notice = match crate::support::next(&client).await {
            emergent_mcp_bridge::Incoming::Notification { about: Some(_), message } => message,
            other => panic!("{other:?}"),
        };
        assert!(notice.as_str().contains(&format!(r#""progressToken":{id},"#)), "{}", notice.as_str());
    }
}

fn json_id() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i128>().prop_map(|n| n.to_string()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,10})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Many clients, any ids, the same ones at the same time: each gets its own id and its own result.
    #[test]
    fn whatever_the_ids_each_answer_is_its_callers(ids in proptest::collection::vec((json_id(), 0usize..4), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (handle, _ended) = echo(plain());
            let clients: Vec<_> = (0..4).map(|_| handle.connect().unwrap()).collect();
            let asked = ids.iter().enumerate().map(|(n, (id, client))| {
                let request = call(id, "tools/call", &format!(r#"{{"arguments":{n}}}"#));
                let client = &clients[*client];
                async move { (n, id, client.request(request).await.unwrap()) }
            });
            for (n, id, answer) in futures::future::join_all(asked).await {
                let expect: RawJson = raw(format!(r#"{{"id":{id},"jsonrpc":"2.0","result":{n}}}"#));
                assert_eq!(answer.as_str(), expect.as_str());
            }
        });
    }
}
