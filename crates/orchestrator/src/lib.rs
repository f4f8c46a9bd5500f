//! Which provider serves a request.
//!
//! Selection is a pure function from a [`Demand`] to an ordered chain of providers; the
//! [`Orchestrator`] walks the chain, skips what is unhealthy or too weak, and records why.
//! It knows the provider trait, never a concrete provider.

mod absence;
mod attempt;
mod bounded;
mod demand;
mod health;
mod orchestrator;
mod question;
mod selection;

pub use absence::{Absence, AbsentProvider};
pub use attempt::{Attempt, NoProvider, Refusal};
pub use bounded::{Bounded, Pace};
pub use demand::Demand;
pub use health::{ProviderState, ProviderStatus, StateChange, UnavailableNetwork};
pub use orchestrator::{FirstChoice, Orchestrator, Placement};
