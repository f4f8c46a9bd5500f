//! What an administrator sets while a server runs.

use emergent_store::Store;
use serde_json::json;

pub(crate) async fn a_setting_is_kept(store: &dyn Store) {
    assert_eq!(store.get_setting("size").await.unwrap(), None);
    for value in [json!(2), json!({"size": 3, "of": ["a", null]}), json!(null)] {
        store.put_setting("size", &value).await.unwrap();
        assert_eq!(store.get_setting("size").await.unwrap(), Some(value));
    }
    assert_eq!(store.get_setting("other").await.unwrap(), None);
}
