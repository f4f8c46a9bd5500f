//! A server that says what a test tells it to.

use std::time::Duration;

use emergent_mcp_bridge::{Bridge, Client, Ended, EraChoice, Handle, Incoming, Options, RawJson, ServerIo};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

pub(crate) const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}"#;

pub(crate) struct Fake {
    pub(crate) input: Lines<BufReader<DuplexStream>>,
    pub(crate) output: DuplexStream,
}

/// The two ends of a process: the bridge's and the script's.
pub(crate) fn pipes(size: usize) -> (ServerIo, Fake) {
    let (stdin, input) = tokio::io::duplex(size);
    let (output, stdout) = tokio::io::duplex(size);
    (ServerIo::new(stdin, stdout), Fake { input: BufReader::new(input).lines(), output })
}

impl Fake {
    pub(crate) async fn hear_text(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(40), self.input.next_line()).await;
        line.expect("the bridge said nothing").unwrap().expect("the bridge closed stdin")
    }

    pub(crate) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.hear_text().await).unwrap()
    }

    /// Hears a request with this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let heard = self.hear().await;
        assert_eq!(heard["method"], method, "{heard}");
        heard
    }

    /// Nothing may be said within this time.
    pub(crate) async fn silence(&mut self, ms: u64) {
        let heard = tokio::time::timeout(Duration::from_millis(ms), self.input.next_line()).await;
        assert!(heard.is_err(), "heard {heard:?}");
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await;
    }

    pub(crate) async fn be_legacy(&mut self) {
        let probe = self.expect("server/discover").await;
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#,
            probe["id"]
        ))
        .await;
        self.initialize().await;
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let hello = self.expect("initialize").await;
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"serverInfo":{{"name":"fake","version":"1"}}}}}}"#,
            hello["id"]
        ))
        .await;
        self.expect("notifications/initialized").await;
        hello
    }

    /// Answers the discovery, and the listen request that follows. Returns the id of the latter.
    pub(crate) async fn be_modern(&mut self) -> Value {
        let probe = self.expect("server/discover").await;
        assert_eq!(probe["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{CAPABILITIES},"serverInfo":{{"name":"fake","version":"1"}},"ttlMs":0,"cacheScope":"private"}}}}"#,
            probe["id"]
        ))
        .await;
        self.acknowledge_listen().await
    }

    pub(crate) async fn acknowledge_listen(&mut self) -> Value {
        let listen = self.expect("subscriptions/listen").await;
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}},"notifications":{{}}}}}}"#,
            listen["id"]
        ))
        .await;
        listen
    }
}

/// A bridge on a legacy server after its handshake.
pub(crate) async fn legacy(options: Options) -> (Handle, Fake, JoinHandle<Ended>) {
    let (io, mut fake) = pipes(1 << 16);
    let (handle, ended) = Bridge::start(options, io);
    fake.be_legacy().await;
    handle.ready(Duration::from_secs(5)).await.unwrap();
    (handle, fake, ended)
}

/// A bridge on a server of the newer era after its handshake.
pub(crate) async fn modern(options: Options) -> (Handle, Fake, JoinHandle<Ended>) {
    let (io, mut fake) = pipes(1 << 16);
    let (handle, ended) = Bridge::start(options, io);
    fake.be_modern().await;
    handle.ready(Duration::from_secs(5)).await.unwrap();
    (handle, fake, ended)
}

/// Without the probe, for tests that do not care.
pub(crate) fn plain() -> Options {
    Options { era: EraChoice::Legacy, ..Options::default() }
}

/// A server that answers each call at once with its own arguments.
pub(crate) fn echo(options: Options) -> (Handle, JoinHandle<Ended>) {
    let (io, mut fake) = pipes(1 << 16);
    let started = Bridge::start(Options { era: EraChoice::Legacy, ..options }, io);
    tokio::spawn(async move {
        fake.initialize().await;
        while let Ok(Some(line)) = fake.input.next_line().await {
            let heard: Value = serde_json::from_str(&line).unwrap();
            if heard.get("id").is_some() {
                fake.answer(&heard, heard["params"]["arguments"].clone()).await;
            }
        }
    });
    started
}

pub(crate) fn raw(text: impl AsRef<str>) -> RawJson {
    RawJson::parse(text.as_ref()).unwrap()
}

pub(crate) fn value(message: &RawJson) -> Value {
    serde_json::from_str(message.as_str()).unwrap()
}

/// A request of the older era. `id` is JSON. What calls a tool that is not named calls one all the same.
pub(crate) fn call(id: &str, method: &str, params: &str) -> RawJson {
    if method == "tools/call" && !params.contains(r#""name":"#) {
        let rest = params.trim_start().strip_prefix('{').unwrap();
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        let params = format!(r#"{{"name":"t"{comma}{rest}"#);
        return raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }
    raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
}

/// A request of the newer era. `members` are params.
pub(crate) fn modern_call(id: &str, method: &str, members: &str) -> RawJson {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let comma = if members.is_empty() { "" } else { "," };
    call(id, method, &format!("{{{members}{comma}{meta}}}"))
}

pub(crate) async fn introduce(client: &Client, version: &str) -> Value {
    let params = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"sampling":{{}}}},"clientInfo":{{"name":"t","version":"1"}}}}"#
    );
    let answer = client.request(call("0", "initialize", &params)).await.unwrap();
    client.notify(raw(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await.unwrap();
    value(&answer)
}

/// The next message for a client.
pub(crate) async fn next(client: &Client) -> Incoming {
    let incoming = client.incoming();
    futures::pin_mut!(incoming);
    let next = tokio::time::timeout(Duration::from_secs(40), incoming.next()).await;
    next.expect("nothing came").expect("closed")
}

pub(crate) async fn next_notice(client: &Client) -> Value {
    match next(client).await {
        Incoming::Notification { message, .. } => value(&message),
        other @ Incoming::Request { .. } => panic!("{other:?}"),
    }
}

/// Nothing may wait for the client.
pub(crate) async fn nothing(client: &Client) {
    let incoming = client.incoming();
    futures::pin_mut!(incoming);
    let next = tokio::time::timeout(Duration::from_millis(30), incoming.next()).await;
    assert!(next.is_err(), "{next:?}");
}
