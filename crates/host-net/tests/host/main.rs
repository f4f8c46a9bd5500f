//! Sandboxes' network on hosts that the tests make themselves: a "host" is a network
//! namespace, behind its uplink is another one that plays the internet and everything private
//! that a real host could reach. Needs root; the machine's own network is not touched.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bridge;
mod docker;
mod egress;
mod firewalls;
mod leftovers;
mod names;
mod rules_lost;
mod trouble;
mod uplinks;
mod world;
