//! The volumes of a sandbox, as they are kept in its row.

use emergent_provider::{BadVolume, VolumeMount};
use emergent_store::WorkspaceRow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Where they are in the row's `mcp_config`.
const VOLUMES: &str = "volumes";

/// One of them.
#[derive(Serialize, Deserialize)]
struct Kept {
    name: String,
    target: String,
    size: emergent_types::ByteSize,
}

impl Kept {
    fn mount(&self) -> Result<VolumeMount, BadVolume> {
        VolumeMount::new(self.name.parse()?, &self.target, self.size)
    }
}

pub(crate) fn to_config(volumes: &[VolumeMount]) -> Map<String, Value> {
    let kept = volumes.iter().map(|volume| Kept {
        name: volume.name().to_string(),
        target: volume.target().to_owned(),
        size: volume.size(),
    });
    Map::from_iter([(VOLUMES.to_owned(), json!(kept.collect::<Vec<_>>()))])
}

/// The volumes of a row. What cannot be understood is left out: it was checked before it was written.
pub fn volumes_of(row: &WorkspaceRow) -> Vec<VolumeMount> {
    let config = row.mcp_config.as_ref().and_then(|config| config.get(VOLUMES));
    let kept: Vec<Kept> =
        config.and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default();
    kept.iter().filter_map(|volume| volume.mount().ok()).collect()
}

#[cfg(test)]
mod tests {
    use emergent_types::ByteSize;

    use super::*;

    #[test]
    fn volumes_come_back_as_they_were_kept() {
        let volume = VolumeMount::new("data".parse().unwrap(), "/data", ByteSize::from_mib(64)).unwrap();
        let config = to_config(std::slice::from_ref(&volume));
        let options = crate::Options::default();
        let row = crate::NewWorkspace::default().to_row(&options, options.default_network, true);
        assert_eq!(volumes_of(&row), []);
        let row = WorkspaceRow { mcp_config: Some(config), ..row };
        assert_eq!(volumes_of(&row), [volume]);
    }
}
