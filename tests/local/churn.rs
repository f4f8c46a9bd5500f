//! Workspaces that come and go for a long time leave nothing, neither on the host nor in the server.

use emergent_test_support::TestServer;

use crate::churning::{Rounds, churn};

#[tokio::test]
async fn a_hundred_workspaces_leave_nothing() {
    let server = TestServer::start().await;
    churn(&server, Rounds { warm_up: 25, usually: 100, long: 1000 }).await;
    let census = server.census();
    assert!(census.is_empty(), "{census}");
    server.finish().await;
}
