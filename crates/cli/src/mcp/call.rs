//! `emergent mcp call`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use emergent_client::{Client, McpAnswer};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Its name or id
    server: String,
    /// The tool to call, or with --method any other method; the list of tools where neither is said
    tool: Option<String>,
    /// The tool's arguments, or the method's parameters: a JSON object
    arguments: Option<String>,
    /// Call this method instead of a tool
    #[arg(long)]
    method: Option<String>,
    /// How long to wait, in milliseconds [default: the server's]
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
}

impl Call {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let (method, params) = self.request()?;
        let timeout = self.timeout.map(Duration::from_millis);
        let answer = client.call_mcp_server(&self.server, &method, Some(&params), timeout).await?;
        let failed = answer.error.is_some() || is_error(&answer);
        output.result(&answer, |answer| human(answer, output));
        // The server's own refusal is no success for a script.
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn request(&self) -> Result<(String, Value), Failure> {
        let object = |text: Option<&String>| match text.map(|text| serde_json::from_str(text)) {
            None => Ok(json!({})),
            Some(Ok(Value::Object(object))) => Ok(Value::Object(object)),
            Some(_) => Err(Failure::Usage("the arguments must be a JSON object")),
        };
        match (&self.method, &self.tool) {
            // What stands first is the parameters then.
            (Some(_), Some(_)) if self.arguments.is_some() => {
                Err(Failure::Usage("--method takes parameters only, and no tool"))
            }
            (Some(method), params) => Ok((method.clone(), object(params.as_ref())?)),
            (None, None) => Ok(("tools/list".to_owned(), json!({}))),
            (None, Some(tool)) => {
                let arguments = object(self.arguments.as_ref())?;
                Ok(("tools/call".to_owned(), json!({"name": tool, "arguments": arguments})))
            }
        }
    }
}

/// Whether a tool says that it failed.
fn is_error(answer: &McpAnswer) -> bool {
    answer.result.as_ref().and_then(|result| result["isError"].as_bool()).unwrap_or(false)
}

/// The texts of a tool's answer, the names of tools, or else what was answered.
fn human(answer: &McpAnswer, output: Output) -> String {
    let whole = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let Some(result) = &answer.result else {
        return whole(answer.error.as_ref().unwrap_or(&Value::Null));
    };
    let texts = |list: &Value, member: &str| -> Option<Vec<String>> {
        list.as_array()?.iter().map(|item| item[member].as_str().map(str::to_owned)).collect()
    };
    let lines = texts(&result["content"], "text").or_else(|| texts(&result["tools"], "name"));
    match lines {
        Some(lines) => lines.iter().flat_map(|text| output.contents(text)).collect::<Vec<_>>().join("\n"),
        None => whole(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: Option<&str>, arguments: Option<&str>, method: Option<&str>) -> Call {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Call {
            server: "s".to_owned(),
            tool: owned(tool),
            arguments: owned(arguments),
            method: owned(method),
            timeout: None,
        }
    }

    #[test]
    fn requests_are_made() {
        let check = |call: Call, method: &str, params: Value| {
            assert_eq!(call.request().unwrap(), (method.to_owned(), params));
        };
        check(call(None, None, None), "tools/list", json!({}));
        check(call(Some("t"), None, None), "tools/call", json!({"name": "t", "arguments": {}}));
        check(
            call(Some("t"), Some(r#"{"a":1}"#), None),
            "tools/call",
            json!({"name": "t", "arguments": {"a": 1}}),
        );
        check(
            call(Some(r#"{"uri":"x"}"#), None, Some("resources/read")),
            "resources/read",
            json!({"uri": "x"}),
        );
        assert!(call(Some("t"), Some("[1]"), None).request().is_err());
        assert!(call(Some("t"), Some("{}"), Some("m")).request().is_err());
    }
}
