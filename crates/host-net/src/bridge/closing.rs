//! What becomes of the bridge when its rules are not certain to be in place: it goes down, and with it
//! all of its ports. Whether it is down is read from the kernel, so that whoever puts the rules in place
//! next brings it up again.

use std::net::IpAddr;

use rtnetlink::packet_route::address::AddressHeaderFlags;

use crate::bridge::BridgeRules;
use crate::closing::disconnect;
use crate::error::NetworkError;
use crate::netlink::Netlink;

impl BridgeRules {
    /// Takes the bridge down, if it is there.
    pub(super) async fn close(&self) {
        let name = self.link();
        disconnect("the containers' bridge", |link| link.name == name).await;
    }

    /// Brings the bridge up, if it is there and down. The rules must be in place.
    pub(super) async fn open(&self) -> Result<(), NetworkError> {
        let netlink = Netlink::open()?;
        let link = netlink.link(&self.link()).await?.filter(|link| !link.is_up);
        let Some(link) = link else { return Ok(()) };
        // The kernel forgets addresses of IPv6 when a link goes down.
        if let Some((gateway, range)) = self.subnets.gateway6().zip(self.subnets.range6()) {
            let address = netlink.handle().address();
            let mut request = address.add(link.index, IpAddr::V6(gateway), range.prefix()).replace();
            request.message_mut().header.flags = AddressHeaderFlags::Nodad;
            request.execute().await.map_err(NetworkError::netlink("bridge's address"))?;
        }
        netlink.up(link.index).await?;
        tracing::info!(link = link.name, "the containers' bridge is connected again");
        Ok(())
    }
}
