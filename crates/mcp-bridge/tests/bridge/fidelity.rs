use emergent_mcp_bridge::{Options, Reply};

use crate::support::{call, legacy, modern, raw};

/// Everything that a parser that builds a tree would change.
const ODD: &str = r#"{ "b":1,"a":2, "b":3 ,"big":123456789012345678901234567890,"f":1.10,"e":1E+2,"neg":-0.0,"esc":"\u0041\/\ud83d\ude00é\u007f","lone":"\ud800","":null,"deep":[[[]],{ }]}"#;

/// A tree would not hold what is in these messages.
fn id_of(message: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Id {
        id: u64,
    }
    serde_json::from_str::<Id>(message).unwrap().id.to_string()
}

#[tokio::test]
async fn requests_and_answers_keep_their_bytes() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let text = |id: &str, token: &str| {
        format!(
            r#"{{"extra":{ODD}, "params" : {{"name":"t","arguments":{ODD},"_meta":{{"a":1,"progressToken" : {token} ,"z":1.0}}}},"method":"tools/\u0063all","id" :{id} ,"jsonrpc":"2.0"}}"#
        )
    };
    let sent = raw(text("\"me\"", "\"tok\""));
    let answer = |id: &str| format!(r#" {{"result" : {ODD} ,"id":{id}, "jsonrpc":"2.0","more":1.0}}"#);
    let (got, ()) = tokio::join!(client.request(sent), async {
        let heard = fake.hear_text().await;
        let id = id_of(&heard);
        assert_eq!(heard, text(&id, &id));
        fake.say(&answer(&id)).await;
    });
    assert_eq!(got.unwrap().as_str(), answer("\"me\""));
}

#[tokio::test]
async fn errors_of_the_server_keep_their_bytes() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let error = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","error":{{"data":{ODD},"code":-32602,"message":"x"}},"id":{id}}}"#)
    };
    let (got, ()) = tokio::join!(client.request(call("5", "resources/read", r#"{"uri":"x"}"#)), async {
        let id = fake.hear().await["id"].to_string();
        fake.say(&error(&id)).await;
    });
    assert_eq!(got.unwrap().as_str(), error("5"));
}

#[tokio::test]
async fn the_plain_call_keeps_arguments_and_results() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let arguments = raw(ODD);
    let (reply, ()) = tokio::join!(handle.call_tool("a \"tool\"", Some(&arguments), None), async {
        let heard = fake.hear_text().await;
        assert!(heard.contains(&format!(r#""params":{{"name":"a \"tool\"","arguments":{ODD}}}"#)), "{heard}");
        let id = id_of(&heard);
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{ODD}}}"#)).await;
    });
    assert_eq!(reply.unwrap(), Reply::Result(raw(ODD)));
}

#[tokio::test]
async fn a_pretty_printed_request_becomes_one_line_of_the_same_length() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let sent =
        "{\r\n  \"jsonrpc\": \"2.0\",\n  \"id\": 3,\n  \"method\": \"tools/list\",\n \"params\": {\n}\n}\n";
    let (got, ()) = tokio::join!(client.request(raw(sent)), async {
        let heard = fake.hear_text().await;
        assert_eq!(heard, sent.replace(['\n', '\r'], " "));
        fake.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
    });
    got.unwrap();
}

#[tokio::test]
async fn what_the_newer_era_requires_is_added_and_nothing_else_changes() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = handle.connect().unwrap();
    let (got, ()) =
        tokio::join!(client.request(call("1", "tools/call", &format!(r#"{{"arguments":{ODD}}}"#))), async {
            let heard = fake.hear_text().await;
            assert!(heard.contains(&format!(r#""arguments":{ODD}"#)), "{heard}");
            let id = id_of(&heard);
            fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{ODD}}}"#)).await;
        });
    assert_eq!(got.unwrap().as_str(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ODD}}}"#));
}
