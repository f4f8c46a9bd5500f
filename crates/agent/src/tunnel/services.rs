//! Services of the control plane, as sockets in the sandbox: each in the file system, and some also at a
//! port of the loopback, for programs that know no other.

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emergent_protocol::v1;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tonic::Status;

use crate::agent::Shared;
use crate::error::CallError;

/// Services in one offer.
const MAX_SERVICES: usize = 64;

/// The longest name of a service.
const MAX_NAME: usize = 64;

/// Connections waiting to be taken. More wait in the kernel's queue.
const MAX_WAITING: usize = 64;

/// How long a connection waits to be taken.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// How long no connection is accepted after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Announcements waiting for the connection.
const QUEUED: usize = 4;

/// What all offers share.
pub(super) struct Services {
    next: AtomicU64,
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Which offer a name belongs to: the last one that named it.
    offered: HashMap<String, u64>,
    waiting: HashMap<u64, Waiting>,
}

/// A program's end of a connection.
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Where programs connect to a service.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Socket> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(socket, _)| Socket::Unix(socket)),
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                // What is sent in small pieces is meant to arrive so.
                let _ = socket.set_nodelay(true);
                Ok(Socket::Tcp(socket))
            }
        }
    }
}

struct Waiting {
    offer: u64,
    socket: Socket,
    _place: OwnedSemaphorePermit,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
            places: Arc::new(Semaphore::new(MAX_WAITING)),
            state: Mutex::default(),
        }
    }
}

impl Services {
    /// A connection that was announced.
    pub(super) fn take(&self, id: u64) -> Result<Socket, CallError> {
        let waiting = self.lock().waiting.remove(&id);
        let gone = || CallError::PortClosed { reason: format!("no connection {id} waits to be taken") };
        waiting.map(|waiting| waiting.socket).ok_or_else(gone)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Sender = mpsc::Sender<Result<v1::ServiceConnection, Status>>;

/// Offers services until the answer is dropped.
pub(crate) async fn offer_services(
    shared: &Arc<Shared>,
    request: v1::OfferServicesRequest,
) -> Result<mpsc::Receiver<Result<v1::ServiceConnection, Status>>, CallError> {
    let names = check(request.names)?;
    let ports = check_ports(&names, request.ports)?;
    let services = shared.tunnels.services.clone();
    let folder = shared.config.services.clone();
    make_folder(&folder)?;
    let mut offer = Offer { number: services.number(), folder, services, listeners: Vec::new(), ports };
    for name in names {
        offer.open(name)?;
    }
    offer.open_ports().await;
    let (sender, announced) = mpsc::channel(QUEUED);
    tokio::spawn(offer.serve(sender));
    Ok(announced)
}

fn check(names: Vec<String>) -> Result<BTreeSet<String>, CallError> {
    if names.is_empty() || names.len() > MAX_SERVICES {
        return Err(CallError::invalid(format!("an offer names 1 to {MAX_SERVICES} services")));
    }
    for name in &names {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME || name.starts_with('-') || !name.bytes().all(plain) {
            let rule = "lower-case letters, digits and inner hyphens";
            return Err(CallError::invalid(format!("{name:?} cannot be a service's name: {rule}")));
        }
    }
    Ok(names.into_iter().collect())
}

/// The ports of those services that have one.
fn check_ports(
    names: &BTreeSet<String>,
    ports: HashMap<String, u32>,
) -> Result<Vec<(String, u16)>, CallError> {
    let checked = |(name, number): (String, u32)| match u16::try_from(number) {
        Ok(port) if port != 0 && names.contains(&name) => Ok((name, port)),
        _ => Err(CallError::invalid(format!("{number} cannot be the port of {name:?}"))),
    };
    ports.into_iter().map(checked).collect()
}

/// The folder, which nobody but the agent's own account may change: who could, could put
/// another socket in the place of a service.
fn make_folder(folder: &Path) -> Result<(), CallError> {
    let fail = |path: &Path, error: &std::io::Error| {
        CallError::file(path)(Errno::from_io_error(error).unwrap_or(Errno::IO))
    };
    let above = folder.parent().unwrap_or(Path::new("/"));
    for path in [above, folder] {
        let made = std::fs::DirBuilder::new().recursive(path == above).mode(0o755).create(path);
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(fail(path, &error));
        }
    }
    let found = std::fs::symlink_metadata(folder).map_err(|error| fail(folder, &error))?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_dir() || !own || found.mode() & 0o022 != 0 {
        return Err(CallError::File { path: folder.to_owned(), errno: Errno::PERM });
    }
    Ok(())
}

/// Sockets that are there. Removed when this is dropped, unless a later offer has them.
struct Offer {
    number: u64,
    folder: PathBuf,
    services: Arc<Services>,
    listeners: Vec<(String, Listener)>,
    /// Those that are still to be opened.
    ports: Vec<(String, u16)>,
}

impl Offer {
    fn open(&mut self, name: String) -> Result<(), CallError> {
        let path = self.folder.join(&name);
        let fail =
            |error: std::io::Error| CallError::file(&path)(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        // Under the lock: the end of an offer before this one must not remove what is made here.
        let mut state = self.services.lock();
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            // Of an offer whose connection was lost, or of an agent that was killed.
            std::fs::remove_file(&path).map_err(fail)?;
        }
        let listener = UnixListener::bind(&path).map_err(fail)?;
        state.offered.insert(name.clone(), self.number);
        drop(state);
        self.listeners.push((name, Listener::Unix(listener)));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).map_err(fail)
    }

