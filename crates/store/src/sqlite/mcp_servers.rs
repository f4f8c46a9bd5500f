//! `kb_mcp_servers`.

use emergent_types::WorkspaceId;
use serde_json::Value;

use super::SqliteStore;
use super::statement::DIALECT;
use crate::columns::mcp_servers;
use crate::{McpServerRow, Operation, StoreError};

impl SqliteStore {
    pub(super) async fn list_mcp_server_rows(&self) -> Result<Vec<McpServerRow>, StoreError> {
        let rows = self.read(Operation::ListMcpServers, mcp_servers::all(&DIALECT)).await?;
        rows.iter().map(|row| mcp_servers::decode(&DIALECT, row, &self.vault)).collect()
    }

    pub(super) async fn get_mcp_server_row(
        &self,
        id: WorkspaceId,
    ) -> Result<Option<McpServerRow>, StoreError> {
        let rows = self.read(Operation::ListMcpServers, mcp_servers::get(&DIALECT, id)).await?;
        rows.first().map(|row| mcp_servers::decode(&DIALECT, row, &self.vault)).transpose()
    }

    pub(super) async fn update_mcp_server_row(&self, row: &McpServerRow) -> Result<bool, StoreError> {
        let update = mcp_servers::update(&DIALECT, row, &self.vault)?;
        Ok(self.write(Operation::UpdateMcpServer(row.id), update).await? > 0)
    }

    pub(super) async fn set_image_defaults_of(
        &self,
        id: WorkspaceId,
        defaults: &Value,
    ) -> Result<bool, StoreError> {
        let update = mcp_servers::set_image_defaults(&DIALECT, id, defaults)?;
        Ok(self.write(Operation::UpdateMcpServer(id), update).await? > 0)
    }
}
