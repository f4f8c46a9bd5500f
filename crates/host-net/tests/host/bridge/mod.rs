//! Containers on one bridge: rules by the crate itself and by the script for a helper.

mod coexistence;
mod containers;
mod egress;
mod engine;
mod helper;
mod names;
mod neighbours;
mod rules_lost;
