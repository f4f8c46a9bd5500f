//! Bytes that claim to be messages of an agent, or of somebody who talks to one.

#![no_main]

use emergent_protocol::{FailureCode, v1};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    // What a hostile agent answers with.
    let _ = v1::HelloResponse::decode(data);
    let _ = v1::ExecEvent::decode(data);
    let _ = v1::ReadPageResponse::decode(data);
    let _ = v1::GrepResponse::decode(data);
    let _ = v1::GitResponse::decode(data);
    let _ = v1::WatchEvent::decode(data);
    let _ = v1::TerminalOutput::decode(data);
    let _ = v1::TunnelOutput::decode(data);
    let status = tonic::Status::with_details(tonic::Code::Internal, "", data.to_vec().into());
    if let Some((code, _)) = FailureCode::read(&status) {
        assert!(!code.as_str().is_empty());
    }
    // What somebody sends who is not the control plane: the agent ends the conversation.
    emergent_agent::fuzzing::converse(data);
});
