//! Links, addresses, routes and neighbours, asked of the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use futures::TryStreamExt;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::cidr::Cidr;
use crate::error::NetworkError;
use crate::pool::Pair;

/// The sandbox's end of a pair.
pub(crate) const GUEST_LINK: &str = "eth0";

/// Hardware addresses of the two ends. The same on every pair: a pair is a network of its own,
/// and nothing about the host can be learnt from them.
const HOST_MAC: [u8; 6] = [0x02, 0x65, 0x6d, 0, 0, 1];
const GUEST_MAC: [u8; 6] = [0x02, 0x65, 0x6d, 0, 0, 2];

/// A connection to the kernel in the namespace of the calling thread.
pub(crate) struct Netlink {
    handle: Handle,
    connection: tokio::task::JoinHandle<()>,
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A link as the kernel shows it.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
}

/// A route as the kernel shows it.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) range: Cidr,
    pub(crate) link: Option<u32>,
}

impl Netlink {
    /// Must be called inside a runtime.
    pub(crate) fn open() -> Result<Self, NetworkError> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(NetworkError::system("netlink socket"))?;
        Ok(Self { handle, connection: tokio::spawn(connection) })
    }

    /// For what is asked in one place only.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Every link.
    pub(crate) async fn links(&self) -> Result<Vec<Link>, NetworkError> {
        let found: Vec<LinkMessage> =
            self.handle.link().get().execute().try_collect().await.map_err(NetworkError::netlink("links"))?;
        Ok(found.into_iter().filter_map(link).collect())
    }

    /// One link, if it is there.
    pub(crate) async fn link(&self, name: &str) -> Result<Option<Link>, NetworkError> {
        let mut found = self.handle.link().get().match_name(name.to_owned()).execute();
        match found.try_next().await {
            Ok(message) => Ok(message.and_then(link)),
            Err(error) if errno(&error) == Some(NO_SUCH_DEVICE) => Ok(None),
            Err(error) => Err(NetworkError::netlink("link")(error)),
        }
    }

    /// A pair: one end here, the other in `namespace`. Both are down.
    pub(crate) async fn add_pair(
        &self,
        name: &str,
        guest_name: &str,
        namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> Result<u32, NetworkError> {
        let guest = LinkMessageBuilder::<LinkUnspec>::default()
            .name(guest_name)
            .address(GUEST_MAC.to_vec())
            .mtu(mtu)
            .setns_by_fd(namespace.as_fd().as_raw_fd())
            .build();
        let pair = LinkVeth::new(name, guest_name)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(guest)))
            .address(HOST_MAC.to_vec())
            .mtu(mtu)
            .build();
        self.handle.link().add(pair).execute().await.map_err(NetworkError::netlink("pair of links"))?;
        let made = self.link(name).await?;
        made.map(|link| link.index)
            .ok_or(NetworkError::Netlink { step: "pair of links", reason: "it is gone again".to_owned() })
    }

    /// Gives a link a longer name.
    pub(crate) async fn set_alias(&self, index: u32, alias: String) -> Result<(), NetworkError> {
        let message =
            LinkUnspec::new_with_index(index).append_extra_attribute(LinkAttribute::IfAlias(alias)).build();
        self.handle.link().set(message).execute().await.map_err(NetworkError::netlink("alias"))
    }

    /// Brings a link up.
    pub(crate) async fn up(&self, index: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_index(index).up().build();
        self.handle.link().set(message).execute().await.map_err(NetworkError::netlink("link up"))
    }

    /// Takes a link down: nothing passes it in either direction. The kernel forgets its routes, its
    /// neighbours and its addresses of IPv6. One that is gone meanwhile is success.
    pub(crate) async fn down(&self, index: u32) -> Result<(), NetworkError> {
        let message = LinkUnspec::new_with_index(index).down().build();
        match self.handle.link().set(message).execute().await {
            Err(error) if errno(&error) != Some(NO_SUCH_DEVICE) => {
                Err(NetworkError::netlink("link down")(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a link, and with it its other end. One that is not there is success.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), NetworkError> {
        let Some(link) = self.link(name).await? else { return Ok(()) };
        match self.handle.link().del(link.index).execute().await {
            Err(error) if errno(&error) != Some(NO_SUCH_DEVICE) => Err(NetworkError::netlink("link")(error)),
            _ => Ok(()),
        }
    }

    /// Gives a link an address, for itself alone and without asking the neighbours.
    pub(crate) async fn add_address(&self, index: u32, address: IpAddr) -> Result<(), NetworkError> {
        let mut request = self.handle.address().add(index, address, full_prefix(address)).replace();
        if address.is_ipv6() {
            request.message_mut().header.flags = AddressHeaderFlags::Nodad;
        }
        request.execute().await.map_err(NetworkError::netlink("address"))
    }

    /// Says once and for all which hardware address a neighbour has: nothing that a neighbour
    /// claims changes it.
    pub(crate) async fn add_neighbour(
        &self,
        index: u32,
        address: IpAddr,
        hardware: [u8; 6],
    ) -> Result<(), NetworkError> {
        let request = self.handle.neighbours().add(index, address).link_layer_address(&hardware).replace();
        request.execute().await.map_err(NetworkError::netlink("neighbour"))
    }

    async fn add_route(&self, route: RouteMessage) -> Result<(), NetworkError> {
        self.handle.route().add(route).replace().execute().await.map_err(NetworkError::netlink("route"))
    }

    /// A route to one address on a link.
    pub(crate) async fn add_route_to(
        &self,
        index: u32,
        address: IpAddr,
        from: IpAddr,
    ) -> Result<(), NetworkError> {
        let mut route = RouteMessageBuilder::<IpAddr>::new().output_interface(index);
        route = route.destination_prefix(address, full_prefix(address)).map_err(invalid)?;
        route = route.pref_source(from).map_err(invalid)?;
        self.add_route(route.build()).await
    }

    /// The default routes of a sandbox.
    async fn add_default_routes(&self, index: u32, gateway: Pair, ipv6: bool) -> Result<(), NetworkError> {
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).gateway(gateway.v4).onlink();
        self.add_route(v4.build()).await?;
        if ipv6 {
            let v6 =
                RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).gateway(gateway.v6).onlink();
            self.add_route(v6.build()).await?;
        }
        Ok(())
    }

    /// The host's end: addresses, route, neighbours; then up.
    pub(crate) async fn configure_host(
        &self,
        index: u32,
        gateway: Pair,
        guest: Pair,
        ipv6: bool,
    ) -> Result<(), NetworkError> {
        for address in both(gateway, ipv6) {
            self.add_address(index, address).await?;
        }
        self.up(index).await?;
        for (address, from) in both(guest, ipv6).into_iter().zip(both(gateway, ipv6)) {
            self.add_route_to(index, address, from).await?;
            self.add_neighbour(index, address, GUEST_MAC).await?;
        }
        Ok(())
    }

    /// The sandbox's end, from inside its namespace; and its loopback.
    pub(crate) async fn configure_guest(
        &self,
        name: &str,
        gateway: Pair,
        guest: Pair,
        ipv6: bool,
    ) -> Result<(), NetworkError> {
        let missing =
            || NetworkError::Netlink { step: "sandbox's link", reason: "it is not there".to_owned() };
        let loopback = self.link("lo").await?.ok_or_else(missing)?;
        self.up(loopback.index).await?;
        let link = self.link(name).await?.ok_or_else(missing)?;
        for address in both(guest, ipv6) {
            self.add_address(link.index, address).await?;
        }
        self.up(link.index).await?;
        for address in both(gateway, ipv6) {
            self.add_neighbour(link.index, address, HOST_MAC).await?;
        }
        self.add_default_routes(link.index, gateway, ipv6).await
    }

    /// Every IPv4 address by link.
    pub(crate) async fn addresses(&self) -> Result<Vec<(u32, IpAddr)>, NetworkError> {
        let found: Vec<_> = self
            .handle
            .address()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(NetworkError::netlink("addresses"))?;
        let of = |attributes: &[AddressAttribute]| {
            attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(address) | AddressAttribute::Address(address) => Some(*address),
                _ => None,
            })
        };
        Ok(found.iter().filter_map(|entry| Some((entry.header.index, of(&entry.attributes)?))).collect())
    }

    /// Every unicast route of both families, in all tables.
    pub(crate) async fn routes(&self) -> Result<Vec<Route>, NetworkError> {
        let mut routes = Vec::new();
        for request in
            [RouteMessageBuilder::<Ipv4Addr>::new().build(), RouteMessageBuilder::<Ipv6Addr>::new().build()]
        {
            let found: Vec<RouteMessage> = self
                .handle
                .route()
                .get(request)
                .execute()
                .try_collect()
                .await
                .map_err(NetworkError::netlink("routes"))?;
            routes.extend(found.iter().flat_map(routes_of));
        }
        Ok(routes)
    }
}

