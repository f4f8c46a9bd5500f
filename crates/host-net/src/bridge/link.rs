//! The bridge itself, which the engine makes.

use std::net::IpAddr;
use std::path::Path;

use futures::TryStreamExt;
use rtnetlink::LinkBridge;
use rtnetlink::packet_route::link::{InfoBridge, InfoData, LinkAttribute, LinkInfo, LinkMessage};

use crate::error::NetworkError;
use crate::netlink::Netlink;

/// There as long as the kernel has what shows a bridge's packets to the rules for routed ones.
const NETFILTER: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// The bridge as the kernel shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bridge {
    index: u32,
    /// Whether packets from one port to another are shown to the rules for routed ones.
    pub(super) shows_packets: bool,
}

impl Bridge {
    /// `None` when there is no bridge of this name with this address in this network namespace.
    pub(super) async fn find(
        netlink: &Netlink,
        name: &str,
        gateway: IpAddr,
    ) -> Result<Option<Self>, NetworkError> {
        let Some(link) = netlink.link(name).await? else { return Ok(None) };
        if !netlink.addresses().await?.contains(&(link.index, gateway)) {
            return Ok(None);
        }
        let mut found = netlink.handle().link().get().match_index(link.index).execute();
        let message = found.try_next().await.map_err(NetworkError::netlink("bridge"))?;
        Ok(message.as_ref().and_then(settings).map(|settings| Self {
            index: link.index,
            shows_packets: Path::new(NETFILTER).exists()
                && settings.contains(&InfoBridge::NfCallIpTables(true))
                && settings.contains(&InfoBridge::NfCallIp6Tables(true)),
        }))
    }

    /// Makes it show its packets, whatever the host's setting for all bridges is.
    pub(super) async fn show_packets(self, netlink: &Netlink) -> Result<(), NetworkError> {
        if self.shows_packets || !Path::new(NETFILTER).exists() {
            return Ok(());
        }
        let mut message = LinkBridge::new("").nf_call_iptables(true).nf_call_ip6tables(true).build();
        // Known by its number: a name in the message would be a new one.
        message.header.index = self.index;
        message.attributes.retain(|attribute| !matches!(attribute, LinkAttribute::IfName(_)));
        netlink
            .handle()
            .link()
            .change(message)
            .execute()
            .await
            .map_err(NetworkError::netlink("bridge settings"))
    }
}

fn settings(message: &LinkMessage) -> Option<&[InfoBridge]> {
    let info = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(info) => Some(info),
        _ => None,
    })?;
    info.iter().find_map(|part| match part {
        LinkInfo::Data(InfoData::Bridge(settings)) => Some(settings.as_slice()),
        _ => None,
    })
}
