//! The conformance suite over the fake, as far as something without isolation can pass it.

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider::fake::FakeProvider;
use emergent_types::{IsolationLevel, ProviderKind};

async fn subject() -> Subject {
    let provider = FakeProvider::new(ProviderKind::Local, IsolationLevel::Container);
    Subject::new(Arc::new(provider), None, ())
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, exec, files, edit, search, git, output, watch, terminal, tunnel, transfer, streams);
