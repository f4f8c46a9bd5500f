//! Real containers with a network, on hosts that are network namespaces of the tests' own, with a
//! Docker of their own. The machine's own network is not touched.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod apart;
mod containers;
#[path = "../../../host-net/tests/host/world.rs"]
#[expect(dead_code, reason = "shared with the tests of host-net")]
mod world;
