//! Workspaces under gVisor that come and go for a long time leave nothing.

use crate::churning::{Rounds, churn};
use crate::host::Host;

#[tokio::test]
async fn twenty_workspaces_leave_nothing() {
    let host = Host::start().await;
    assert_eq!(host.provider("gvisor").await["status"], "healthy");
    churn(&host.server, Rounds { warm_up: 5, usually: 20, long: 200 }).await;
    host.finish().await;
}
