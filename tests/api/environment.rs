//! Environment variables of a workspace.

use serde_json::json;

use crate::api::Api;

#[tokio::test]
async fn every_command_has_them_also_after_a_resume_and_a_restart() {
    let mut api = Api::start().await;
    let workspace = api.create_with(json!({"env": {"GREETING": "hello there", "EMPTY": ""}})).await;
    let id = workspace.id;
    let show = r#"echo "$GREETING|${EMPTY-unset}""#;
    assert_eq!(workspace.sh(show).await, "hello there|\n");
    let over =
        workspace.post("/bash", json!({"command": "echo $GREETING", "env": {"GREETING": "mine"}})).await;
    assert_eq!(over.body["stdout"], "mine\n", "a call's own come first");
    workspace.post("/stop", json!({})).await;
    workspace.post("/resume", json!({})).await;
    assert_eq!(workspace.sh(show).await, "hello there|\n");

    assert!(api.server.terminate().await.success());
    api.restart().await;
    let path = format!("{}/{id}/bash", crate::api::WORKSPACES);
    assert_eq!(api.post(&path, &json!({"command": show})).await.body["stdout"], "hello there|\n");
    api.finish().await;
}
