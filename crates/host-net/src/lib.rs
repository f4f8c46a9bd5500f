//! The network of sandboxes that may reach the internet and nothing else: one veth pair each,
//! addresses, forwarding, egress rules and a forwarder for names.
//!
//! ```text
//!  sandbox's namespace            │ host
//!  127.0.0.53:53 ◄── forwarder ───┼── the server's own sockets ──► the host's resolvers
//!  eth0  10.x.y.n/32, ULA/128 ────┼── emg<installation><workspace>
//!                                 │      │ prerouting −300: own source only, no host address
//!                                 │      │ input       −10: nothing
//!                                 │      │ forward     −10: no private range, no other sandbox
//!                                 │      │ output      −10: nothing new to a sandbox
//!                                 │      ▼ postrouting 100: masquerade
//!                                 │   uplink
//! ```
//!
//! **The rules name no sandbox.** They match the beginning of the links' names, which is the
//! installation's, and ask the routing table whether a source belongs to its link. So they
//! are complete before the first link exists, nothing is added for a new sandbox, and a link
//! that is half made is closed already.
//!
//! **No rules, no network.** Somebody else can remove the rules of a running host. Where they cannot
//! be put back, or nobody can tell whether they are there, the sandboxes' links are taken down until
//! they are. The containers' bridge is treated in the same way.
//!
//! **The kernel is the record.** What exists is read from the links' names and aliases, which
//! links this crate has made forward is read from its own table. Nothing is kept in files.
//!
//! The choices are explained in `docs/adr/0011`.

pub mod bridge;
mod cidr;
mod closing;
mod command;
mod denied;
mod error;
mod firewall;
mod forwarding;
mod installed;
mod names;
mod namespace;
mod netlink;
mod network;
mod options;
mod pool;
mod resolver;
mod rules;
mod trial;
mod watch;

pub use cidr::{Cidr, ParseCidrError};
pub use error::NetworkError;
pub use names::{
    bridge_link_name, bridge_rule_comment, bridge_table_name, link_name, link_prefix, rule_comment,
    table_name,
};
pub use namespace::Namespace;
pub use network::{Attachment, HostNetwork, Left, Repair};
pub use options::Options;
pub use resolver::RESOLVER;
pub use trial::{Trial, TrialResult, obstacles, run as run_trial};
