//! A host without `nft`, as root: workspaces are made, and none of them is let out.

use emergent_client::ListWorkspaces;
use emergent_test_support::{Census, Scope, TestServerOptions, with_own_mounts};
use emergent_types::{NetworkMode, ProviderKind};
use serde_json::json;

use crate::support::{sh, small};

#[test]
fn the_default_network_gives_way_and_a_named_one_is_refused() {
    let scope = with_own_mounts(|mounts| async move {
        mounts.hide_program("nft");
        let server = TestServerOptions::default().with("WORKSPACE_DEFAULT_NETWORK", "internet").start().await;
        let (client, probe) = (server.client(), server.probe());
        let local = &client.providers().await.unwrap().providers[0];
        assert_eq!((local.name, local.status.as_str()), (ProviderKind::Local, "healthy"), "{local:?}");
        assert_eq!(local.capabilities.as_ref().unwrap().networks, [NetworkMode::Isolated]);

        // The default is dropped, and the workspace says so.
        let workspace = client.create(&small()).await.unwrap();
        let says_why = |warning: &String| {
            warning.contains("\"internet\" cannot be enforced") && warning.contains("nft is not installed")
        };
        assert!(workspace.warnings.iter().any(says_why), "{:?}", workspace.warnings);
        assert_eq!(workspace.network, NetworkMode::Isolated);
        let routes = "tail -n +2 /proc/net/route";
        assert_eq!(sh(&client, workspace.id, routes).await, "", "there is no way out");

        // What is named is refused, and nothing is left of it.
        let refused = probe.post("/api/v1/agent/workspaces", &json!({"network": "internet"})).await;
        assert_eq!(refused.failure(), (400, "not_enforceable"), "{}", refused.body);
        assert_eq!(refused.detail("field"), "network");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("nft is not installed"), "{message}");
        let isolated = probe.post("/api/v1/agent/workspaces", &json!({"network": "isolated"})).await;
        assert_eq!(isolated.status, 201, "{}", isolated.body);
        assert_eq!(isolated.body["network"], "isolated");
        assert_eq!(client.list(&ListWorkspaces::default()).await.unwrap().items.len(), 2);
        let census = server.census();
        assert_eq!((census.state_folders.len(), census.links.len()), (2, 0), "{census}");

        client.stop(workspace.id).await.unwrap();
        client.resume(workspace.id).await.unwrap();
        assert_eq!(sh(&client, workspace.id, routes).await, "", "nor after a stop");
        let scope = Scope::Installation { id: server.installation(), data_dir: server.data_dir() };
        server.finish().await;
        scope
    });
    // Here is an `nft` that can be asked for rules.
    let census = Census::take(&scope);
    assert!(census.is_empty(), "{census}");
}
