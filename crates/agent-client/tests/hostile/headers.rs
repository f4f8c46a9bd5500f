//! An agent that begins to answer and never ends its headers.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_agent_client::{
    AgentClient, AgentDialer, AgentError, AgentKey, AgentStream, DialError, Greeting,
};
use emergent_types::WorkspaceId;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

/// What every client says first.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

struct Endless;

#[async_trait]
impl AgentDialer for Endless {
    async fn dial(&self) -> Result<AgentStream, DialError> {
        let (near, far) = tokio::io::duplex(256 << 10);
        // Ends when the client has had enough and closes.
        tokio::spawn(async move { headers_without_end(far).await });
        Ok(Box::new(near))
    }
}

async fn headers_without_end(mut stream: DuplexStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; PREFACE]).await?;
    stream.write_all(&frame(SETTINGS, 0, &[])).await?;
    let call = loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] == HEADERS {
            break u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        }
    };
    // `:status: 200`, and then `a: ` again and again; none says that it is the last.
    stream.write_all(&frame(HEADERS, call, &[0x88])).await?;
    let more = frame(CONTINUATION, call, &[0x00, 0x01, b'a', 0x00].repeat(1000));
    loop {
        stream.write_all(&more).await?;
    }
}

fn frame(kind: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, 0];
    frame.extend(stream.to_be_bytes());
    frame.extend(content);
    frame
}

/// The word for it on this side, "calm down", is not what the agent said: nobody made too many calls.
#[tokio::test]
async fn headers_that_never_end_make_no_sense() {
    let greeting = Greeting {
        key: AgentKey::derive(b"secret", WorkspaceId::generate()),
        environment: Default::default(),
        deadline_unix_ms: 0,
    };
    let client = AgentClient::new(Arc::new(Endless), greeting);
    let error = client.stat("x").await.expect_err("no answer");
    assert!(matches!(error, AgentError::Malformed { .. }), "{error:?}");
}
