//! A real packet: what a sandbox would send goes through the host's own rules to a target
//! that is in a namespace of the trial's own.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emergent_types::{InstallationId, WorkspaceId};

use crate::cidr::Cidr;
use crate::command::block_on;
use crate::error::NetworkError;
use crate::forwarding::{has_ipv6, prepare_link};
use crate::namespace::Namespace;
use crate::netlink::{GUEST_LINK, Netlink};
use crate::network::HostNetwork;
use crate::options::Options;
use crate::pool::{Pair, Pool};

/// From ranges for documentation, which are nobody's: they stand for the internet, and are opened
/// for that.
const HOST: Pair = Pair {
    v4: Ipv4Addr::new(198, 51, 100, 253),
    v6: Ipv6Addr::new(0x2001, 0xdb8, 0x656d, 0, 0, 0, 0, 0xfffd),
};
const TARGET: Pair = Pair {
    v4: Ipv4Addr::new(198, 51, 100, 254),
    v6: Ipv6Addr::new(0x2001, 0xdb8, 0x656d, 0, 0, 0, 0, 0xfffe),
};

/// How long a packet may take to a namespace on the same host.
const LIMIT: Duration = Duration::from_secs(2);
const GREETING: &[u8] = b"emergent";

/// Which way was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// To an address that stands for the internet.
    Internet4,
    /// The same in IPv6.
    Internet6,
    /// To an address in a denied range. Must fail.
    Denied4,
    /// The same in IPv6. Must fail.
    Denied6,
    /// To an address of the host itself. Must fail.
    Host4,
}

/// How one way went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialResult {
    /// Which way.
    pub trial: Trial,
    /// `Ok` when packets went through.
    pub reached: Result<(), String>,
}

impl TrialResult {
    /// Whether it went as it must.
    pub fn is_good(&self) -> bool {
        match self.trial {
            Trial::Internet4 | Trial::Internet6 => self.reached.is_ok(),
            Trial::Denied4 | Trial::Denied6 | Trial::Host4 => self.reached.is_err(),
        }
    }
}

/// Sends real packets through this host. Everything that it makes is removed again.
pub fn run() -> Result<Vec<TrialResult>, NetworkError> {
    let installation = InstallationId::generate();
    let mut options = Options::new(installation);
    // The host's own address with them: it must stay closed.
    let opened = [HOST, TARGET].into_iter().flat_map(|pair| [IpAddr::V4(pair.v4), IpAddr::V6(pair.v6)]);
    options.egress_allow = opened.map(|address| Cidr::new(address, 128)).collect();
    let network = HostNetwork::new(options);
    let workspace = WorkspaceId::generate();
    // Where nothing can be made there is nothing to remove, and this says best why not.
    network.enforceable().map_err(NetworkError::Unenforceable)?;
    let results = try_all(&network, installation, workspace);
    let removed = network.detach(workspace).and_then(|()| network.clean_up());
    let results = results?;
    removed.map(|()| results)
}

fn try_all(
    network: &HostNetwork,
    installation: InstallationId,
    workspace: WorkspaceId,
) -> Result<Vec<TrialResult>, NetworkError> {
    let made = || Namespace::make().map_err(NetworkError::system("network namespace"));
    let (sandbox, target) = (made()?, made()?);
    network.attach(workspace, &sandbox)?;
    // Some private address that the host does not use.
    let denied = Pool::choose(InstallationId::generate(), &[])
        .map(|pool| pool.gateway())
        .ok_or(NetworkError::NoAddress)?;
    let link = format!("emt{}", installation.short());
    let ipv6 = has_ipv6();
    let tried =
        connect_target(&target, &link, denied, ipv6).and_then(|()| probe(&sandbox, &target, denied, ipv6));
    block_on(async { Netlink::open()?.remove(&link).await })?;
    tried
}

fn connect_target(target: &Namespace, link: &str, denied: Pair, ipv6: bool) -> Result<(), NetworkError> {
    block_on(async {
        let netlink = Netlink::open()?;
        let index = netlink.add_pair(link, GUEST_LINK, target.as_fd(), 1500).await?;
        prepare_link(link, ipv6).map_err(NetworkError::system("link settings"))?;
        netlink.configure_host(index, HOST, TARGET, ipv6).await?;
        netlink.add_route_to(index, denied.v4.into(), HOST.v4.into()).await?;
        if ipv6 {
            netlink.add_route_to(index, denied.v6.into(), HOST.v6.into()).await?;
        }
        Ok(())
    })?;
    let inside = || {
        block_on(async {
            let netlink = Netlink::open()?;
            netlink.configure_guest(GUEST_LINK, HOST, TARGET, ipv6).await?;
            let Some(link) = netlink.link(GUEST_LINK).await? else { return Ok(()) };
            netlink.add_address(link.index, denied.v4.into()).await?;
            if ipv6 {
                netlink.add_address(link.index, denied.v6.into()).await?;
            }
            Ok(())
        })
    };
    target.run(inside).map_err(NetworkError::system("network namespace"))?
}

fn probe(
    sandbox: &Namespace,
    target: &Namespace,
    denied: Pair,
    ipv6: bool,
) -> Result<Vec<TrialResult>, NetworkError> {
    let failed = NetworkError::system("trial");
    let listener = target
        .run(|| {
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
        })
        .and_then(|listener| listener)
        .map_err(failed)?;
    let here = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(NetworkError::system("trial"))?;
    let port = listener.local_addr().map_err(NetworkError::system("trial"))?.port();
    let host_port = here.local_addr().map_err(NetworkError::system("trial"))?.port();
    listener.set_nonblocking(true).map_err(NetworkError::system("trial"))?;
    let over = AtomicBool::new(false);
    let mut ways = vec![
        (Trial::Internet4, IpAddr::V4(TARGET.v4), port),
        (Trial::Denied4, IpAddr::V4(denied.v4), port),
        (Trial::Host4, IpAddr::V4(HOST.v4), host_port),
    ];
    if ipv6 {
        ways.push((Trial::Internet6, IpAddr::V6(TARGET.v6), port));
        ways.push((Trial::Denied6, IpAddr::V6(denied.v6), port));
    }
    let send = || {
        ways.into_iter()
            .map(|(trial, address, port)| {
                let is_host = trial == Trial::Host4;
                let reached = reach(SocketAddr::new(address, port), is_host);
                TrialResult { trial, reached: reached.map_err(|error| error.to_string()) }
            })
            .collect()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| greet(&listener, &over));
        let results = sandbox.run(send).map_err(NetworkError::system("trial"));
        over.store(true, Ordering::Relaxed);
        results
    })
}

fn greet(listener: &TcpListener, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((mut stream, _)) => drop(stream.write_all(GREETING)),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn reach(address: SocketAddr, connect_only: bool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    if connect_only {
        return Ok(());
    }
    stream.set_read_timeout(Some(LIMIT))?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting)?;
    if greeting == GREETING { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Firewalls on this host that may drop what sandboxes send, with what to do about it.
pub fn obstacles() -> Vec<String> {
    HostNetwork::new(Options::new(InstallationId::generate())).obstacles()
}
