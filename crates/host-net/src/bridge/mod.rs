//! The rules for sandboxes that are containers on one bridge of a container engine.
//!
//! ```text
//!  container ── veth ┐
//!  container ── veth ┤ emgbr<installation>, the gateway's addresses
//!                    │   family bridge  forward:     nothing from one port to another
//!                    │   family inet    prerouting:  own source only; no host address but names
//!                    │                  dstnat:      gateway, port 53 ──► the host's resolver
//!                    │                  input:       neighbours' questions; names, where the
//!                    │                               host resolves itself; nothing else
//!                    │                  forward:     no denied range but for names; nothing new in
//!                    │                  output:      nothing new in from the host either
//!                    ▼                  postrouting: masquerade
//!                 uplink
//! ```
//!
//! **The engine makes the links, we make the rules.** They know the bridge by its name, which is
//! the installation's, and so they are complete before the first container. They are in tables of
//! their own: no engine touches those, and neither does the [`HostNetwork`](crate::HostNetwork) of the
//! same installation.
//!
//! **Names need no process of ours.** What is sent to the gateway's port 53 goes on to the host's
//! resolver, also while the server is down.
//!
//! **Where the engine is, the rules must be.** [`BridgeRules::apply_here`] is for an engine on this
//! host; for any other there is the same as a script, [`HelperScript`], for a container that the
//! engine starts in its host's network.
//!
//! **No rules, no network.** Where it is not certain that they are in place, the bridge goes down, and with
//! it all of its ports; it comes up again when they are.
//!
//! The choices are explained in `docs/adr/0014`.

mod closing;
mod helper;
mod here;
mod link;
mod resolvers;
mod rules;
mod subnets;
mod survey;

pub use helper::{HelperAction, HelperFailure, HelperReport, HelperScript};
pub use here::{Flaw, InPlace, close_without_rules_here, remove_here};
pub use resolvers::{NoResolver, Resolvers};
pub use rules::{BridgeRules, Separation};
pub use subnets::{Subnets, UnfitSubnets};
pub use survey::{Survey, UnreadableSurvey};

/// Whether this host passes IPv6 on already. Engines make it do so for a network with IPv6, and a host
/// that was no router must not become one for that.
pub fn forwards_ipv6_here() -> bool {
    crate::forwarding::has_ipv6() && crate::forwarding::is_router("ipv6")
}
