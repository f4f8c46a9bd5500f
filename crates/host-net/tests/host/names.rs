//! Names through the forwarder.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use emergent_host_net::{Namespace, RESOLVER};

use crate::world::{ip, on_a_host_with};

/// A question for `name.test`, kind A.
fn question(id: u16, kind: u8) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend(b"\x04name\x04test\x00\x00");
    message.extend([kind, 0, 1]);
    message
}

/// A resolver in this thread's namespace that answers with what it was asked, and over what.
fn resolver() {
    let udp = UdpSocket::bind("127.0.0.1:53").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:53").unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            buffer[2] |= 0x80;
            let answer = [&buffer[..length], b"udp"].concat();
            let _ = udp.send_to(&answer, from);
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut buffer = [0; 512];
            let Ok(length) = stream.read(&mut buffer) else { continue };
            buffer[4] |= 0x80;
            let answer = [&buffer[2..length], b"tcp"].concat();
            let _ = stream.write_all(&[&(answer.len() as u16).to_be_bytes(), answer.as_slice()].concat());
        }
    });
}

fn over_udp(sandbox: &Namespace, question: &[u8]) -> std::io::Result<Vec<u8>> {
    sandbox.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(15)))?;
        socket.send_to(question, RESOLVER)?;
        let mut answer = vec![0; 4096];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok(answer)
    })?
}

fn over_tcp(sandbox: &Namespace, question: &[u8]) -> Vec<u8> {
    let asked = sandbox.run(|| {
        let mut stream = TcpStream::connect(RESOLVER).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).unwrap();
        answer
    });
    asked.unwrap()
}

#[test]
fn names_are_asked_of_the_hosts_resolvers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
    on_a_host_with(
        |options| options.resolv_conf = file.clone(),
        |world| {
            ip("link set lo up");
            resolver();
            let sandbox = world.sandbox();
            let asked = question(0x4711, 1);
            let answer = over_udp(&sandbox.namespace, &asked).unwrap();
            assert!(answer.starts_with(&asked[..2]) && answer.ends_with(b"udp"));
            let answer = over_tcp(&sandbox.namespace, &asked);
            assert!(answer.starts_with(&asked[..2]) && answer.ends_with(b"tcp"));
            // A zone transfer is not passed on.
            let refused = over_tcp(&sandbox.namespace, &question(1, 252));
            assert_eq!(refused[3] & 0x0f, 5);

            // Another server takes over.
            let again = emergent_host_net::HostNetwork::new(world.options.clone());
            drop(world.network);
            let deadline = std::time::Instant::now() + Duration::from_secs(10);
            while let Err(error) = again.adopt(sandbox.id, &sandbox.namespace) {
                assert!(std::time::Instant::now() < deadline, "{error}");
            }
            assert!(over_udp(&sandbox.namespace, &asked).unwrap().ends_with(b"udp"));

            // The host's resolvers change, to none that answers.
            std::fs::write(&file, "nameserver 127.0.0.9\n").unwrap();
            std::thread::sleep(Duration::from_millis(1100));
            let failed = over_udp(&sandbox.namespace, &asked).unwrap();
            assert_eq!(failed[3] & 0x0f, 2, "the question is answered with a failure");
        },
    );
}

#[test]
fn a_flood_of_questions_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    // Somebody who takes questions and never answers.
    std::fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
    on_a_host_with(
        |options| options.resolv_conf = file.clone(),
        |world| {
            let silent = UdpSocket::bind("127.0.0.1:53").unwrap();
            silent.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
            let sandbox = world.sandbox();
            sandbox
                .namespace
                .run(|| {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    for id in 0..1000 {
                        let _ = socket.send_to(&question(id, 1), RESOLVER);
                    }
                })
                .unwrap();
            let mut passed_on = 0;
            while silent.recv(&mut [0; 64]).is_ok() {
                passed_on += 1;
            }
            assert!((1..=64).contains(&passed_on), "{passed_on} questions at once");
        },
    );
}
