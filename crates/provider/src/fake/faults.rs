//! Faults on demand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use emergent_types::{ProviderKind, WorkspaceId};

use crate::{Operation, ProviderError};

/// What goes wrong the next time an operation is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It fails and does nothing.
    Fail(&'static str),
    /// It does its work and then fails: the answer was lost.
    FailAfterwards(&'static str),
    /// The image of this name is nowhere to be had.
    NoImage(&'static str),
    /// It takes this much longer.
    Delay(Duration),
    /// It never returns.
    Hang,
}

/// What is still to go wrong, in order, per operation.
#[derive(Default)]
pub(super) struct Faults {
    queued: Mutex<VecDeque<(Operation, Fault)>>,
}

impl Faults {
    pub(super) fn push(&self, operation: Operation, fault: Fault) {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).push_back((operation, fault));
    }

    fn take(&self, operation: Operation) -> Option<Fault> {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let position = queued.iter().position(|(planned, _)| *planned == operation)?;
        queued.remove(position).map(|(_, fault)| fault)
    }

    /// Runs an operation with whatever is planned for it.
    pub(super) async fn around<T>(
        &self,
        provider: ProviderKind,
        operation: Operation,
        id: WorkspaceId,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let failed = |reason: &str| ProviderError::Step {
            provider,
            operation,
            id,
            step: "fault",
            reason: reason.to_owned(),
        };
        match self.take(operation) {
            None => work.await,
            Some(Fault::Fail(reason)) => Err(failed(reason)),
            Some(Fault::FailAfterwards(reason)) => {
                work.await?;
                Err(failed(reason))
            }
            Some(Fault::NoImage(reference)) => Err(ProviderError::ImageNotFound {
                provider,
                reference: reference.to_owned(),
                reason: "the registry does not know it".to_owned(),
            }),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                work.await
            }
            Some(Fault::Hang) => std::future::pending().await,
        }
    }
}
