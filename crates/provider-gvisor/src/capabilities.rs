//! What this provider can do here and now.

use emergent_provider::free_on_this_host;
use emergent_types::{Capabilities, Enforcement, FreeResources, LimitEnforcement, NetworkMode};

use crate::disk::DiskKind;
use crate::health::SeenEngine;
use crate::host::Host;
use crate::network::Offer;
use crate::options::Runtime;

impl Host {
    /// Where nothing is known, nothing is promised.
    fn networks(&self) -> Vec<NetworkMode> {
        let mut networks = vec![NetworkMode::Isolated];
        if self.internet.offer() == Offer::Offered {
            networks.push(NetworkMode::Internet);
        }
        networks
    }

    /// Why a network is not among them.
    pub(crate) fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        match mode {
            NetworkMode::Isolated => None,
            NetworkMode::Internet => match self.internet.offer() {
                Offer::Untried => Some("it has not been tried yet".to_owned()),
                Offer::Refused { reason, .. } => Some(reason),
                Offer::Offered => None,
            },
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let needs: &[&str] = match self.options.runtime {
            Runtime::Runsc => &["docker", "runsc"],
            Runtime::Default => &["docker"],
        };
        // Where nothing is known, nothing is promised.
        let disk = self.trial.known().map_or(DiskKind::Volumes, |means| means.disk);
        Capabilities {
            isolation: self.options.runtime.isolation(),
            persistence: Some(disk.persistence()),
            suspend: true,
            snapshots: true,
            warm_pool: true,
            networks: self.networks(),
            base_image: true,
            limits: LimitEnforcement {
                cpu: Enforcement::Enforced,
                memory: Enforcement::Enforced,
                pids: Enforcement::Enforced,
                disk: disk.enforcement(),
            },
            adjustable: self.adjustable(),
            platform_needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            runtime: self
                .probe
                .seen()
                .and_then(|engine| engine.runsc)
                .filter(|_| self.options.runtime == Runtime::Runsc),
            startup_ms: self.startup.summary(),
            free: self.probe.seen().map(|engine| self.free(&engine, disk)),
        }
    }

    /// An engine on another host does not say what it has left.
    fn free(&self, engine: &SeenEngine, disk: DiskKind) -> FreeResources {
        if self.engine.address().socket().is_none() {
            return FreeResources { cpus: engine.cpus, memory: None, disk: None };
        }
        let disks = match disk {
            DiskKind::Layered => self.layout.disks(),
            DiskKind::Volumes => engine.folder.clone(),
        };
        FreeResources { cpus: engine.cpus, ..free_on_this_host(&disks) }
    }
}
