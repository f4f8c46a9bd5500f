//! Hosted MCP servers.
//!
//! `/api/v1/mcp/servers/{id}/mcp` and `/api/v1/mcp`, where MCP clients connect, belong here as well: an
//! endpoint that takes [`Granted`](crate::extract::Granted), and hands the request to a front whose way to a
//! server is [`Handle::bridge`](emergent_mcp_hosting::Handle::bridge) for shared ones,
//! [`dedicated`](emergent_mcp_hosting::Handle::dedicated) for the others and
//! [`dial`](emergent_mcp_hosting::Handle::dial) for those that speak HTTP themselves.

pub(crate) mod call;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod register;
mod register_request;
pub(crate) mod restart;
pub(crate) mod update;
mod view;
