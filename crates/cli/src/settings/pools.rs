//! Pools of sandboxes beside the default one: `[[workspaces.pools]]` in `emergent.toml`.

use std::collections::BTreeSet;

use emergent_orchestrator::Absence;
use emergent_types::{ByteSize, Cpu, IsolationLevel, NetworkMode, ProviderChoice};
use emergent_workspaces::PoolSpec;
use serde::Deserialize;

use super::providers::Providers;
use super::{MAX_WARM_POOL_SIZE, SettingsError};

/// More pools than this are a mistake: each has members.
const MAX_POOLS: usize = 20;

/// The longest name of a pool.
const MAX_NAME_BYTES: usize = 64;

/// The longest name of an image, as of a request.
const MAX_IMAGE_BYTES: usize = 512;

/// One table of the file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolTable {
    name: Option<String>,
    size: Option<u32>,
    cpu: Option<Cpu>,
    memory: Option<ByteSize>,
    disk: Option<ByteSize>,
    base_image: Option<String>,
    #[serde(default)]
    provider: ProviderChoice,
    network: Option<NetworkMode>,
    min_isolation: Option<IsolationLevel>,
}

/// A pool, whole and valid. What is `None` is what a request gets that does not say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pool {
    /// Where it is written down.
    origin: String,
    pub(crate) name: String,
    pub(crate) size: u32,
    pub(crate) cpu: Option<Cpu>,
    pub(crate) memory: Option<ByteSize>,
    pub(crate) disk: Option<ByteSize>,
    pub(crate) base_image: Option<String>,
    pub(crate) provider: ProviderChoice,
    pub(crate) network: Option<NetworkMode>,
    pub(crate) min_isolation: Option<IsolationLevel>,
}

/// What is wrong, each with its field.
#[derive(Default)]
struct Mistakes(Vec<(String, String)>);

impl Mistakes {
    fn add(&mut self, field: String, reason: impl Into<String>) {
        self.0.push((field, reason.into()));
    }

    /// All of them in one error: whoever mends the file sees them at once.
    fn into_result(self) -> Result<(), SettingsError> {
        let mut mistakes = self.0.into_iter();
        let Some((origin, reason)) = mistakes.next() else { return Ok(()) };
        let others = mistakes.map(|(origin, reason)| format!("; {origin}: {reason}")).collect::<String>();
        Err(SettingsError::new(origin, reason + &others))
    }
}

/// Reads the tables. Every field that makes no sense is named.
pub(super) fn checked(file: &str, tables: Vec<PoolTable>) -> Result<Vec<Pool>, SettingsError> {
    let mut mistakes = Mistakes::default();
    if tables.len() > MAX_POOLS {
        let reason = format!("there may be {MAX_POOLS} at most, not {}", tables.len());
        mistakes.add(format!("{file}: workspaces.pools"), reason);
    }
    // The default pool has its own settings.
    let mut names = BTreeSet::from([PoolSpec::DEFAULT.to_owned()]);
    let mut pools = Vec::new();
    for (number, table) in (1..).zip(tables) {
        let origin = format!("{file}: workspaces.pools, number {number}");
        let name = table.name.unwrap_or_else(|| format!("pool-{number}"));
        if !is_name(&name) {
            mistakes.add(
                format!("{origin}: name"),
                format!("{name:?} is not 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.'"),
            );
        } else if !names.insert(name.clone()) {
            mistakes.add(format!("{origin}: name"), format!("there is another pool called {name:?}"));
        }
        match table.size {
            Some(size) if size <= MAX_WARM_POOL_SIZE => {}
            Some(size) => mistakes.add(
                format!("{origin}: size"),
                format!("must be between 0 and {MAX_WARM_POOL_SIZE}, not {size}"),
            ),
            None => mistakes.add(format!("{origin}: size"), "is missing"),
        }
        if table.base_image.as_deref().is_some_and(|image| !is_image(image)) {
            mistakes.add(format!("{origin}: base_image"), "is not the name of an image");
        }
        if let (ProviderChoice::Explicit(kind), Some(level)) = (table.provider, table.min_isolation)
            && kind.isolation() < level
        {
            let reason = format!("provider {kind} is {}, which is weaker than {level}", kind.isolation());
            mistakes.add(format!("{origin}: min_isolation"), reason);
        }
        pools.push(Pool {
            origin,
            name,
            size: table.size.unwrap_or_default(),
            cpu: table.cpu,
            memory: table.memory,
            disk: table.disk,
            base_image: table.base_image,
            provider: table.provider,
            network: table.network,
            min_isolation: table.min_isolation,
        });
    }
    mistakes.into_result()?;
    Ok(pools)
}

/// Refuses pools of providers that are not used. One that is only missing here may come.
pub(super) fn check_providers(pools: &[Pool], providers: &Providers) -> Result<(), SettingsError> {
    let mut mistakes = Mistakes::default();
    for pool in pools {
        let ProviderChoice::Explicit(kind) = pool.provider else { continue };
        let absent = providers.absent.iter().find(|absent| absent.kind == kind);
        if absent.is_some_and(|absent| absent.absence == Absence::LeftOut) {
            let reason = format!("{kind} is not among the providers that are used");
            mistakes.add(format!("{}: provider", pool.origin), reason);
        }
    }
    mistakes.into_result()
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

fn is_image(name: &str) -> bool {
    (1..=MAX_IMAGE_BYTES).contains(&name.len())
        && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
