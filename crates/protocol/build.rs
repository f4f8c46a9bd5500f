//! Compiles `proto/` with protox, so that nobody needs protoc.

use std::path::Path;

fn main() {
    let root = Path::new("../../proto");
    let file = root.join("emergent/agent/v1/agent.proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let descriptors = match protox::compile([&file], [root]) {
        Ok(descriptors) => descriptors,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    tonic_prost_build::configure()
        .build_client(std::env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(false)
        // File contents and output are passed on, not copied.
        .bytes(".")
        .compile_fds(descriptors)
        .expect("the descriptors compile");
}
