use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{IdKey, Malformed, RawJson, Span, Splice, folded_names, pick, span_of, text_of};

/// The members that make a message what it is.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// A JSON-RPC message: its text, and where in it the members are that the bridge reads.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) text: RawJson,
    pub(crate) kind: Kind,
}

/// What a message is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Request { id: Span, method: String, params: Option<Span> },
    Notification { method: String, params: Option<Span> },
    Response { id: Span, outcome: Outcome },
}

/// The member that makes a response one.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Result(Span),
    Error(Span),
}

impl Message {
    /// Reads what a server wrote. Servers leave `jsonrpc` out or write `"error": null` beside a
    /// result; that harms nobody, so it is let through.
    pub(crate) fn read(text: RawJson) -> Result<Self, Malformed> {
        let whole = text.as_str();
        let [id, method, params, result, error] = pick(whole, ["id", "method", "params", "result", "error"])?;
        let at = |member: &str| span_of(whole, member);
        let kind = match (id, method) {
            (id, Some(method)) => {
                let method = text_of(method).ok_or(Malformed::Shape("the method is not a string"))?;
                let params = params.map(at);
                match id {
                    None => Kind::Notification { method, params },
                    Some(id) if IdKey::of(id).is_some() => Kind::Request { id: at(id), method, params },
                    Some(_) => return Err(Malformed::Shape("the id is neither a string nor a number")),
                }
            }
            (Some(id), None) => {
                let outcome = match (result, error.filter(|error| *error != "null")) {
                    (Some(result), None) => Outcome::Result(at(result)),
                    (None, Some(error)) => Outcome::Error(at(error)),
                    _ => return Err(Malformed::Shape("a response has either a result or an error")),
                };
                Kind::Response { id: at(id), outcome }
            }
            (None, None) => return Err(Malformed::Shape("the message has neither a method nor an id")),
        };
        Ok(Self { text, kind })
    }

    /// Reads what a client sent. Params must be an object, as MCP has it: the bridge has to find
    /// `_meta` in them. What the bridge decides by what it reads here the server must not read otherwise, so
    /// nothing is in it that readers disagree about: no member twice, and none in another case.
    pub(crate) fn read_strictly(text: RawJson) -> Result<Self, Malformed> {
        if text.is_batch() {
            return Err(Malformed::Shape("a batch is not allowed here"));
        }
        let [version] = pick(text.as_str(), ["jsonrpc"])?;
        if version.and_then(text_of).as_deref() != Some("2.0") {
            return Err(Malformed::Shape("jsonrpc is not \"2.0\""));
        }
        let message = Self::read(text)?;
        if message.params().is_some_and(|params| !params.starts_with('{')) {
            return Err(Malformed::Shape("params is not an object"));
        }
        for (folded, name) in folded_names(message.text.as_str())? {
            if MEMBERS.contains(&folded.as_str()) && folded != name {
                return Err(Malformed::Shape("a member of the message is written in another case"));
            }
        }
        let mut seen = HashSet::new();
        for (folded, name) in message.params().map(folded_names).transpose()?.unwrap_or_default() {
            if !seen.insert(folded) {
                return Err(Malformed::Duplicate(name));
            }
        }
        Ok(message)
    }

    pub(crate) fn at(&self, span: &Span) -> &str {
        &self.text.as_str()[span.clone()]
    }

    /// The text of the params; `None` if there are none.
    pub(crate) fn params(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request { params, .. } | Kind::Notification { params, .. } => {
                params.as_ref().map(|span| self.at(span))
            }
            Kind::Response { .. } => None,
        }
    }

    /// A member of the params.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        pick(self.params()?, [name]).ok()?[0]
    }

    /// The same message with other text at some places.
    pub(crate) fn with(&self, edits: impl IntoIterator<Item = (Span, String)>) -> RawJson {
        let mut splice = Splice::new(self.text.as_str());
        for (at, text) in edits {
            splice.replace(at, text);
        }
        splice.finish()
    }
}

/// The messages of a batch, each as it was written.
pub(crate) fn split_batch(text: &RawJson) -> Result<Vec<RawJson>, Malformed> {
    let parts: Vec<&RawValue> =
        serde_json::from_str(text.as_str()).map_err(|e| Malformed::NotJson(e.to_string()))?;
    Ok(parts.into_iter().map(|part| RawJson::known(part.get().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message, Malformed> {
        Message::read(RawJson::known(text.to_owned()))
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(matches!(read(r#"{"id":1,"method":"a"}"#).unwrap().kind, Kind::Request { .. }));
        assert!(matches!(read(r#"{"m\u0065thod":"a"}"#).unwrap().kind, Kind::Notification { .. }));
        let kind = read(r#"{"id":1,"error":null,"result":null}"#).unwrap().kind;
        assert!(matches!(kind, Kind::Response { outcome: Outcome::Result(_), .. }));
        for bad in ["1", "{}", "[]", "{\"id\":1}", r#"{"id":null,"method":"a"}"#, r#"{"method":1}"#, "{} x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(read(r#"{"id":1,"id":2,"method":"a"}"#).unwrap_err(), Malformed::Duplicate("id".into()));
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{{\"id\":1,\"result\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(read(&deep).is_ok());
    }

    #[test]
    fn clients_are_held_to_the_rules() {
        for bad in [
            r#"{"id":1,"method":"a"}"#,
            r#"[{"jsonrpc":"2.0"}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1,"x":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":1,"Name":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"\ud800":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","Param\u017f":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"METHOD":"b"}"#,
        ] {
            assert!(Message::read_strictly(RawJson::known(bad.to_owned())).is_err(), "{bad}");
        }
    }
}
