//! A client hears these bytes from an agent that is hostile: it must not panic, and must not wait for
//! what does not come.

#![no_main]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::{
    AgentClient, AgentDialer, AgentKey, AgentStream, CommandSpec, DialError, ExecOptions, Greeting,
};
use emergent_types::WorkspaceId;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Frames of HTTP/2: no settings, and the client's are taken note of.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
/// The head of a good answer to the first call.
const HEAD: &[u8] = b"\x00\x00\x14\x01\x04\x00\x00\x00\x01\x88\x0f\x10\x10application/grpc";
/// Its end.
const TRAILERS: &[u8] = b"\x00\x00\x0f\x01\x05\x00\x00\x00\x01\x00\x0bgrpc-status\x010";
/// What a frame holds at most.
const MAX_FRAME: usize = 16 << 10;
/// How much an agent says.
const MAX_SAID: usize = 48 << 10;

/// An agent that says these bytes on the first stream, and is gone afterwards.
struct Hostile(Mutex<Option<Vec<u8>>>);

#[async_trait]
impl AgentDialer for Hostile {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        let said = self.0.lock().unwrap().take();
        let said = said.ok_or_else(|| DialError { reason: "it is gone".to_owned() })?;
        let (ours, theirs) = tokio::io::duplex(128 << 10);
        tokio::spawn(say(theirs, said));
        Ok(Box::new(ours))
    }
}

async fn say(mut stream: DuplexStream, said: Vec<u8>) {
    let _ = stream.write_all(SETTINGS).await;
    // An answer to what was not asked yet would be refused at once.
    let mut heard = [0; 4096];
    for _ in 0..3 {
        let _ = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut heard)).await;
    }
    let _ = stream.write_all(&said).await;
}

/// The first byte says what kind of agent it is: one whose frames are well-formed and whose message is
/// anything, or one that says anything.
fn answer(data: &[u8]) -> Vec<u8> {
    let Some((kind, said)) = data.split_first() else { return Vec::new() };
    let said = said.get(..MAX_SAID).unwrap_or(said);
    match kind % 3 {
        0 => said.to_vec(),
        1 => [HEAD, said].concat(),
        _ => {
            let length = u32::try_from(said.len()).unwrap_or_default().to_be_bytes();
            let message = [&[0], &length[..], said].concat();
            let mut frames = HEAD.to_vec();
            for part in message.chunks(MAX_FRAME) {
                frames.extend(&u32::try_from(part.len()).unwrap_or_default().to_be_bytes()[1..]);
                frames.extend([0, 0, 0, 0, 0, 1]);
                frames.extend(part);
            }
            [&frames, TRAILERS].concat()
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let key = AgentKey::derive(b"fuzz", WorkspaceId::generate());
        let greeting = Greeting { key, environment: HashMap::new(), deadline_unix_ms: 0 };
        let client = AgentClient::new(Arc::new(Hostile(Mutex::new(Some(answer(data))))), greeting);
        let calls = async {
            let _ = client.greet().await;
            // Whatever it has said, it is gone.
            assert!(client.exec(&CommandSpec::shell("true"), ExecOptions::default()).await.is_err());
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), calls).await;
        ended.expect("a stream that ended is not waited for");
    });
});
