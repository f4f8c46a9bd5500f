//! A client of Streamable HTTP with as little around it as possible.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::{check, echo_call, hello, initialized};
use crate::http::{Connection, Endpoint};

const SESSION: &str = "mcp-session-id";

/// A session, and the connection that it is on.
pub(crate) struct Session {
    connection: Connection,
    path: String,
    id: Option<String>,
}

impl Session {
    pub(crate) async fn open(endpoint: &Endpoint, path: &str) -> Result<Self> {
        let connection = Connection::open(endpoint).await?;
        let mut session = Self { connection, path: path.to_owned(), id: None };
        let answer = session.post(&hello()).await?;
        session.id = match answer.headers().get(SESSION) {
            Some(id) => Some(id.to_str()?.to_owned()),
            None => None,
        };
        session.post(&initialized()).await?;
        Ok(session)
    }

    pub(crate) async fn echo(&mut self, number: usize) -> Result<()> {
        let answer = self.post(&echo_call(number)).await?;
        let text = std::str::from_utf8(answer.body())?;
        let mut events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        // A stream has the answer in its last event.
        let json = if text.starts_with('{') { Some(text) } else { events.rfind(|data| !data.is_empty()) };
        let json = json.with_context(|| format!("no answer: {text}"))?;
        check(&serde_json::from_str(json)?, number)
    }

    async fn post(&mut self, message: &Value) -> Result<http::Response<Bytes>> {
        let mut request = self.connection.request(Method::POST, &self.path);
        request = request.header(CONTENT_TYPE, "application/json");
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if let Some(id) = &self.id {
            request = request.header(SESSION, id).header("mcp-protocol-version", "2025-11-25");
        }
        let answer = self.connection.exchange(request, Bytes::from(message.to_string())).await?;
        let said = || String::from_utf8_lossy(answer.body()).into_owned();
        ensure!(answer.status().is_success(), "{}: {}", answer.status(), said());
        Ok(answer)
    }
}
