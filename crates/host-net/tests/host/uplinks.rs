//! Ways to the internet beside the one default route.

use emergent_host_net::Namespace;

use crate::world::{PRIVATE, PUBLIC, World, greet_in, ip, on_a_host, reach, run};

/// Another link from the host into the internet, with an address on both ends.
fn second_uplink(world: &World, host: &str, internet: &str) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut anchor =
        world.internet.run(|| std::process::Command::new("cat").stdin(reader).spawn().unwrap()).unwrap();
    ip(&format!("link add up1 type veth peer name in1 netns {}", anchor.id()));
    ip(&format!("addr add {host} dev up1"));
    ip("link set up1 up");
    world
        .internet
        .run(|| {
            ip(&format!("addr add {internet} dev in1"));
            ip("link set in1 up");
        })
        .unwrap();
    drop(writer);
    anchor.wait().unwrap();
}

fn forwards(link: &str) -> bool {
    run("cat", &format!("/proc/sys/net/ipv4/conf/{link}/forwarding")).trim() == "1"
}

/// As tunnels do it that leave the host's own default route alone.
#[test]
fn two_halves_of_the_internet_without_a_gateway() {
    on_a_host(|world| {
        ip("route del default");
        ip("route add 0.0.0.0/1 dev up0");
        ip("route add 128.0.0.0/1 dev up0");
        ip("-6 route del default");
        ip("-6 route add 2000::/4 via 2620:4f:8000:f::1");
        assert!(reach(PUBLIC[0]).is_ok(), "the host itself");
        let (one, other) = world.two_sandboxes();
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
    });
}

#[test]
fn a_table_of_its_own_by_a_rule() {
    on_a_host(|world| {
        second_uplink(&world, "192.52.192.2/24", "192.52.192.1/24");
        ip("route add default via 192.52.192.1 table 100");
        ip("rule add to 192.175.48.0/24 table 100");
        assert_eq!(reach(PUBLIC[0]).unwrap(), "192.52.192.2", "the host goes this way");
        let (one, other) = world.two_sandboxes();
        assert_eq!(one.reach(PUBLIC[0]).unwrap(), "192.52.192.2");
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
    });
}

#[test]
fn a_public_network_right_at_the_host() {
    on_a_host(|world| {
        second_uplink(&world, "192.52.192.2/24", "192.52.192.1/24");
        let sandbox = world.sandbox();
        assert_eq!(sandbox.reach("192.52.192.1").unwrap(), "192.52.192.2");
        assert!(sandbox.reach("192.52.192.2").is_err(), "the host's own address there");
    });
}

/// A route that appears later is found by the next check.
#[test]
fn a_way_that_comes_later() {
    on_a_host(|world| {
        let sandbox = world.sandbox();
        second_uplink(&world, "192.52.192.2/24", "192.52.192.1/24");
        ip("route replace default via 192.52.192.1");
        world.network.recheck().unwrap();
        assert_eq!(sandbox.reach(PUBLIC[0]).unwrap(), "192.52.192.2");
    });
}

/// Nothing is switched on that leads to denied ranges only, and nobody passes through what is.
#[test]
fn no_link_forwards_that_need_not() {
    on_a_host(|world| {
        second_uplink(&world, "192.168.88.2/24", "192.168.88.1/24");
        ip("route add 10.20.0.0/16 via 192.168.88.1");
        let (one, other) = world.two_sandboxes();
        one.reaches_what_it_may();
        assert!(forwards("up0") && !forwards("up1"));
        assert!(reach(PRIVATE[0]).is_ok(), "the host itself uses it");
        one.is_denied_the_rest(&other);
        // Somebody behind one uplink wants to get through the host to what is behind the other.
        let stranger = Namespace::make().unwrap();
        let mut anchor =
            stranger.run(|| std::process::Command::new("sleep").arg("600").spawn().unwrap()).unwrap();
        ip(&format!("link add dmz0 type veth peer name eth0 netns {}", anchor.id()));
        ip("addr add 192.52.194.1/24 dev dmz0");
        ip("link set dmz0 up");
        stranger
            .run(|| {
                ip("addr add 192.52.194.2/24 dev eth0");
                ip("link set eth0 up");
                ip("route add default via 192.52.194.1");
            })
            .unwrap();
        greet_in(&stranger);
        world.internet.run(|| ip("route add 192.52.194.0/24 via 192.31.196.2")).unwrap();
        world.network.recheck().unwrap();
        assert!(forwards("dmz0"), "a public network: sandboxes may reach it");
        assert_eq!(one.reach("192.52.194.2").unwrap(), "192.52.194.1");
        assert!(stranger.run(|| reach(PUBLIC[0])).unwrap().is_err(), "the host forwards for strangers");
        let from_outside = world.internet.run(|| reach("192.52.194.2")).unwrap();
        assert!(from_outside.is_err(), "the host forwards for strangers");
        anchor.kill().unwrap();
        anchor.wait().unwrap();
    });
}
