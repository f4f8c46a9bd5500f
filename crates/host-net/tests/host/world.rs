//! A host and what is around it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use emergent_host_net::{Attachment, HostNetwork, Namespace, Options};
use emergent_types::{InstallationId, WorkspaceId};

/// Where everything in the world listens.
pub(crate) const PORT: u16 = 7777;

/// Addresses that stand for the internet. They must be public ones, so they are of those that
/// swallow what should never have been asked (AS112). Nothing leaves the namespaces anyway.
pub(crate) const PUBLIC: [&str; 2] = ["192.175.48.10", "2620:4f:8000::10"];

/// Addresses no sandbox may reach. In this world every one of them answers.
pub(crate) const PRIVATE: [&str; 28] = [
    "10.20.0.1",
    "10.255.255.1",
    "100.64.0.9",
    "100.127.0.9",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.0.1",
    "192.168.7.1",
    "192.168.255.1",
    "fd77::1",
    "fc77::1",
    "fec0::1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:a00:1::1",
    "192.0.0.9",
    "192.0.2.9",
    "192.88.99.9",
    "198.18.0.9",
    "198.51.100.9",
    "203.0.113.9",
    "240.0.0.9",
    "100::9",
    "2001:2::9",
    "2001:db8::9",
    "2002:101:101::9",
    "3fff::9",
];

/// Addresses of the host itself: uplink, a bridge, in both families.
pub(crate) const HOST: [&str; 4] =
    ["192.31.196.2", "192.52.193.77", "2620:4f:8000:f::2", "2620:4f:8000:77::1"];

pub(crate) struct World {
    pub(crate) network: HostNetwork,
    pub(crate) installation: InstallationId,
    pub(crate) internet: Namespace,
    pub(crate) options: Options,
}

/// Runs `test` on a host of its own. Threads and programs that it starts are there too.
pub(crate) fn on_a_host(test: impl FnOnce(World) + Send) {
    on_a_host_with(|_| {}, test);
}

pub(crate) fn on_a_host_with(change: impl FnOnce(&mut Options) + Send, test: impl FnOnce(World) + Send) {
    let host = Namespace::make().unwrap();
    let outcome = host.run(|| {
        forget_what_was_inherited();
        let internet = Namespace::make().unwrap();
        build(&internet);
        let mut options = Options::new(InstallationId::generate());
        change(&mut options);
        let installation = options.installation;
        let network = HostNetwork::new(options.clone());
        test(World { network, installation, internet, options });
    });
    outcome.unwrap();
}

/// A new namespace begins as the machine's first one is now, which may be a router.
fn forget_what_was_inherited() {
    for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv6/conf/default/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{switch}"), "0").unwrap();
    }
}

fn build(internet: &Namespace) {
    // A process that lives in the internet gives `ip` a name for it.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut anchor = internet
        .run(|| Command::new("cat").stdin(reader).stdout(std::process::Stdio::null()).spawn().unwrap())
        .unwrap();
    ip("link set lo up");
    ip(&format!("link add up0 type veth peer name in0 netns {}", anchor.id()));
    ip("addr add 192.31.196.2/24 dev up0");
    ip("addr add 2620:4f:8000:f::2/64 dev up0 nodad");
    ip("link add br0 type bridge");
    ip("addr add 192.52.193.77/24 dev br0");
    ip("addr add 2620:4f:8000:77::1/64 dev br0 nodad");
    ip("link set br0 up");
    internet
        .run(|| {
            ip("link set lo up");
            ip("addr add 192.31.196.1/24 dev in0");
            ip("addr add 2620:4f:8000:f::1/64 dev in0 nodad");
            ip("link set in0 up");
            for address in PUBLIC.iter().chain(&PRIVATE) {
                // Usable at once.
                let nodad = if address.contains(':') { "nodad" } else { "" };
                ip(&format!("addr add {address} dev lo {nodad}"));
            }
        })
        .unwrap();
    ip("link set up0 up");
    ip("route add default via 192.31.196.1");
    ip("-6 route add default via 2620:4f:8000:f::1");
    drop(writer);
    anchor.wait().unwrap();
    greet_in(internet);
    // The host itself offers something too.
    greet(TcpListener::bind(("::", PORT)).unwrap());
}

/// Answers everybody in a namespace, with the address they are seen under.
pub(crate) fn greet_in(namespace: &Namespace) {
    greet(namespace.run(|| TcpListener::bind(("::", PORT)).unwrap()).unwrap());
}

/// The thread ends with the test's process.
fn greet(listener: TcpListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let from = stream.peer_addr().unwrap().ip().to_canonical();
            let _ = writeln!(stream, "{from}");
        }
    });
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    run("ip", words);
}

pub(crate) fn run(program: &str, words: &str) -> String {
    let output = Command::new(program).args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Connects from this thread's namespace, and says under which address one is seen.
pub(crate) fn reach(address: &str) -> io::Result<String> {
    let address = SocketAddr::new(address.parse::<IpAddr>().unwrap(), PORT);
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(1500))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Ok(line.trim().to_owned())
}

/// A sandbox's namespace, connected.
pub(crate) struct Sandbox {
    pub(crate) id: WorkspaceId,
    pub(crate) namespace: Namespace,
    pub(crate) attachment: Attachment,
}

impl World {
    pub(crate) fn sandbox(&self) -> Sandbox {
        let (id, namespace) = (WorkspaceId::generate(), Namespace::make().unwrap());
        let attachment = self.network.attach(id, &namespace).unwrap();
        Sandbox { id, namespace, attachment }
    }

    /// Two of them, the second of which answers whoever reaches it.
    pub(crate) fn two_sandboxes(&self) -> (Sandbox, Sandbox) {
        let (one, other) = (self.sandbox(), self.sandbox());
        greet_in(&other.namespace);
        (one, other)
    }

    /// Everything on the host that carries the installation's id.
    pub(crate) fn traces(&self) -> Vec<String> {
        let prefix = emergent_host_net::link_prefix(self.installation);
        let table = emergent_host_net::table_name(self.installation);
        let comment = emergent_host_net::rule_comment(self.installation);
        let all = [
            run("ip", "-o link show"),
            run("nft", "list tables"),
            run("iptables", "-S"),
            run("ip6tables", "-S"),
            run("ip", "route show table all"),
        ];
        all.join("\n")
            .lines()
            .filter(|line| line.contains(&prefix) || line.contains(&table) || line.contains(&comment))
            .map(str::to_owned)
            .collect()
    }
}

impl Sandbox {
    pub(crate) fn reach(&self, address: &str) -> io::Result<String> {
        self.namespace.run(|| reach(address)).unwrap()
    }

    /// The internet, in both families.
    pub(crate) fn reaches_what_it_may(&self) {
        for address in PUBLIC {
            let reached = self.reach(address);
            assert!(reached.is_ok(), "{address}: {reached:?}\n{}", run("nft", "list ruleset"));
        }
    }

    /// Not even the internet.
    pub(crate) fn reaches_nothing(&self) {
        for address in PUBLIC {
            assert!(self.reach(address).is_err(), "{address} was reached\n{}", run("nft", "list ruleset"));
        }
    }

    /// Private ranges, the metadata service, the host and another sandbox, in both families.
    pub(crate) fn is_denied_the_rest(&self, other: &Self) {
        let neighbour: Vec<String> =
            other.attachment.addresses().map(|address| address.to_string()).collect();
        for address in PRIVATE.iter().chain(&HOST).copied().chain(neighbour.iter().map(String::as_str)) {
            assert!(self.reach(address).is_err(), "{address} was reached\n{}", run("nft", "list ruleset"));
        }
    }
}
