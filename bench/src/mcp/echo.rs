//! An MCP server that does nothing but answer, so that what is measured is what stands before it.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;

use serde_json::{Value, json};

pub(crate) fn main() -> ExitCode {
    let mut output = stdout().lock();
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = request.get("id") else { continue };
        let mut answer = answer(&request);
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id.clone();
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn answer(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("initialize") => json!({"result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }}),
        Some("ping") => json!({"result": {}}),
        Some("tools/list") => {
            json!({"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
        }
        Some("tools/call") => {
            let message = request["params"]["arguments"]["message"].as_str().unwrap_or_default();
            json!({"result": {"content": [{"type": "text", "text": format!("Echo: {message}")}]}})
        }
        _ => json!({"error": {"code": -32601, "message": "unknown method"}}),
    }
}
