//! `core.settings`.

use serde_json::Value;

use super::PostgresStore;
use super::statement::DIALECT;
use crate::columns::settings;
use crate::{Operation, StoreError};

impl PostgresStore {
    pub(super) async fn setting(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let rows = self.read(Operation::GetSetting, settings::get(&DIALECT, name)).await?;
        rows.first().map(|row| settings::decode(&DIALECT, row)).transpose()
    }

    pub(super) async fn set_setting(&self, name: &str, value: &Value) -> Result<(), StoreError> {
        self.write(Operation::PutSetting, settings::put(&DIALECT, name, value)?).await.map(drop)
    }
}
