use std::path::Path;

use emergent_types::{ByteSize, Cpu, ProviderKind};

use super::*;

fn load(flags: Layer, variables: &[(&'static str, &str)], file: &str) -> Result<Settings, SettingsError> {
    let mut variables = variables.to_vec();
    variables.push((environment::HOME, "/home/a"));
    let environment = Environment::of(&variables);
    let file = file::parse(Path::new("emergent.toml"), file)?;
    Settings::from_layer(flags.or(Layer::from_environment(&environment)?).or(file), &environment)
}

fn refused(flags: Layer, variables: &[(&'static str, &str)], file: &str, mentions: &[&str]) {
    let error = load(flags, variables, file).unwrap_err().to_string();
    for word in mentions {
        assert!(error.contains(word), "{error:?} does not mention {word:?}");
    }
}

#[test]
fn defaults_are_those_of_the_design() {
    let settings = load(Layer::default(), &[], "").unwrap();
    assert_eq!(settings.listen, "127.0.0.1:8585".parse().unwrap());
    assert!(settings.workspaces_enabled);
    assert_eq!(settings.max_concurrent, 10);
    assert_eq!(settings.default_ttl, Duration::from_secs(30 * SECONDS_PER_DAY));
    assert_eq!(settings.default_provider, ProviderChoice::Auto);
    assert_eq!(settings.default_limits, ResourceLimits::WORKSPACE_DEFAULT);
    assert_eq!(settings.default_network, NetworkMode::Internet);
    assert_eq!((settings.warm_pool_size, settings.max_snapshots, settings.alert_percent), (2, 100, 80));
    assert!(settings.egress_allow.is_empty());
    assert_eq!(settings.deployment_mode, DeploymentMode::SelfHosted);
    assert_eq!(settings.min_isolation, IsolationLevel::Container);
    assert_eq!(settings.rate_limit, NonZeroU32::new(1000));
    assert_eq!(settings.audit_retention, Duration::from_secs(90 * SECONDS_PER_DAY));
    assert_eq!(settings.stall_limit, Duration::from_secs(60));
    assert_eq!(settings.max_command_time, Duration::from_secs(600));
    assert_eq!(settings.database_url, None);
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = "listen = \"127.0.0.1:1\"\n[workspaces]\nmax_concurrent = 1\ndefault_cpu = 1.5";
    let variables =
        [(environment::EMERGENT_LISTEN, "127.0.0.1:2"), (environment::WORKSPACE_MAX_CONCURRENT, "2")];
    let flags = Layer { listen: Some("127.0.0.1:3".parse().unwrap()), ..Layer::default() };
    let settings = load(flags, &variables, file).unwrap();
    assert_eq!(settings.listen.port(), 3);
    assert_eq!(settings.max_concurrent, 2);
    assert_eq!(settings.default_limits.cpu, Cpu::from_millis(1500));
    assert_eq!(settings.default_limits.memory, ByteSize::from_gib(4));
}

#[test]
fn every_variable_has_its_effect() {
    let settings = load(
        Layer::default(),
        &[
            (environment::EMERGENT_DATA_DIR, "/data"),
            (environment::EMERGENT_ALLOWED_HOSTS, "a.example, b.example:8443,"),
            (environment::EMERGENT_MIN_ISOLATION, "gvisor"),
            (environment::ENABLE_AGENT_WORKSPACES, "False"),
            (environment::WORKSPACE_DEFAULT_TTL_DAYS, "7"),
            (environment::WORKSPACE_DEFAULT_PROVIDER, "local"),
            (environment::WORKSPACE_GVISOR_MODE, "direct"),
            (environment::WORKSPACE_DEFAULT_CPU, "0.5"),
            (environment::WORKSPACE_DEFAULT_MEMORY, "512m"),
            (environment::WORKSPACE_DEFAULT_DISK, "1GB"),
            (environment::WORKSPACE_DEFAULT_NETWORK, "isolated"),
            (environment::DEPLOYMENT_MODE, "managed"),
            (environment::EMERGENT_RATE_LIMIT, "0"),
            (environment::AUDIT_RETENTION_DAYS, "1"),
            (environment::EMERGENT_STALL_SECONDS, "5"),
            (environment::WORKSPACE_BASH_MAX_TIMEOUT_MS, "1500"),
            (environment::DATABASE_URL, "postgres://a:sesame@b/c"),
        ],
        "",
    )
    .unwrap();
    assert_eq!(settings.data_dir, Path::new("/data"));
    assert_eq!(settings.allowed_hosts.len(), 2);
    assert_eq!(settings.min_isolation, IsolationLevel::Gvisor);
    assert!(!settings.workspaces_enabled);
    assert_eq!(settings.default_ttl, Duration::from_secs(7 * SECONDS_PER_DAY));
    assert_eq!(settings.default_provider, ProviderChoice::Explicit(ProviderKind::Local));
    assert!(matches!(settings.gvisor, Gvisor::Direct { .. }));
    assert_eq!(settings.default_limits.cpu, Cpu::from_millis(500));
    assert_eq!(settings.default_limits.memory, ByteSize::from_mib(512));
    assert_eq!(settings.default_limits.disk, ByteSize::GIB);
    assert_eq!(settings.default_network, NetworkMode::Isolated);
    assert_eq!(settings.deployment_mode, DeploymentMode::Managed);
    assert_eq!(settings.rate_limit, None);
    assert_eq!(settings.audit_retention, Duration::from_secs(SECONDS_PER_DAY));
    assert_eq!(settings.stall_limit, Duration::from_secs(5));
    assert_eq!(settings.max_command_time, Duration::from_millis(1500));
    assert_eq!(settings.database_url.as_ref().map(DatabaseUrl::expose), Some("postgres://a:sesame@b/c"));
    assert!(!format!("{settings:?}").contains("sesame"), "a password is never shown");
}

#[test]
fn the_database_may_be_named_in_the_file() {
    let file = "database_url = \"postgres://file/db\"";
    let url = |variables: &[(&'static str, &str)]| {
        let settings = load(Layer::default(), variables, file).unwrap();
        settings.database_url.map(|url| url.expose().to_owned())
    };
    assert_eq!(url(&[]).as_deref(), Some("postgres://file/db"));
    let variable = (environment::DATABASE_URL, "postgres://environment/db");
    assert_eq!(url(&[variable]).as_deref(), Some("postgres://environment/db"));
    let settings = load(Layer::default(), &[], "[workspaces]\nbash_max_timeout_ms = 900000").unwrap();
    assert_eq!(settings.max_command_time, Duration::from_secs(900));
}

#[test]
fn what_makes_no_sense_is_named() {
    for (name, value) in [
        (environment::EMERGENT_LISTEN, "nowhere"),
        (environment::EMERGENT_ALLOWED_HOSTS, "a b"),
        (environment::EMERGENT_MIN_ISOLATION, "strong"),
        (environment::ENABLE_AGENT_WORKSPACES, "maybe"),
        (environment::WORKSPACE_MAX_CONCURRENT, "-1"),
        (environment::WORKSPACE_MAX_CONCURRENT, "0"),
        (environment::WORKSPACE_DEFAULT_TTL_DAYS, "0"),
        (environment::AUDIT_RETENTION_DAYS, "0"),
        (environment::AUDIT_RETENTION_DAYS, "3651"),
        (environment::EMERGENT_RATE_LIMIT, "-1"),
        (environment::EMERGENT_STALL_SECONDS, "0"),
        (environment::EMERGENT_STALL_SECONDS, "3601"),
        (environment::WORKSPACE_BASH_MAX_TIMEOUT_MS, "0"),
        (environment::WORKSPACE_BASH_MAX_TIMEOUT_MS, "86400001"),
        (environment::WORKSPACE_DEFAULT_TTL_DAYS, "3651"),
        (environment::WORKSPACE_DEFAULT_PROVIDER, "magic"),
        (environment::WORKSPACE_DEFAULT_CPU, "0"),
        (environment::WORKSPACE_DEFAULT_MEMORY, "4X"),
    ] {
        refused(Layer::default(), &[(name, value)], "", &[name]);
    }
    let none = Layer::default;
    refused(none(), &[], "color = \"red\"", &["emergent.toml", "color"]);
    refused(none(), &[], "[workspaces]\nmax_concurent = 3", &["emergent.toml", "max_concurent"]);
    refused(none(), &[], "[workspaces]\nmax_concurrent = \"x\"", &["emergent.toml", "max_concurrent"]);
    refused(none(), &[], "listen = ", &["emergent.toml"]);
    refused(none(), &[], "allowed_hosts = [\"a b\"]", &["emergent.toml", "allowed_hosts"]);
}

#[test]
fn beyond_this_machine_only_when_told_so() {
    let everywhere = || Layer { listen: Some("0.0.0.0:8585".parse().unwrap()), ..Layer::default() };
    refused(everywhere(), &[], "", &["0.0.0.0:8585", "--allow-plain-http"]);
    assert!(load(Layer { allow_plain_http: Some(true), ..everywhere() }, &[], "").is_ok());
    assert!(load(everywhere(), &[], "allow_plain_http = true").is_ok());
    let loopback = Layer { listen: Some("[::1]:1".parse().unwrap()), ..Layer::default() };
    assert!(load(loopback, &[], "").is_ok());
}

#[test]
fn ranges_are_opened_by_name() {
    let opened = |environment: &[(&'static str, &str)], file: &str| {
        load(Layer::default(), environment, file)
            .map(|settings| settings.egress_allow.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let name = environment::WORKSPACE_EGRESS_ALLOW;
    assert_eq!(opened(&[(name, "10.1.0.0/16, fd12::/64,")], "").unwrap(), ["10.1.0.0/16", "fd12::/64"]);
    let file = "[workspaces]\negress_allow = [\"192.168.7.9\"]\n";
    assert_eq!(opened(&[], file).unwrap(), ["192.168.7.9/32"]);
    for bad in ["10.1.0.0/33", "10.1.2.3/16", "example.org", "10.0.0.0/8 or so"] {
        let refused = opened(&[(name, bad)], "").unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains(bad), "{refused}");
    }
}

#[test]
fn pools_beside_the_default_one_are_in_the_file() {
    let settings = Settings::of_file("[[workspaces.pools]]\nname = \"small\"\nsize = 4\nmemory = \"512M\"");
    assert_eq!(settings.warm_pool_size, 2, "the default pool stays as it is");
    let [pool] = settings.pools.as_slice() else { panic!("{:?}", settings.pools) };
    assert_eq!((pool.name.as_str(), pool.size), ("small", 4));
    assert_eq!((pool.memory, pool.cpu), (Some(ByteSize::from_mib(512)), None));
    assert_eq!(load(Layer::default(), &[], "").unwrap().pools, []);
    let pools = |fields: &str| format!("[[workspaces.pools]]\nsize = 1\n[[workspaces.pools]]\n{fields}");
    for (fields, mentions) in [
        ("size = 101", "size: must be between 0 and 100, not 101"),
        ("size = -1", "size"),
        ("name = \"a\"", "size: is missing"),
        ("size = 1\nname = \"default\"", "name: there is another pool called \"default\""),
        ("size = 1\nname = \"pool-1\"", "name: there is another"),
        ("size = 1\nname = \"a b\"", "name: \"a b\" is not"),
        ("size = 1\nname = \"\"", "name: \"\" is not"),
        ("size = 1\ncpu = 0", "cpu"),
        ("size = 1\nmemory = \"4X\"", "memory"),
        ("size = 1\ndisk = true", "disk"),
        ("size = 1\nbase_image = \"\"", "base_image"),
        ("size = 1\nbase_image = \"a b\"", "base_image"),
        ("size = 1\nprovider = \"magic\"", "provider"),
        ("size = 1\nnetwork = \"lan\"", "network"),
        ("size = 1\nmin_isolation = \"strong\"", "min_isolation"),
        (
            "size = 1\nprovider = \"local\"\nmin_isolation = \"gvisor\"",
            "min_isolation: provider local is container",
        ),
        ("size = 1\ncolour = 1", "colour"),
    ] {
        refused(Layer::default(), &[], &pools(fields), &["emergent.toml", mentions]);
    }
    // What can be read is judged as a whole.
    let several = "size = 101\nname = \"a b\"\nbase_image = \"\"";
    let all = ["number 2: size", "number 2: name", "number 2: base_image"];
    refused(Layer::default(), &[], &pools(several), &all);
    let many = "[[workspaces.pools]]\nsize = 0\n".repeat(21);
    refused(Layer::default(), &[], &many, &["workspaces.pools", "20 at most, not 21"]);
    let left_out = [(environment::WORKSPACE_PROVIDERS, "local")];
    let gvisor = pools("size = 1\nprovider = \"gvisor\"");
    refused(Layer::default(), &left_out, &gvisor, &["number 2: provider", "gvisor is not among"]);
    assert!(load(Layer::default(), &left_out, &pools("size = 1\nprovider = \"local\"")).is_ok());
}
