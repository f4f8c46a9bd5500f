//! MCP servers: hosted ones, bare ones, and those behind another bridge.

mod bare;
pub(crate) mod echo;
mod gateway;
mod hosted;
mod session;

pub(crate) use bare::BareServer;
pub(crate) use gateway::Gateway;
pub(crate) use hosted::Hosted;
pub(crate) use session::Session;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// What a client says first.
fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
    }})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// The call that is measured.
pub(crate) fn echo_call(number: usize) -> Value {
    let params = json!({"name": "echo", "arguments": {"message": format!("call {number}")}});
    json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
}

/// Whether an answer is that call's.
fn check(answer: &Value, number: usize) -> Result<()> {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(
        answer["id"] == number && text == format!("Echo: call {number}"),
        "not the answer of {number}: {answer}"
    );
    Ok(())
}

/// What `cargo xtask bench` has installed from npm.
pub(crate) fn installed(path: &str) -> Result<PathBuf> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/xtask/node").join(path);
    file.canonicalize()
        .with_context(|| format!("{} is missing; `cargo xtask bench` installs it", file.display()))
}

/// Node, and the script of a server from npm.
pub(crate) fn everything() -> Result<[PathBuf; 2]> {
    let script = "servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    Ok([installed("runtime/node_modules/node/bin/node")?, installed(script)?])
}
