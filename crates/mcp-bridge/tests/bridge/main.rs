//! The bridge over a scripted server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod cancelling;
mod ending;
mod eras;
mod fidelity;
mod front;
mod handshakes;
mod ids;
mod lines;
mod modes;
mod pressure;
mod remote;
mod routing;
mod support;
mod turns;
