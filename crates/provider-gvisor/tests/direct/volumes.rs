//! Volumes with names: whose they are, what a killed server leaves of them, and what is in them.

use std::fs;

use emergent_agent_client::{CommandSpec, ExecOptions};
use emergent_provider::{ProviderError, SandboxSpec, VolumeMount, VolumeName};
use emergent_types::ByteSize;

use crate::faults::Server;
use crate::lasting_volumes::{name, with_volumes};

async fn is_in_use(server: &Server, volume: &VolumeName) {
    let refused = server.provider().remove_volume(volume).await.unwrap_err();
    assert!(matches!(refused, ProviderError::VolumeInUse { .. }), "{refused}");
}

/// Running or stopped, and whichever server is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_its_workspaces_until_that_is_destroyed() {
    let first = Server::new();
    let sandbox = first.subject.sandbox_with(with_volumes(&first.subject, &["/data"])).await;
    let (id, volume) = (sandbox.id(), name("/data"));
    sandbox.sh("echo kept > /data/file; sync").await;
    is_in_use(&first, &volume).await;
    let second = first.again();
    drop(first);
    is_in_use(&second, &volume).await;
    second.provider().stop(id).await.unwrap();
    is_in_use(&second, &volume).await;

    let third = second.again();
    drop(second);
    is_in_use(&third, &volume).await;
    third.provider().resume(&sandbox.spec).await.unwrap();
    let read = CommandSpec::shell("cat /data/file");
    let read = third.subject.client(&sandbox.spec).exec(&read, ExecOptions::default()).await.unwrap();
    assert_eq!(read.stdout.to_text(), "kept\n");
    third.provider().destroy(id).await.unwrap();
    assert_eq!(third.provider().list_volumes().await.unwrap(), std::slice::from_ref(&volume));
    third.provider().remove_volume(&volume).await.unwrap();
    assert_eq!(third.provider().list_volumes().await.unwrap(), []);
    third.has_left_nothing().await;
}

/// Nothing that a workspace has put into a volume is followed on the host, and two workspaces that have the same
/// one see what the other does.
#[tokio::test(flavor = "multi_thread")]
async fn links_in_a_volume_lead_nowhere_on_the_host() {
    let server = Server::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    let is_untouched = || {
        assert_eq!(fs::read(outside.path().join("kept")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    };
    let one = server.subject.sandbox_with(with_volumes(&server.subject, &["/data"])).await;
    let path = outside.path().display();
    one.sh(&format!("cd /data; ln -s {path} outside; ln -s / root; ln -s ../../../../../../..{path} up"))
        .await;

    let volume = name("/data");
    let elsewhere = VolumeMount::new(volume.clone(), "/srv/other", ByteSize::from_mib(16)).unwrap();
    let spec = SandboxSpec { volumes: vec![elsewhere], ..server.subject.spec() };
    let other = server.subject.sandbox_with(spec).await;
    for link in ["outside", "root", "up"] {
        assert_eq!(other.sh(&format!("test -L /srv/other/{link} && echo a link")).await, "a link");
    }
    for link in ["outside", "up", &format!("root{path}")] {
        assert_ne!(other.run(&format!("cat /srv/other/{link}/kept")).await.exit.code, 0, "{link}");
    }
    other.sh("echo from the other > /srv/other/file").await;
    assert_eq!(one.sh("cat /data/file").await, "from the other");

    // What is in a volume does not decide where another one is.
    let inside = with_volumes(&server.subject, &["/data", "/data/outside/inner"]);
    let refused = server.provider().create(&inside).await.unwrap_err();
    assert!(matches!(refused, ProviderError::NotEnforceable { what: "volumes", .. }), "{refused}");
    assert_eq!(server.provider().list_volumes().await.unwrap(), std::slice::from_ref(&volume));
    is_untouched();

    server.provider().destroy(one.id()).await.unwrap();
    is_in_use(&server, &volume).await;
    server.provider().destroy(other.id()).await.unwrap();
    server.provider().remove_volume(&volume).await.unwrap();
    is_untouched();
    server.has_left_nothing().await;
}

/// A volume that was being made when a server was killed is listed. Who wants it gets it whole, and who does not
/// removes it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_made_is_listed_and_finished_or_removed() {
    let server = Server::new();
    let volumes = server.data.path().join("direct/volumes");
    let [wanted, unwanted] = ["/data", "/unwanted"].map(name);
    for volume in [&wanted, &unwanted] {
        fs::create_dir_all(volumes.join(volume.as_str())).unwrap();
        fs::write(volumes.join(volume.as_str()).join(".disk.img.partial"), "half").unwrap();
    }
    assert_eq!(server.provider().list_volumes().await.unwrap(), [wanted.clone(), unwanted.clone()]);
    server.provider().remove_volume(&unwanted).await.unwrap();
    assert_eq!(server.provider().list_volumes().await.unwrap(), std::slice::from_ref(&wanted));

    let sandbox = server.subject.sandbox_with(with_volumes(&server.subject, &["/data"])).await;
    assert_eq!(sandbox.sh("echo whole > /data/file; cat /data/file").await, "whole");
    server.provider().destroy(sandbox.id()).await.unwrap();
    server.provider().remove_volume(&wanted).await.unwrap();
    assert_eq!(fs::read_dir(volumes).unwrap().count(), 0);
    server.has_left_nothing().await;
}
