//! A stdio MCP server with what the official conformance suite looks for, in both eras.
//!
//! `conformance_server [--legacy]`: with `--legacy` it knows nothing of the newer era. It is raw JSON
//! without a library, so that what the suite finds is about the bridge in front of it.

mod catalogue;
mod prompts;
mod resources;
mod tools;
mod wire;

use std::io::BufRead as _;
use std::sync::Arc;

use serde_json::{Value, json};

use wire::{Failure, Request, Wire};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How results of these say how long they may be kept.
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

fn main() {
    let legacy = std::env::args().any(|word| word == "--legacy");
    let wire = Arc::new(Wire::default());
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message.get("method").is_none() {
            wire.heard_answer(message);
            continue;
        }
        if message.get("id").is_none() {
            if message["method"] == "notifications/cancelled" {
                wire.stop_listening(&message["params"]["requestId"]);
            }
            continue;
        }
        let modern = !legacy && message["params"]["_meta"].get(VERSION_KEY).is_some();
        let request = Request::new(wire.clone(), message, modern);
        std::thread::spawn(move || answer(&request, legacy));
    }
}

fn answer(request: &Request, legacy: bool) {
    match serve(request, legacy) {
        Ok(Value::Null) => {}
        Ok(mut result) => {
            if request.modern
                && let Some(members) = result.as_object_mut()
            {
                members.entry("resultType").or_insert(json!("complete"));
                members.insert("_meta".into(), json!({SERVER_KEY: server_info()}));
                if CACHEABLE.contains(&request.method.as_str()) {
                    members.insert("ttlMs".into(), json!(0));
                    members.insert("cacheScope".into(), json!("private"));
                }
            }
            request.answer(json!({"result": result}));
        }
        Err(Failure::NeedsInput(required)) => request.answer(json!({"result": required})),
        Err(Failure::Refused { code, text, data }) => {
            let mut error = json!({"code": code, "message": text});
            if !data.is_null() {
                error["data"] = data;
            }
            request.answer(json!({"error": error}));
        }
    }
}

/// The result; null for what is not answered now.
fn serve(request: &Request, legacy: bool) -> Result<Value, Failure> {
    let params = &request.params;
    match request.method.as_str() {
        "initialize" if !request.modern => Ok(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": capabilities(),
            "serverInfo": server_info(),
        })),
        "server/discover" if !legacy => {
            Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities()}))
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" if !request.modern => {
            Ok(json!({}))
        }
        "subscriptions/listen" if request.modern => {
            request.listen();
            Ok(Value::Null)
        }
        "tools/list" => Ok(json!({"tools": catalogue::tools()})),
        "tools/call" => tools::call(request),
        "resources/list" => Ok(json!({"resources": resources::list()})),
        "resources/templates/list" => Ok(json!({"resourceTemplates": resources::templates()})),
        "resources/read" => resources::read(request),
        "prompts/list" => Ok(json!({"prompts": prompts::list()})),
        "prompts/get" => prompts::get(request),
        "completion/complete" => {
            Ok(json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}}))
        }
        other => Err(Failure::refused(-32601, format!("Method not found: {other}"))),
    }
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "logging": {},
        "completions": {},
    })
}

fn server_info() -> Value {
    json!({"name": "conformance", "version": "1.0.0"})
}
