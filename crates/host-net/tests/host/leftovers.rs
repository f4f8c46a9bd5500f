//! What is left, found and removed.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use emergent_host_net::{HostNetwork, Left, Namespace, link_name};
use emergent_types::WorkspaceId;

use crate::world::{PRIVATE, PUBLIC, ip, on_a_host, run};

fn forwarding(link: &str) -> (String, String) {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    (
        read(format!("/proc/sys/net/ipv4/conf/{link}/forwarding")),
        read(format!("/proc/sys/net/ipv6/conf/{link}/force_forwarding")),
    )
}

#[test]
fn the_last_sandbox_leaves_nothing() {
    on_a_host(|world| {
        let before = forwarding("up0");
        let (one, other) = (world.sandbox(), world.sandbox());
        assert_ne!(one.attachment, other.attachment);
        assert_eq!(forwarding("up0").0, "1");
        let mut listed: Vec<_> =
            world.network.list().unwrap().into_iter().filter_map(|left| left.workspace).collect();
        listed.sort();
        assert_eq!(listed, [one.id, other.id]);
        world.network.detach(one.id).unwrap();
        world.network.detach(one.id).unwrap();
        world.network.clean_up().unwrap();
        assert!(other.reach(PUBLIC[0]).is_ok(), "the other one still works");
        world.network.detach(other.id).unwrap();
        // By itself, a little later.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !world.traces().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", world.traces());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(forwarding("up0"), before);
        // And again.
        assert!(world.sandbox().reach(PUBLIC[0]).is_ok());
    });
}

#[test]
fn what_an_interrupted_server_left_is_found_by_the_next() {
    on_a_host(|world| {
        let sandbox = world.sandbox();
        let half = WorkspaceId::generate();
        // Killed right after the link was made, before it had an alias.
        ip(&format!("link add {} type veth peer name half0", link_name(world.installation, half)));
        std::mem::forget(world.network);
        let next = HostNetwork::new(world.options.clone());
        let left = next.list().unwrap();
        assert!(left.contains(&Left { link: link_name(world.installation, half), workspace: None }));
        assert!(left.iter().any(|left| left.workspace == Some(sandbox.id)));
        next.recheck().unwrap();
        assert_eq!(next.list().unwrap().len(), 1);
        // Its address is not given to another one.
        let other = Namespace::make().unwrap();
        let attached = next.attach(WorkspaceId::generate(), &other).unwrap();
        assert_ne!(attached, sandbox.attachment);
        for left in next.list().unwrap() {
            next.detach(left.workspace.unwrap()).unwrap();
        }
        next.clean_up().unwrap();
        let prefix = emergent_host_net::link_prefix(world.installation);
        assert!(!run("ip", "-o link").contains(&prefix));
        assert!(!run("nft", "list tables").contains(&emergent_host_net::table_name(world.installation)));
    });
}

#[test]
fn rules_without_sandboxes_are_removed_by_the_next_server() {
    on_a_host(|world| {
        let sandbox = world.sandbox();
        ip(&format!("link del {}", link_name(world.installation, sandbox.id)));
        std::mem::forget(world.network);
        let next = HostNetwork::new(world.options.clone());
        next.recheck().unwrap();
        assert!(!run("nft", "list tables").contains("emergent"));
        assert_eq!(forwarding("up0").0, "0");
    });
}

#[test]
fn two_installations_do_not_clash() {
    on_a_host(|world| {
        let mut options = world.options.clone();
        options.installation = emergent_types::InstallationId::generate();
        let neighbour = HostNetwork::new(options);
        let here = world.sandbox();
        let namespace = Namespace::make().unwrap();
        let there = neighbour.attach(WorkspaceId::generate(), &namespace).unwrap();
        assert_ne!(here.attachment.v4, there.v4);
        crate::world::greet_in(&namespace);
        assert!(here.reach(&there.v4.to_string()).is_err());
        assert!(here.reach(PUBLIC[0]).is_ok());
        assert!(namespace.run(|| crate::world::reach(PUBLIC[0])).unwrap().is_ok());
        world.network.detach(here.id).unwrap();
        world.network.clean_up().unwrap();
        // The first one had switched the uplink on, and off again.
        neighbour.recheck().unwrap();
        assert!(namespace.run(|| crate::world::reach(PUBLIC[0])).unwrap().is_ok());
        assert!(namespace.run(|| crate::world::reach(PRIVATE[0])).unwrap().is_err());
    });
}

#[test]
fn a_trial_tells_and_leaves_nothing() {
    on_a_host(|world| {
        let links = run("ip", "-o link");
        let results = emergent_host_net::run_trial().unwrap();
        assert_eq!(results.len(), 5);
        for result in &results {
            assert!(result.is_good(), "{result:?}");
        }
        assert_eq!(run("ip", "-o link").lines().count(), links.lines().count());
        assert!(!run("nft", "list tables").contains("emergent"));
        // A firewall that drops everything is noticed.
        run("nft", "add table inet strict");
        run("nft", "add chain inet strict forward { type filter hook forward priority 0 ; policy drop ; }");
        let results = emergent_host_net::run_trial().unwrap();
        assert!(results.iter().any(|result| !result.is_good()));
        let _ = (world.internet.as_fd(), world.installation);
    });
}

#[test]
fn connecting_is_quick() {
    on_a_host(|world| {
        let _first = world.sandbox();
        let mut times: Vec<Duration> = (0..10)
            .map(|_| {
                let namespace = Namespace::make().unwrap();
                let id = WorkspaceId::generate();
                let start = Instant::now();
                world.network.attach(id, &namespace).unwrap();
                let taken = start.elapsed();
                world.network.detach(id).unwrap();
                taken
            })
            .collect();
        times.sort();
        println!("attach: {times:?}");
        // Ten times what it takes on a quiet machine.
        assert!(times[5] < Duration::from_millis(100), "{times:?}");
    });
}
