//! Lists, page by page.

use std::collections::HashSet;

use emergent_store::{Store, WorkspaceFilter, WorkspaceRow};
use emergent_types::{ContainerType, ProviderKind, WorkspaceStatus};

use super::fixtures::{NO_LIMIT, count, owner, walk, workspace, workspace_in};

pub(crate) async fn pages_are_newest_first(store: &dyn Store) {
    let all = WorkspaceFilter::default();
    assert_eq!(walk(store, all, 3).await, []);
    let mut rows: Vec<_> = (0..7).map(|_| workspace()).collect();
    for row in &rows {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    rows.reverse();
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    for page_size in [1, 2, 6, 7, 8, u32::MAX] {
        assert_eq!(walk(store, all, page_size).await, ids, "in pages of {page_size}");
    }
    let page = store.list_workspaces(all, None, count(7)).await.unwrap();
    assert_eq!((page.items, page.next), (rows, None), "a full last page has no next one");
}

pub(crate) async fn filters_combine(store: &dyn Store) {
    let owners = [owner(store).await, owner(store).await];
    let statuses = [WorkspaceStatus::Ready, WorkspaceStatus::Stopped];
    let providers = [ProviderKind::Local, ProviderKind::Gvisor];
    let mut rows = Vec::new();
    for &container_type in ContainerType::ALL {
        for status in statuses {
            for provider in providers {
                for owner in owners {
                    let owner_id = Some(owner);
                    let row = WorkspaceRow { container_type, provider, owner_id, ..workspace_in(status) };
                    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
                    rows.push(row);
                }
            }
        }
    }
    for wanted in 0..16 {
        let if_wanted = |bit: u32| wanted & (1 << bit) != 0;
        let filter = WorkspaceFilter {
            status: if_wanted(0).then_some(statuses[1]),
            container_type: if_wanted(1).then_some(ContainerType::AgentWorkspace),
            provider: if_wanted(2).then_some(providers[1]),
            owner: if_wanted(3).then_some(owners[0]),
        };
        let expect: Vec<_> = rows
            .iter()
            .rev()
            .filter(|row| filter.status.is_none_or(|status| row.status == status))
            .filter(|row| filter.container_type.is_none_or(|wanted| row.container_type == wanted))
            .filter(|row| filter.provider.is_none_or(|provider| row.provider == provider))
            .filter(|row| filter.owner.is_none_or(|owner| row.owner_id == Some(owner)))
            .map(|row| row.id)
            .collect();
        assert_eq!(walk(store, filter, 3).await, expect, "{filter:?}");
    }
}

pub(crate) async fn a_walk_sees_every_row_once_while_others_come_and_go(store: &dyn Store) {
    let rows: Vec<_> = (0..40).map(|_| workspace()).collect();
    for row in &rows {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    // Every third row goes during the walk, before or after it is seen; as many come.
    let (leaving, staying): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(at, _)| at % 3 == 0);
    let mut leaving = leaving.into_iter().map(|(_, row)| row);
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list_workspaces(WorkspaceFilter::default(), cursor, count(4)).await.unwrap();
        // The row that the cursor names may be gone, too.
        if let Some(last) = page.items.last()
            && staying.iter().all(|(_, row)| row.id != last.id)
        {
            store.delete_workspace(last.id).await.unwrap();
        }
        seen.extend(page.items.into_iter().map(|row| row.id));
        if let Some(row) = leaving.next() {
            store.delete_workspace(row.id).await.unwrap();
            store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let distinct: HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    for (_, row) in staying {
        assert!(distinct.contains(&row.id), "{} was passed over", row.id);
    }
}
