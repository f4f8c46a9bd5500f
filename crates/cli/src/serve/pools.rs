//! The pools of sandboxes that the settings ask for.

use emergent_workspaces::{NewWorkspace, PoolSpec, RequestedLimits};

use crate::settings::Settings;
use crate::settings::pools::Pool;

/// The default pool, whose size can be changed while the server runs, and those beside it.
pub(super) fn specs(settings: &Settings) -> Vec<PoolSpec> {
    let default = PoolSpec::of_defaults(settings.warm_pool_size);
    [default].into_iter().chain(settings.pools.iter().map(spec)).collect()
}

fn spec(pool: &Pool) -> PoolSpec {
    let shape = NewWorkspace {
        provider: pool.provider,
        limits: RequestedLimits { cpu: pool.cpu, memory: pool.memory, disk: pool.disk },
        min_isolation: pool.min_isolation,
        network: pool.network,
        base_image: pool.base_image.clone(),
        ..NewWorkspace::default()
    };
    PoolSpec { name: pool.name.clone(), size: pool.size, shape }
}

#[cfg(test)]
mod tests {
    use emergent_types::{ByteSize, Cpu, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind};

    use super::*;

    #[test]
    fn the_default_pool_comes_first_and_the_others_are_what_they_say() {
        let settings = Settings::of_file(
            "[workspaces]\nwarm_pool_size = 3\n\
             [[workspaces.pools]]\nname = \"strong\"\nsize = 4\ncpu = 0.5\nmemory = \"512M\"\ndisk = \"1G\"\n\
             base_image = \"debian:12\"\nprovider = \"gvisor\"\nnetwork = \"isolated\"\nmin_isolation = \"gvisor\"\n\
             [[workspaces.pools]]\nsize = 0\n",
        );
        let specs = specs(&settings);
        let named: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.size)).collect();
        assert_eq!(named, [(PoolSpec::DEFAULT, 3), ("strong", 4), ("pool-2", 0)]);
        let shape = &specs[1].shape;
        assert_eq!(shape.provider, ProviderChoice::Explicit(ProviderKind::Gvisor));
        let limits = RequestedLimits {
            cpu: Some(Cpu::from_millis(500)),
            memory: Some(ByteSize::from_mib(512)),
            disk: Some(ByteSize::GIB),
        };
        assert_eq!(shape.limits, limits);
        assert_eq!(shape.base_image.as_deref(), Some("debian:12"));
        assert_eq!(shape.network, Some(NetworkMode::Isolated));
        assert_eq!(shape.min_isolation, Some(IsolationLevel::Gvisor));
        // Nothing said is nothing named: such members are what any request gets.
        let shape = &specs[2].shape;
        assert_eq!((shape.limits, shape.provider), (RequestedLimits::default(), ProviderChoice::Auto));
        assert_eq!((shape.network, shape.min_isolation, &shape.base_image), (None, None, &None));
    }
}
