//! Several warm pools, as the configuration file names them.

use std::time::Duration;

use emergent_test_support::{TestServerOptions, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn a_pool_of_the_file_serves_what_it_is_and_another_size_is_the_default_pools() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("emergent.toml");
    let text = "[workspaces]\ndefault_memory = \"128M\"\ndefault_disk = \"64M\"\n\
                [[workspaces.pools]]\nname = \"small\"\nsize = 1\nmemory = \"96M\"\nprovider = \"local\"\n";
    std::fs::write(&file, text).unwrap();
    let server = TestServerOptions::default()
        .with("EMERGENT_CONFIG", file.display())
        .with("WORKSPACE_WARM_POOL_SIZE", 1)
        .start()
        .await;
    let pools = async |arguments: &[&str]| -> Value {
        let output = server.command(&[["warm-pool", "--json"].as_slice(), arguments].concat()).await;
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let of = |pools: &Value, name: &str| {
        let pools = pools["pools"].as_array().unwrap();
        pools.iter().find(|pool| pool["name"] == name).unwrap_or_else(|| panic!("{pools:?}")).clone()
    };
    let both_ready = async || {
        let pools = pools(&[]).await;
        let ready = ["default", "small"].iter().all(|name| of(&pools, name)["ready"] == 1);
        ready.then_some(pools)
    };
    eventually("both are full", Duration::from_secs(60), &both_ready).await;
    for (memory, hits) in [("96M", 1), ("128M", 2)] {
        let made = server.command(&["workspace", "create", "--json", "--memory", memory]).await;
        let made: Value = serde_json::from_str(&made.stdout).unwrap();
        assert_eq!(made["resource_limits"]["memory"], memory);
        assert_eq!(pools(&[]).await["hits"], hits, "{memory} was ready");
    }
    eventually("both are full again", Duration::from_secs(60), &both_ready).await;
    let resized = pools(&["--size", "0"]).await;
    assert_eq!((&of(&resized, "default")["size"], &of(&resized, "small")["size"]), (&json!(0), &json!(1)));
    let shown = server.command(&["warm-pool"]).await.stdout;
    assert!(shown.lines().any(|line| line.starts_with("small    1")), "{shown}");
    server.finish().await;
}
