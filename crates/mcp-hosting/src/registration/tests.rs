use super::*;

fn named(name: &str) -> Registration {
    Registration {
        name: Some(name.to_owned()),
        command: Some(vec!["server".to_owned()]),
        ..Registration::default()
    }
}

fn fields(registration: Registration) -> Vec<String> {
    let problems = registration.parse().map_or_else(|problems| problems.0, |_| Vec::new());
    problems.into_iter().map(|problem| problem.field).collect()
}

/// Proves: DESIGN-5.4
#[test]
fn a_command_alone_is_enough() {
    let new = named("memory").parse().unwrap();
    let hosted = new.hosted.unwrap();
    assert_eq!(hosted.server.restart_policy, RestartPolicy::Always);
    assert_eq!(hosted.server.mode, ServerMode::Shared);
    assert_eq!((hosted.server.serialize, hosted.server.stdio_bridge), (false, true));
    assert_eq!(hosted.server.call_timeout_ms, 30_000);
    assert_eq!(new.limits, RequestedLimits::default(), "its small defaults are no demands");
    assert!(!new.warm_start);
}

#[test]
fn every_wrong_field_is_named() {
    let wrong = Registration {
        name: Some("Not A Name".to_owned()),
        container_type: Some("agent_workspace".to_owned()),
        lifecycle: Some("ephemeral".to_owned()),
        image: Some("--privileged".to_owned()),
        command: Some(Vec::new()),
        provider: Some("moon".to_owned()),
        stdio_bridge: Some(false),
        restart_policy: Some("sometimes".to_owned()),
        mode: Some("lonely".to_owned()),
        tools_deny: Some(vec![String::new()]),
        call_timeout_ms: Some(0),
        limits: LimitsRequest { cpu: Some("many".to_owned()), memory: Some("-1".to_owned()), disk: None },
        environment: BTreeMap::from([("1X".to_owned(), String::new())]),
        volumes: vec![VolumeRequest { name: "data".to_owned(), target: "/proc".to_owned(), size: None }],
        network: Some("lan".to_owned()),
        min_isolation: Some("lead".to_owned()),
        ..Registration::default()
    };
    let mut fields = fields(wrong);
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "call_timeout_ms",
            "command",
            "container_type",
            "environment.1X",
            "image",
            "lifecycle",
            "min_isolation",
            "mode",
            "name",
            "network",
            "port",
            "provider",
            "resource_limits.cpu",
            "resource_limits.memory",
            "restart_policy",
            "tools_deny",
            "volumes[0]",
        ]
    );
}

#[test]
fn names_are_plain_and_no_ids() {
    let check = |name: &str, expect: bool| assert_eq!(fields(named(name)).is_empty(), expect, "{name:?}");
    check("a", true);
    check("langfuse-mcp", true);
    check("0", true);
    check(&"x".repeat(63), true);
    check(&"x".repeat(64), false);
    check("", false);
    check("Langfuse", false);
    check("a_b", false);
    check("a/b", false);
    check(&WorkspaceId::generate().to_string(), false);
}

#[test]
fn a_server_that_speaks_http_needs_its_port() {
    let http = |port| Registration { stdio_bridge: Some(false), port, ..named("http") };
    assert_eq!(fields(http(None)), ["port"]);
    assert_eq!(fields(http(Some(0))), ["port"]);
    assert_eq!(fields(http(Some(65536))), ["port"]);
    assert!(fields(http(Some(8080))).is_empty());
    assert_eq!(fields(Registration { port: Some(8080), ..named("stdio") }), ["port"]);
    let at = |path: &str| Registration { path: Some(path.to_owned()), ..http(Some(8080)) };
    for good in ["/", "/mcp", "/a/b?key=1"] {
        assert!(fields(at(good)).is_empty(), "{good}");
    }
    for bad in ["", "mcp", "http://x/mcp", "/a b", "/a#b", "/\r\n", &format!("/{}", "x".repeat(512))] {
        assert_eq!(fields(at(bad)), ["path"], "{bad}");
    }
    assert_eq!(fields(Registration { path: Some("/mcp".to_owned()), ..named("stdio") }), ["path"]);
}

#[test]
fn without_an_image_there_must_be_a_command() {
    assert_eq!(fields(Registration { command: None, ..named("nothing") }), ["command"]);
    let image = Registration { command: None, image: Some("langfuse".to_owned()), ..named("image") };
    assert!(fields(image).is_empty());
}

#[test]
fn a_volume_has_one_place() {
    let volume = |name: &str, target: &str| VolumeRequest {
        name: name.to_owned(),
        target: target.to_owned(),
        size: Some("64M".to_owned()),
    };
    let with = |volumes| Registration { volumes, ..named("data") };
    assert!(fields(with(vec![volume("a", "/a"), volume("b", "/b")])).is_empty());
    assert_eq!(fields(with(vec![volume("a", "/a"), volume("a", "/b")])), ["volumes[1]"]);
    assert_eq!(fields(with(vec![volume("a", "/a"), volume("b", "/a")])), ["volumes[1]"]);
}
