//! A server with bystanders, and how long they wait.

use std::time::{Duration, Instant};

use emergent_client::{BashRequest, Client, CreateWorkspace, ReadRequest, RequestedLimits};
use emergent_test_support::{TestServer, eventually};
use emergent_types::{ByteSize, Cpu, WorkspaceId};

use crate::support::{create, sh, write};

/// How long the quiet is measured.
const QUIET: Duration = Duration::from_millis(1500);

/// How much longer 99 of 100 calls may take during a siege than in quiet moments. The besieger
/// has a part of the few processors there are, and the rest of the machine is not still either.
const FACTOR: u32 = 4;

/// What a read may take in any case: less is noise.
const READ_NOISE: Duration = Duration::from_millis(60);

/// The same for a command, which is a process that must be given a processor first.
const BASH_NOISE: Duration = Duration::from_millis(150);

/// How much more memory the server may take.
const MEMORY_KIB: u64 = 32 << 10;

/// A server, two workspaces that go on with their work, and one that does its worst.
pub(super) struct Field {
    pub(super) server: TestServer,
    pub(super) client: Client,
    pub(super) besieger: WorkspaceId,
    bystanders: [WorkspaceId; 2],
    quiet: Waits,
    memory_kib: u64,
}

/// How long 99 of 100 calls took at most.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    read: Duration,
    bash: Duration,
}

/// How long calls took.
#[derive(Default)]
struct Figures {
    reads: Vec<Duration>,
    bashes: Vec<Duration>,
    peak_kib: u64,
}

impl Figures {
    fn p99(&mut self) -> Waits {
        let of = |took: &mut Vec<Duration>| {
            took.sort_unstable();
            assert!(took.len() >= 50, "only {} calls were made", took.len());
            took[took.len() * 99 / 100]
        };
        Waits { read: of(&mut self.reads), bash: of(&mut self.bashes) }
    }
}

impl Field {
    /// The besieger has so much processor time.
    pub(super) async fn prepare(cpu: Cpu) -> Self {
        let server = TestServer::start().await;
        let client = server.client();
        let bystanders = [create(&client).await.id, create(&client).await.id];
        for id in bystanders {
            write(&client, id, "file", "a\nb\nc\n").await.unwrap();
        }
        let limits = RequestedLimits {
            cpu: Some(cpu),
            memory: Some(ByteSize::from_mib(256)),
            disk: Some(ByteSize::from_mib(128)),
        };
        let besieger = CreateWorkspace { resource_limits: Some(limits), ..CreateWorkspace::default() };
        let besieger = client.create(&besieger).await.unwrap().id;
        let mut field = Self { server, client, besieger, bystanders, quiet: Waits::default(), memory_kib: 0 };
        // What is made at the first call is not what is measured.
        field.measure(tokio::time::sleep(Duration::from_millis(300))).await;
        let ((), mut figures) = field.measure(tokio::time::sleep(QUIET)).await;
        field.quiet = figures.p99();
        field.memory_kib = field.server.resident_kib();
        field
    }

    /// Goes through a siege, and compares.
    pub(super) async fn during<T>(&self, name: &str, siege: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let (outcome, mut figures) = self.measure(siege).await;
        let (calls, p99) = (figures.reads.len() + figures.bashes.len(), figures.p99());
        let grown = figures.peak_kib.saturating_sub(self.memory_kib);
        println!(
            "{name}: {:?}, {calls} calls, p99 {p99:?}, in quiet moments {:?}, {grown} KiB more memory",
            begun.elapsed(),
            self.quiet
        );
        for (call, p99, quiet, noise) in
            [("read", p99.read, self.quiet.read, READ_NOISE), ("bash", p99.bash, self.quiet.bash, BASH_NOISE)]
        {
            let allowed = (quiet * FACTOR).max(noise);
            assert!(p99 <= allowed, "{name}: p99 of {call} is {p99:?}, and {quiet:?} in quiet moments");
        }
        assert!(grown <= MEMORY_KIB, "{name}: the server takes {grown} KiB more");
        outcome
    }

    /// Calls tools of the bystanders, one after the other, until `siege` is over.
    async fn measure<T>(&self, siege: impl Future<Output = T>) -> (T, Figures) {
        let mut figures = Figures::default();
        let mut siege = std::pin::pin!(siege);
        loop {
            for id in self.bystanders {
                let read = ReadRequest { file_path: "file".to_owned(), offset: None, limit: None };
                let calls = async {
                    let begun = Instant::now();
                    self.client.read(id, &read).await.unwrap();
                    let read_took = begun.elapsed();
                    let begun = Instant::now();
                    assert_eq!(self.client.bash(id, &BashRequest::new("true")).await.unwrap().exit_code, 0);
                    (read_took, begun.elapsed())
                };
                // Both go on; what is measured is never cut off.
                let mut calls = std::pin::pin!(calls);
                tokio::select! {
                    biased;
                    (read, bash) = &mut calls => {
                        figures.reads.push(read);
                        figures.bashes.push(bash);
                    }
                    outcome = &mut siege => {
                        calls.as_mut().await;
                        return (outcome, figures);
                    }
                }
                figures.peak_kib = figures.peak_kib.max(self.server.resident_kib());
            }
        }
    }

    /// The besieger works again, everything of it goes, and nothing is left.
    pub(super) async fn end(self) {
        let (client, id) = (&self.client, self.besieger);
        eventually("it works again", Duration::from_secs(20), async || {
            let answer = client.bash(id, &BashRequest::new("echo fine")).await.ok()?;
            (answer.stdout == "fine\n").then_some(())
        })
        .await;
        let begun = Instant::now();
        client.destroy(id).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(15), "the destroy took {:?}", begun.elapsed());
        for id in self.bystanders {
            assert_eq!(sh(client, id, "cat file").await, "a\nb\nc\n");
        }
        self.server.finish().await;
    }
}
