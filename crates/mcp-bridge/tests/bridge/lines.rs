use std::time::Duration;

use emergent_mcp_bridge::{CallError, Options};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::{call, legacy, plain, value};

#[tokio::test]
async fn garbage_is_skipped_counted_and_never_answered() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(call("1", "tools/list", "{}")), async {
        let request = fake.hear().await;
        for garbage in
            ["hello", "{", "42", "null", "{}", r#"{"level":"info"}"#, "[1]", r#"{"id":1,"id":1,"result":1}"#]
        {
            fake.say(garbage).await;
        }
        fake.output.write_all(b"\xff\xfe\x00\n\r\n\n").await.unwrap();
        fake.output.write_all("\u{feff}".as_bytes()).await.unwrap();
        fake.say(&format!("{}\r", json!({"id": request["id"], "result": {}}))).await;
        fake.silence(30).await;
    });
    assert_eq!(value(&got.unwrap())["id"], 1);
    assert_eq!(handle.stats().garbage_lines, 9);
    assert_eq!(handle.stats().repaired_lines, 1);
}

#[tokio::test]
async fn an_answer_with_bytes_that_are_not_utf8_is_repaired() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(call("1", "tools/list", "{}")), async {
        let id = fake.hear().await["id"].to_string();
        let line = [format!(r#"{{"id":{id},"result":{{"x":"a"#).as_bytes(), b"\xff", b"b\"}}\n"].concat();
        fake.output.write_all(&line).await.unwrap();
    });
    assert_eq!(value(&got.unwrap())["result"]["x"], "a\u{fffd}b");
}

#[tokio::test]
async fn a_batch_of_answers_is_taken_apart() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let (one, two, ()) = tokio::join!(
        client.request(call("1", "tools/list", "{}")),
        client.request(call("2", "tools/list", "{}")),
        async {
            let (first, second) = (fake.hear().await, fake.hear().await);
            let answers = json!([{"id": second["id"], "result": "b"}, 5, {"id": first["id"], "result": "a"}]);
            fake.say(&answers.to_string()).await;
        }
    );
    assert_eq!(
        (&value(&one.unwrap())["result"], &value(&two.unwrap())["result"]),
        (&json!("a"), &json!("b"))
    );
}

#[tokio::test]
async fn an_answer_that_is_too_long_fails_its_call_at_once() {
    let (handle, mut fake, _ended) = legacy(Options { max_line_bytes: 10_000, ..Options::default() }).await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(call("1", "tools/list", "{}")), async {
        let id = fake.hear().await["id"].to_string();
        fake.say(&format!(r#"{{"result":"{}","jsonrpc":"2.0","id":{id}}}"#, "x".repeat(20_000))).await;
    });
    assert_eq!(got.unwrap_err(), CallError::AnswerTooLong { limit: 10_000 });
    assert_eq!(handle.stats().long_lines, 1);
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(20_000));
    let error = client.request(call("2", "tools/call", &long)).await.unwrap_err();
    assert!(matches!(error, CallError::TooLong { limit: 10_000, .. }));
    fake.silence(30).await;
}

#[tokio::test]
async fn a_last_line_without_an_end_counts() {
    let (handle, mut fake, ended) = legacy(plain_probe()).await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(call("1", "tools/list", "{}")), async {
        let id = fake.hear().await["id"].to_string();
        fake.output.write_all(format!(r#"{{"id":{id},"result":{{}}}}"#).as_bytes()).await.unwrap();
        drop(fake);
    });
    got.unwrap();
    ended.await.unwrap();
}

fn plain_probe() -> Options {
    Options { era: emergent_mcp_bridge::EraChoice::Probe, call_timeout: Duration::from_secs(5), ..plain() }
}