fn both(pair: Pair, ipv6: bool) -> Vec<IpAddr> {
    let v6 = ipv6.then_some(IpAddr::V6(pair.v6));
    std::iter::once(IpAddr::V4(pair.v4)).chain(v6).collect()
}

fn full_prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn invalid(error: impl std::fmt::Display) -> NetworkError {
    NetworkError::Netlink { step: "route", reason: error.to_string() }
}

fn link(message: LinkMessage) -> Option<Link> {
    let is_up = message.header.flags.contains(LinkFlags::Up);
    let mut link = Link { index: message.header.index, name: String::new(), alias: None, mtu: 1500, is_up };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// One for every way it leaves the host by.
fn routes_of(message: &RouteMessage) -> Vec<Route> {
    if message.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let mut range = match message.header.address_family {
        AddressFamily::Inet => Cidr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        AddressFamily::Inet6 => Cidr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        _ => return Vec::new(),
    };
    let mut ways = Vec::new();
    let mut link = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                range = Cidr::new((*address).into(), message.header.destination_prefix_length);
            }
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => {
                range = Cidr::new((*address).into(), message.header.destination_prefix_length);
            }
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::MultiPath(hops) => ways.extend(hops.iter().map(|hop| hop.interface_index)),
            _ => {}
        }
    }
    if ways.is_empty() {
        return vec![Route { range, link }];
    }
    ways.into_iter().map(|index| Route { range, link: Some(index) }).collect()
}

/// `ENODEV`.
const NO_SUCH_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();

fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.code.map(|code| -code.get()),
        _ => None,
    }
}
