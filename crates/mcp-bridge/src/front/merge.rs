//! The tools of several servers in one list.

use std::time::Duration;

use futures::future::join_all;
use serde_json::value::RawValue;

use super::combined::{Combined, Member, SEPARATOR};
use crate::handshake::request;
use crate::json::{Kind, Message, Outcome, RawJson, Splice, pick, quoted, span_of, text_of};

/// How many pages of a server's list are read, and how many bytes.
const MOST_PAGES: usize = 64;
const MOST_BYTES: usize = 4 << 20;
/// How long a server is waited for that is being started.
const STARTING: Duration = Duration::from_secs(1);

/// The tools of all servers, each as it was sent but for its name. A server that does not answer
/// in time is left out, and the others are not.
pub(super) async fn tools(combined: &Combined, patience: Duration) -> Vec<String> {
    let members = combined.members().await;
    let lists = join_all(members.iter().map(|member| async move {
        let listed = tokio::time::timeout(patience, tools_of(combined, member, patience)).await;
        let listed = listed.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        listed.unwrap_or_else(|reason| {
            tracing::warn!(server = member.name, reason, "the tools of an MCP server are not offered");
            Vec::new()
        })
    }));
    lists.await.concat()
}

async fn tools_of(combined: &Combined, member: &Member, patience: Duration) -> Result<Vec<String>, String> {
    let link = combined.link(member).await.map_err(|error| error.to_string())?;
    // Whoever asks for all tools must not wait for a program that may never be ready: each list would.
    if link.is_starting() {
        let ready = link.ready(patience.min(STARTING)).await;
        ready.map_err(|_| "it is still starting".to_owned())?;
    }
    let (mut tools, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    for _ in 0..MOST_PAGES {
        let params = cursor.map(|cursor| format!(r#""cursor":{}"#, quoted(&cursor))).unwrap_or_default();
        let call = link.client.begin(request(1, "tools/list", &params), Some(patience)).await;
        let answer = match call {
            Ok(call) => call.answer().await,
            Err(error) => Err(error),
        };
        let page = Page::read(answer.map_err(|error| error.to_string())?)?;
        bytes += page.tools.iter().map(String::len).sum::<usize>();
        if bytes > MOST_BYTES {
            return Err("its list of tools is too long".to_owned());
        }
        tools.extend(page.tools.iter().filter_map(|tool| renamed(tool, &member.name)));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(tools)
}

struct Page {
    tools: Vec<String>,
    next: Option<String>,
}

impl Page {
    fn read(answer: RawJson) -> Result<Self, String> {
        let message = Message::read(answer).map_err(|malformed| malformed.to_string())?;
        let result = match &message.kind {
            Kind::Response { outcome: Outcome::Result(result), .. } => message.at(result),
            Kind::Response { outcome: Outcome::Error(error), .. } => {
                return Err(message.at(error).to_owned());
            }
            _ => return Err("its answer is no response".to_owned()),
        };
        let [tools, next] =
            pick(result, ["tools", "nextCursor"]).map_err(|malformed| malformed.to_string())?;
        let tools: Vec<&RawValue> =
            serde_json::from_str(tools.unwrap_or("[]")).map_err(|error| error.to_string())?;
        Ok(Self {
            tools: tools.iter().map(|tool| tool.get().to_owned()).collect(),
            next: next.and_then(text_of),
        })
    }
}

/// A tool under the name of its server. `None` for one without a name.
fn renamed(tool: &str, server: &str) -> Option<String> {
    let [name] = pick(tool, ["name"]).ok()?;
    let name = name?;
    let whole = format!("{server}{SEPARATOR}{}", text_of(name)?);
    let mut splice = Splice::new(tool);
    splice.replace(span_of(tool, name), quoted(&whole));
    Some(splice.finish().as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_changes() {
        let tool = r#"{ "title":"T","name" : "\u0061_b","inputSchema":{"x":1.0,"name":"n"}}"#;
        let expect = r#"{ "title":"T","name" : "my-server__a_b","inputSchema":{"x":1.0,"name":"n"}}"#;
        assert_eq!(renamed(tool, "my-server").unwrap(), expect);
        assert_eq!(renamed("{}", "s"), None);
    }

    #[test]
    fn names_are_taken_apart_where_they_were_put_together() {
        for (server, tool) in [("a", "_b"), ("a-b", "__c"), ("a", "b__c"), ("x9", "")] {
            let whole = format!("{server}{SEPARATOR}{tool}");
            assert_eq!(whole.split_once(SEPARATOR), Some((server, tool)));
        }
    }
}
