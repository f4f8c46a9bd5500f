//! A daemon that is reached over the network, as one on another host is.

use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Where a daemon listens that demands a certificate.
pub(super) const TLS_ADDRESS: &str = "127.0.0.1:2376";

/// Lets a daemon be reached by TCP on loopback for as long as this process lives; answers its address. Who uses
/// that cannot know that the daemon is on the same host.
pub(super) fn forward(socket: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            if let Ok(far) = UnixStream::connect(&socket) {
                join(near, far);
            }
        }
    });
    format!("tcp://{address}")
}

/// Each direction ends by itself: Docker's streams are half-closed.
fn join(near: TcpStream, far: UnixStream) {
    let (Ok(mut near_end), Ok(mut far_end)) = (near.try_clone(), far.try_clone()) else { return };
    thread::spawn(move || {
        let _ = io::copy(&mut near_end, &mut far_end);
        let _ = far_end.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let (mut near, mut far) = (near, far);
        let _ = io::copy(&mut far, &mut near);
        let _ = near.shutdown(Shutdown::Write);
    });
}

/// Makes an authority, a certificate of its for a daemon on loopback, and one for a client, in the way and by the
/// names that Docker's own client expects in `DOCKER_CERT_PATH`.
pub(super) fn make_certificates(folder: &Path) {
    fs::create_dir(folder).expect("a temporary folder can be written to");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("it can be written to");
    write("server.ext", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n");
    write("client.ext", "extendedKeyUsage=clientAuth\n");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {key} -keyout ca-key.pem -out ca.pem -days 2 -subj /CN=authority"));
    for (who, key_file, certificate) in
        [("server", "server-key.pem", "server-cert.pem"), ("client", "key.pem", "cert.pem")]
    {
        openssl(folder, &format!("req {key} -keyout {key_file} -out {who}.csr -subj /CN={who}"));
        openssl(
            folder,
            &format!(
                "x509 -req -in {who}.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
                 -extfile {who}.ext -out {certificate}"
            ),
        );
    }
}

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("install Debian's package `openssl`: {error}"));
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
}
