//! Names through the gateway.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use emergent_host_net::Namespace;
use emergent_host_net::bridge::Resolvers;

use super::containers::{
    Container, RESOLVER4, RESOLVER6, everything, make_bridge, on_a_bridge, rules, show_packets_of_all_bridges,
};
use crate::world::{ip, on_a_host, run};

const PATIENCE: Duration = Duration::from_millis(1500);

/// Answers on port 53 of an address in this thread's namespace, with who asked and a word.
pub(super) fn answer(address: &str, word: &'static str) {
    let to: SocketAddr = (address.parse::<IpAddr>().unwrap(), 53).into();
    let (udp, tcp) = (UdpSocket::bind(to).unwrap(), TcpListener::bind(to).unwrap());
    std::thread::spawn(move || {
        while let Ok((_, from)) = udp.recv_from(&mut [0; 512]) {
            let _ = udp.send_to(format!("{word} udp {}", from.ip()).as_bytes(), from);
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let from = stream.peer_addr().unwrap().ip();
            let _ = write!(stream, "{word} tcp {from}");
        }
    });
}

fn over_udp(address: IpAddr) -> io::Result<String> {
    let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect((address, 53))?;
    socket.send(b"question")?;
    let mut text = [0; 128];
    let length = socket.recv(&mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn over_tcp(address: IpAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&(address, 53).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn ask(from: &Namespace, address: IpAddr) -> [io::Result<String>; 2] {
    from.run(|| [over_udp(address), over_tcp(address)]).unwrap()
}

pub(super) fn is_answered(container: &Container, address: IpAddr, word: &str, seen: &str) {
    for (over, answer) in ["udp", "tcp"].iter().zip(ask(&container.namespace, address)) {
        let expect = format!("{word} {over} {seen}");
        assert_eq!(answer.as_deref().ok(), Some(expect.as_str()), "{answer:?}\n{}", everything());
    }
}

pub(super) fn is_refused(container: &Container, address: &str) {
    for answer in ask(&container.namespace, address.parse().unwrap()) {
        assert!(answer.is_err(), "{address} answered {answer:?}");
    }
}

#[test]
fn the_gateway_answers_for_a_resolver_that_is_denied() {
    for shown in ["0", "1"] {
        on_a_host(|world| {
            show_packets_of_all_bridges(shown);
            world.internet.run(|| [answer(RESOLVER4, "four"), answer(RESOLVER6, "six")]).unwrap();
            let (in_place, one, other) = on_a_bridge(&world);
            let [gateway4, gateway6] = in_place.rules().nameservers().try_into().unwrap();
            is_answered(&one, gateway4, "four", "192.31.196.2");
            is_answered(&one, gateway6, "six", "2620:4f:8000:f::2");
            is_answered(&other, gateway4, "four", "192.31.196.2");
            // By this way only, and this port only.
            is_refused(&one, RESOLVER4);
            is_refused(&one, RESOLVER6);
            one.is_denied_the_rest(in_place.rules(), &other);
        });
    }
}

/// Its own resolver on an address of the host that is not loopback.
#[test]
fn a_resolver_on_the_host_itself_is_asked_and_nothing_else_there() {
    on_a_host(|world| {
        let mut rules = rules(&world);
        let resolvers = ["192.52.193.77", "2620:4f:8000:77::1"].map(|address| address.parse().unwrap());
        rules.resolvers = Resolvers::new(&resolvers, true).unwrap();
        answer("192.52.193.77", "four");
        answer("2620:4f:8000:77::1", "six");
        make_bridge(&rules);
        rules.apply_here().unwrap();
        let (one, other) = (Container::connect(&rules), Container::connect(&rules));
        let [gateway4, gateway6] = rules.nameservers().try_into().unwrap();
        is_answered(&one, gateway4, "four", &one.addresses[0].to_string());
        is_answered(&one, gateway6, "six", &one.addresses[1].to_string());
        is_refused(&one, "192.52.193.77");
        is_refused(&one, "2620:4f:8000:77::1");
        one.reaches_what_it_may();
        one.is_denied_the_rest(&rules, &other);
    });
}

/// One family of resolvers is enough for both.
#[test]
fn without_a_resolver_in_a_family_its_gateway_is_closed() {
    on_a_host(|world| {
        world.internet.run(|| answer(RESOLVER4, "four")).unwrap();
        let mut rules = rules(&world);
        rules.resolvers = Resolvers::new(&[RESOLVER4.parse().unwrap()], true).unwrap();
        make_bridge(&rules);
        rules.apply_here().unwrap();
        let one = Container::connect(&rules);
        let gateway4 = IpAddr::V4(rules.subnets.gateway4());
        assert_eq!(rules.nameservers(), [gateway4]);
        is_answered(&one, gateway4, "four", "192.31.196.2");
        // Also where somebody listens there.
        let gateway6 = rules.subnets.gateway6().unwrap().to_string();
        answer(&gateway6, "host");
        is_refused(&one, &gateway6);
    });
}

/// An engine that publishes port 53 of every address for somebody else does not get the questions.
#[test]
fn translations_of_the_engine_come_later() {
    on_a_host(|world| {
        world.internet.run(|| [answer(RESOLVER4, "four"), answer("192.175.48.10", "published")]).unwrap();
        for protocol in ["udp", "tcp"] {
            run(
                "iptables",
                &format!(
                    "-t nat -A PREROUTING -p {protocol} --dport 53 -m addrtype --dst-type LOCAL \
                     -j DNAT --to-destination 192.175.48.10"
                ),
            );
        }
        let (in_place, one, _other) = on_a_bridge(&world);
        is_answered(&one, in_place.rules().nameservers()[0], "four", "192.31.196.2");
        // Nor is another of its translations a way to an address of the host.
        ip("addr add 192.0.2.78/32 dev br0");
        is_refused(&one, "192.0.2.78");
    });
}

/// The host's resolvers have changed.
#[test]
fn another_resolver_takes_over_in_one_step() {
    on_a_host(|world| {
        world.internet.run(|| [answer(RESOLVER4, "old"), answer("192.168.7.1", "new")]).unwrap();
        let (in_place, one, _other) = on_a_bridge(&world);
        let gateway = in_place.rules().nameservers()[0];
        is_answered(&one, gateway, "old", "192.31.196.2");
        let mut rules = in_place.rules().clone();
        rules.resolvers = Resolvers::new(&["192.168.7.1".parse().unwrap()], true).unwrap();
        rules.apply_here().unwrap();
        is_answered(&one, gateway, "new", "192.31.196.2");
    });
}
