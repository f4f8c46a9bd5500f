//! `kb.workspace_attachments`.

use emergent_types::WorkspaceId;
use time::OffsetDateTime;
use uuid::Uuid;

use super::failure::because;
use super::statement::{DIALECT, query};
use super::{CALL_LIMIT, PostgresStore, commit, within};
use crate::columns::attachments;
use crate::{AttachError, Attachment, Operation, StoreError, WorkspaceRow};

impl PostgresStore {
    pub(super) async fn attach_session(
        &self,
        id: WorkspaceId,
        session: Uuid,
        at: OffsetDateTime,
    ) -> Result<WorkspaceRow, AttachError> {
        let operation = Operation::Attach(id);
        let (transaction, row) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let found = self.fetch_for_update(&mut *transaction, id, operation).await?;
            let row = found.ok_or(AttachError::NotFound { id })?;
            match row.agent_session_id {
                Some(holder) if holder == session => return Ok((transaction, row)),
                Some(holder) => return Err(AttachError::Held { id, holder }),
                None => {}
            }
            let attachment =
                Attachment { workspace_id: id, session_id: session, attached_at: at, detached_at: None };
            for statement in [
                attachments::insert(&DIALECT, &attachment),
                attachments::set_session(&DIALECT, id, Some(session)),
            ] {
                query(statement).execute(&mut *transaction).await.map_err(because(operation))?;
            }
            Ok((transaction, row))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(WorkspaceRow { agent_session_id: Some(session), ..row })
    }

    pub(super) async fn detach_session(
        &self,
        id: WorkspaceId,
        session: Option<Uuid>,
        at: OffsetDateTime,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        let operation = Operation::Detach(id);
        let (transaction, row) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let found = self.fetch_for_update(&mut *transaction, id, operation).await?;
            let Some(mut row) = found else { return Ok((transaction, None)) };
            let is_there =
                row.agent_session_id.is_some_and(|holder| session.is_none_or(|asked| asked == holder));
            if is_there {
                for statement in
                    [attachments::end(&DIALECT, id, at), attachments::set_session(&DIALECT, id, None)]
                {
                    query(statement).execute(&mut *transaction).await.map_err(because(operation))?;
                }
                row.agent_session_id = None;
            }
            Ok::<_, StoreError>((transaction, Some(row)))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(row)
    }

    pub(super) async fn attachment_rows(&self, id: WorkspaceId) -> Result<Vec<Attachment>, StoreError> {
        let rows = self.read(Operation::ListAttachments(id), attachments::of_workspace(&DIALECT, id)).await?;
        rows.iter().map(|row| attachments::decode(&DIALECT, row)).collect()
    }
}
