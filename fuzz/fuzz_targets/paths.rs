//! Paths, patterns and the small words of a request.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    emergent_agent::fuzzing::path(text);
    let (pattern, path) = text.split_once('\n').unwrap_or((text, "a/b"));
    emergent_agent::fuzzing::pattern(pattern, path);
    let _ = text.parse::<emergent_types::WorkspaceId>();
    if let Ok(size) = text.parse::<emergent_types::ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
    if let Ok(cpu) = text.parse::<emergent_types::Cpu>() {
        assert_eq!(cpu.to_string().parse(), Ok(cpu));
    }
});
