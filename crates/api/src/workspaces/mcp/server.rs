//! One workspace as an MCP server, for one caller and one request.

use emergent_types::WorkspaceId;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::schemas::tools;
use super::toolbox::{Answer, Toolbox};
use crate::access::{self, Access, Found};
use crate::auth::Caller;
use crate::errors::ErrorCode;
use crate::observe::RequestId;

const INSTRUCTIONS: &str = "The tools of one isolated workspace: a Linux sandbox with its own files and processes. \
    Relative paths start at /workspace. Each command is run by a fresh shell.";

/// The tools of a workspace, as far as the caller may use them.
pub(super) struct WorkspaceServer {
    pub(super) toolbox: Toolbox,
    pub(super) workspace: WorkspaceId,
    pub(super) caller: Caller,
    pub(super) request_id: RequestId,
}

impl WorkspaceServer {
    fn may_call(&self, tool: &Tool) -> bool {
        let route = super::toolbox::route(&tool.name);
        match access::find(&axum::http::Method::POST, &route) {
            Found::Rule(access @ Access::Tool { needs, .. }) => {
                access.admits(self.caller.kind()) && self.caller.has_tool(needs)
            }
            _ => false,
        }
    }

    async fn call(&self, request: CallToolRequestParams) -> Result<CallToolResult, ErrorData> {
        let known = tools().iter().find(|tool| tool.name == request.name);
        let Some(tool) = known else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        let arguments = serde_json::to_vec(&request.arguments.unwrap_or_default())
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let who = (self.caller.clone(), self.request_id.clone());
        let answer = self.toolbox.call(&tool.name, self.workspace, who, arguments).await;
        result(&answer.map_err(|error| ErrorData::internal_error(error, None))?)
    }
}

/// What an endpoint answered, for a model: a refusal is something that it can read and mend, unless it is about
/// who asks.
fn result(answer: &Answer) -> Result<CallToolResult, ErrorData> {
    let value: Value = serde_json::from_slice(&answer.body)
        .map_err(|error| ErrorData::internal_error(format!("the tool's answer is no JSON: {error}"), None))?;
    if answer.status.is_success() {
        let text = ContentBlock::text(String::from_utf8_lossy(&answer.body));
        let mut result = CallToolResult::success(vec![text]);
        result.structured_content = Some(value);
        return Ok(result);
    }
    let error = &value["error"];
    let code = error["code"].as_str().unwrap_or_default();
    let message = error["message"].as_str().unwrap_or_default();
    let about_the_caller = [ErrorCode::ToolNotAllowed, ErrorCode::Forbidden, ErrorCode::Unauthorized];
    if about_the_caller.iter().any(|known| known.as_str() == code) {
        return Err(ErrorData::invalid_params(message.to_owned(), Some(json!({"code": code}))));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(format!("{code}: {message}"))]);
    result.structured_content = Some(value);
    Ok(result)
}

impl ServerHandler for WorkspaceServer {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("emergent-workspace", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let allowed = tools().iter().filter(|tool| self.may_call(tool)).cloned().collect();
        Ok(ListToolsResult::with_all_items(allowed))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::select! {
            result = self.call(request) => result.map(CallToolResponse::from),
            // The client closed the stream: the call is cancelled, as when it closes one of the API.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().iter().find(|tool| tool.name == name).cloned()
    }
}
