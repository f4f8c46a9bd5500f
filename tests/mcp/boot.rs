//! Many servers, of which some are broken.

use futures::future::join_all;

use emergent_types::ServerHealth;

use crate::support::{server, start, tool_soon, wait_for};

#[tokio::test]
async fn two_broken_of_ten_hold_up_nobody() {
    let mut control = start().await;
    let client = control.client();
    let name = |number: usize| format!("s{number}");
    let behaviour = |number: usize| if number < 2 { "broken" } else { "" };
    let registered = join_all((0..10).map(|number| {
        let client = client.clone();
        async move { client.register_mcp_server(&server(&name(number), behaviour(number))).await }
    }));
    for made in registered.await {
        made.unwrap();
    }
    assert!(control.terminate().await.success());
    control.start_again().await;
    let client = control.client();
    let began = std::time::Instant::now();
    for number in 2..10 {
        tool_soon(&client, &name(number), "pid").await;
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    for number in 0..2 {
        wait_for(&client, &name(number), ServerHealth::BackingOff).await;
    }
    control.finish().await;
}