    /// Opens the ports that are free. One that is not is tried again: an offer before this one may have it
    /// still, and a program that has it may end.
    async fn open_ports(&mut self) {
        for (name, port) in std::mem::take(&mut self.ports) {
            match bind(port).await {
                Ok(listener) => self.listeners.push((name, Listener::Tcp(listener))),
                Err(_) => self.ports.push((name, port)),
            }
        }
    }

    /// Until the caller is gone.
    async fn serve(mut self, sender: Sender) {
        let offered = v1::ServiceConnection { connection_id: 0, service: String::new() };
        if sender.send(Ok(offered)).await.is_err() {
            return;
        }
        let mut accepting = JoinSet::new();
        let mut names = Vec::new();
        for (name, listener) in self.listeners.drain(..) {
            names.push(name.clone());
            accepting.spawn(accept(self.services.clone(), self.number, name, listener, sender.clone()));
        }
        for (name, port) in std::mem::take(&mut self.ports) {
            let (services, number, sender) = (self.services.clone(), self.number, sender.clone());
            accepting.spawn(async move {
                let listener = loop {
                    match bind(port).await {
                        Ok(listener) => break Listener::Tcp(listener),
                        Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                    }
                };
                accept(services, number, name, listener, sender).await;
            });
        }
        sender.closed().await;
        drop(accepting);
        self.end(&names);
    }

    fn end(&self, names: &[String]) {
        let mut state = self.services.lock();
        for name in names {
            if state.offered.get(name) == Some(&self.number) {
                state.offered.remove(name);
                let _ = std::fs::remove_file(self.folder.join(name));
            }
        }
        state.waiting.retain(|_, waiting| waiting.offer != self.number);
        if state.offered.is_empty() {
            // Only when it is empty.
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let names: Vec<_> = self.listeners.drain(..).map(|(name, _)| name).collect();
        if !names.is_empty() {
            self.end(&names);
        }
    }
}

/// Only on the loopback: a sandbox may have a network.
async fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Accepts and announces the connections of one service.
async fn accept(services: Arc<Services>, offer: u64, service: String, listener: Listener, sender: Sender) {
    loop {
        let Ok(place) = services.places.clone().acquire_owned().await else { return };
        let Ok(socket) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection_id = services.number();
        services.lock().waiting.insert(connection_id, Waiting { offer, socket, _place: place });
        let timed = services.clone();
        tokio::spawn(async move {
            tokio::time::sleep(WAIT_LIMIT).await;
            timed.lock().waiting.remove(&connection_id);
        });
        let announced = v1::ServiceConnection { connection_id, service: service.clone() };
        if sender.send(Ok(announced)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let ok = |names: &[&str]| check(names.iter().map(|name| (*name).to_owned()).collect()).is_ok();
        assert!(ok(&["git-proxy", "a", "0"]));
        assert!(!ok(&[]));
        for bad in ["", "A", "a/b", "..", "a.b", "-a", "a b", "ä", "a\0"] {
            assert!(!ok(&[bad]), "{bad:?}");
        }
        assert!(!ok(&[&"a".repeat(65)]));
        assert!(!ok(&["a"; 65]));
    }

    #[test]
    fn a_port_belongs_to_a_service() {
        let names = check(vec!["git".to_owned()]).unwrap();
        let ok =
            |name: &str, port: u32| check_ports(&names, HashMap::from([(name.to_owned(), port)])).is_ok();
        assert!(ok("git", 9418));
        for (name, port) in [("git", 0), ("git", 65_536), ("other", 9418)] {
            assert!(!ok(name, port), "{name} {port}");
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/services");
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_folder(&folder).is_err());
        std::fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink(root.path(), &folder).unwrap();
        assert!(make_folder(&folder).is_err());
    }
}
