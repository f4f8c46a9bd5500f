//! Hosted MCP servers. `endpoint` and `combined` are where MCP clients connect; what they say passes through the
//! [`fronts`].

pub(crate) mod call;
pub(crate) mod combined;
pub(crate) mod delete;
pub(crate) mod endpoint;
mod fronts;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod register;
mod register_request;
pub(crate) mod restart;
pub(crate) mod update;
mod view;
mod whole_request;

pub(crate) use endpoint::Errors as Refusals;
pub(crate) use fronts::Fronts;
pub(crate) use whole_request::WholeRequest;
