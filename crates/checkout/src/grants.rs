//! Repositories that a workspace reaches for a moment: while they are being cloned. What comes of that is in its row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emergent_types::WorkspaceId;

use crate::url::RepositoryUrl;

type Granted = HashMap<WorkspaceId, Vec<RepositoryUrl>>;

/// What is granted now.
#[derive(Default)]
pub(crate) struct Grants(Mutex<Granted>);

impl Grants {
    /// Grants a repository to a workspace until the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: WorkspaceId, url: RepositoryUrl) -> Grant {
        self.lock().entry(id).or_default().push(url.clone());
        Grant { grants: Arc::clone(self), id, url }
    }

    /// The granted repository for which this holds.
    pub(crate) fn find(
        &self,
        id: WorkspaceId,
        is_it: impl Fn(&RepositoryUrl) -> bool,
    ) -> Option<RepositoryUrl> {
        self.lock().get(&id)?.iter().find(|url| is_it(url)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Granted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A repository that is granted for as long as this lives.
#[must_use]
pub struct Grant {
    grants: Arc<Grants>,
    id: WorkspaceId,
    url: RepositoryUrl,
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut granted = self.grants.lock();
        let Some(urls) = granted.get_mut(&self.id) else { return };
        // The same may be granted twice at a time.
        if let Some(index) = urls.iter().position(|url| *url == self.url) {
            urls.swap_remove(index);
        }
        if urls.is_empty() {
            granted.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_ends_with_its_guard() {
        let (grants, id) = (Arc::new(Grants::default()), WorkspaceId::generate());
        let url: RepositoryUrl = "https://github.com/a/b".parse().unwrap();
        let is_there = |id| grants.find(id, |found| *found == url).is_some();
        let (first, second) = (grants.begin(id, url.clone()), grants.begin(id, url.clone()));
        assert!(is_there(id));
        assert!(!is_there(WorkspaceId::generate()));
        drop(first);
        assert!(is_there(id));
        drop(second);
        assert!(!is_there(id));
        assert!(grants.lock().is_empty());
    }
}
