//! How far pulls are: for whoever waits for one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bollard::models::CreateImageInfo;

/// The most layers that are counted; no image has more.
const MAX_LAYERS: usize = 1000;

/// Pulls that are under way, by the name of their image.
#[derive(Default)]
pub(crate) struct Pulls(Mutex<HashMap<String, Layers>>);

#[derive(Default)]
struct Layers(HashMap<String, Layer>);

#[derive(Default, Clone, Copy)]
struct Layer {
    bytes: u64,
    of_bytes: u64,
    is_there: bool,
}

/// A pull, until this is dropped.
pub(super) struct Pull<'a> {
    pulls: &'a Pulls,
    name: String,
}

impl Pulls {
    /// A pull begins.
    pub(super) fn begin(&self, name: String) -> Pull<'_> {
        self.with(|pulls| pulls.insert(name.clone(), Layers::default()));
        Pull { pulls: self, name }
    }

    /// How far the pull of an image is, for people; `None` where none is under way.
    pub(crate) fn describe(&self, name: &str) -> Option<String> {
        self.with(|pulls| pulls.get(name).map(|layers| layers.describe(name)))
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, Layers>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pull<'_> {
    /// What the engine says next.
    pub(super) fn note(&self, step: &CreateImageInfo) {
        let Some(id) = step.id.clone() else { return };
        self.pulls.with(|pulls| {
            if let Some(layers) = pulls.get_mut(&self.name) {
                layers.note(id, step);
            }
        });
    }
}

impl Drop for Pull<'_> {
    fn drop(&mut self) {
        self.pulls.with(|pulls| pulls.remove(&self.name));
    }
}

impl Layers {
    fn note(&mut self, id: String, step: &CreateImageInfo) {
        let status = step.status.as_deref().unwrap_or_default();
        // Beside layers, the version itself has lines; unpacking a layer counts its bytes a second time.
        let known = ["Pulling fs layer", "Waiting", "Downloading", "Download complete", "Pull complete"];
        let is_there = ["Download complete", "Pull complete", "Already exists"].contains(&status);
        if !(is_there || known.contains(&status)) || (self.0.len() >= MAX_LAYERS && !self.0.contains_key(&id))
        {
            return;
        }
        let layer = self.0.entry(id).or_default();
        if let Some(detail) = step.progress_detail.as_ref().filter(|_| status == "Downloading") {
            let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
            layer.bytes = number(detail.current).unwrap_or(layer.bytes);
            layer.of_bytes = number(detail.total).unwrap_or(layer.of_bytes);
        }
        if is_there {
            layer.is_there = true;
            layer.bytes = layer.of_bytes;
        }
    }

    fn describe(&self, name: &str) -> String {
        let there = self.0.values().filter(|layer| layer.is_there).count();
        let bytes = self.0.values().fold(0_u64, |sum, layer| sum.saturating_add(layer.bytes));
        match self.0.len() {
            0 => format!("pulling image {name}"),
            all => format!("pulling image {name}: {there} of {all} layers, {} MiB", bytes >> 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    fn step(id: &str, status: &str, bytes: i64) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.to_owned()),
            status: Some(status.to_owned()),
            progress_detail: Some(ProgressDetail { current: Some(bytes), total: Some(10 << 20) }),
            ..CreateImageInfo::default()
        }
    }

    #[test]
    fn a_pull_is_told_while_it_lasts() {
        let pulls = Pulls::default();
        assert_eq!(pulls.describe("a:1"), None);
        let pull = pulls.begin("a:1".to_owned());
        assert_eq!(pulls.describe("a:1").unwrap(), "pulling image a:1");
        pull.note(&step("1", "Pulling from library/a", 0));
        for layer in ["x", "y"] {
            pull.note(&step(layer, "Pulling fs layer", 0));
        }
        pull.note(&step("x", "Downloading", 3 << 20));
        assert_eq!(pulls.describe("a:1").unwrap(), "pulling image a:1: 0 of 2 layers, 3 MiB");
        pull.note(&step("x", "Download complete", 0));
        pull.note(&step("x", "Extracting", 1 << 20));
        pull.note(&step("y", "Already exists", 0));
        assert_eq!(pulls.describe("a:1").unwrap(), "pulling image a:1: 2 of 2 layers, 10 MiB");
        drop(pull);
        assert_eq!(pulls.describe("a:1"), None);
    }
}
