//! Resource limits: how they are written (`"0.5"`, `"512M"`, `"10GB"`) and what they mean.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A limit that cannot be read. The message says what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLimitError {
    /// Not a number with an optional unit.
    #[error("{given:?} is not a size: expected a positive number with K, M, G or T, such as \"512M\"")]
    NotASize {
        /// What was written.
        given: String,
    },
    /// Not a number of processors.
    #[error("{given:?} is not a number of CPUs: expected a positive number such as \"2\" or \"0.5\"")]
    NotACpuCount {
        /// What was written.
        given: String,
    },
    /// Outside what any host could give.
    #[error("{given:?} is out of range: expected between {min} and {max}")]
    OutOfRange {
        /// What was written.
        given: String,
        /// The least accepted value.
        min: String,
        /// The greatest accepted value.
        max: String,
    },
}

fn shown(text: &str) -> String {
    text.chars().take(32).collect()
}

/// A number of bytes, written with binary units: `K`, `M`, `G`, `T`, an optional `B` or
/// `iB`, any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// One mebibyte.
    pub const MIB: Self = Self(1 << 20);
    /// One gibibyte.
    pub const GIB: Self = Self(1 << 30);

    /// The greatest size that can be asked for: 64 TiB, beyond which no limit means anything.
    pub const MAX: Self = Self(64 << 40);

    /// This many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// This many mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// This many gibibytes.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    /// The shortest exact form: `4G`, `512M`, `1536` (bytes).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_size = || ParseLimitError::NotASize { given: shown(text) };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| not_a_size())?;
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(not_a_size()),
        };
        let bytes = number.checked_mul(1 << shift).filter(|bytes| (1..=Self::MAX.0).contains(bytes));
        bytes.map(Self).ok_or_else(|| ParseLimitError::OutOfRange {
            given: shown(text),
            min: "1".to_owned(),
            max: Self::MAX.to_string(),
        })
    }
}

/// A share of processors, exact to a thousandth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu {
    millis: u32,
}

impl Cpu {
    /// The least share: below it the kernel's scheduler quota cannot go.
    pub const MIN: Self = Self { millis: 10 };
    /// The greatest share.
    pub const MAX: Self = Self { millis: 1_024_000 };

    /// This many thousandths of a processor.
    pub const fn from_millis(millis: u32) -> Self {
        Self { millis }
    }

    /// Thousandths of a processor.
    pub const fn millis(self) -> u32 {
        self.millis
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.millis / 1000, self.millis % 1000);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{fraction:03}").trim_end_matches('0'))
    }
}

impl FromStr for Cpu {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_count = || ParseLimitError::NotACpuCount { given: shown(text) };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return Err(not_a_count());
        }
        let whole: u64 = whole.parse().map_err(|_| not_a_count())?;
        let fraction: u64 = format!("{fraction:0<3}").parse().map_err(|_| not_a_count())?;
        let millis = whole.saturating_mul(1000).saturating_add(fraction);
        match u32::try_from(millis) {
            Ok(millis) if (Self::MIN.millis..=Self::MAX.millis).contains(&millis) => Ok(Self { millis }),
            _ => Err(ParseLimitError::OutOfRange {
                given: shown(text),
                min: Self::MIN.to_string(),
                max: Self::MAX.to_string(),
            }),
        }
    }
}

macro_rules! serde_as_text {
    ($name:ident, $expecting:literal) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        /// Accepts the written form and, as many clients send it, a bare JSON number.
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some($expecting))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

serde_as_text!(ByteSize, "a size such as \"512M\" or \"10G\"");
serde_as_text!(Cpu, "a number of CPUs such as \"2\" or \"0.5\"");

/// What one workspace may use. Total: defaults are filled in before this exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResourceLimits {
    /// Processor time.
    pub cpu: Cpu,
    /// Memory, swap and tmpfs included.
    pub memory: ByteSize,
    /// Everything the sandbox can write.
    pub disk: ByteSize,
}

impl ResourceLimits {
    /// Less memory than this does not hold the agent itself and one small command.
    pub const LEAST_MEMORY: ByteSize = ByteSize::from_mib(32);

    /// An agent workspace's limits where neither request nor configuration says otherwise.
    pub const WORKSPACE_DEFAULT: Self =
        Self { cpu: Cpu::from_millis(2000), memory: ByteSize::from_gib(4), disk: ByteSize::from_gib(10) };

    /// A hosted MCP server's limits where its registration says nothing else.
    pub const MCP_SERVER_DEFAULT: Self =
        Self { cpu: Cpu::from_millis(500), memory: ByteSize::from_mib(512), disk: ByteSize::from_gib(1) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_size(text: &str, expect: Option<u64>) {
        assert_eq!(text.parse::<ByteSize>().ok().map(ByteSize::bytes), expect, "{text:?}");
    }

    #[test]
    fn sizes() {
        check_size("1", Some(1));
        check_size("512M", Some(512 << 20));
        check_size("512mb", Some(512 << 20));
        check_size("4GiB", Some(4 << 30));
        check_size("10g", Some(10 << 30));
        check_size("1T", Some(1 << 40));
        for bad in [
            "", "0", "0G", "-1", "+1", "1.5G", " 1G", "1 G", "1GG", "G", "abc", "9999P", "9999T", "1e3", "٣G",
        ] {
            check_size(bad, None);
        }
        check_size("18446744073709551616", None);
        check_size("18446744073709551615K", None);
    }

    fn check_cpu(text: &str, expect: Option<u32>) {
        assert_eq!(text.parse::<Cpu>().ok().map(Cpu::millis), expect, "{text:?}");
    }

    #[test]
    fn cpu_counts() {
        check_cpu("2", Some(2000));
        check_cpu("0.5", Some(500));
        check_cpu("1.125", Some(1125));
        for bad in
            ["", "0", "0.0", "-1", "+1", ".5", "1.", "1.2345", "abc", "NaN", "inf", "1e3", "99999999999"]
        {
            check_cpu(bad, None);
        }
    }

    #[test]
    fn json_numbers_are_accepted() {
        let limits: ResourceLimits =
            serde_json::from_str(r#"{"cpu": 1.5, "memory": 1048576, "disk": "1G"}"#).unwrap();
        assert_eq!(limits.cpu, Cpu::from_millis(1500));
        assert_eq!(limits.memory, ByteSize::MIB);
        assert!(serde_json::from_str::<Cpu>("-1").is_err());
    }

    proptest! {
        #[test]
        fn a_size_survives_being_written(bytes in 1..=ByteSize::MAX.bytes()) {
            let size = ByteSize::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
        }

        #[test]
        fn a_cpu_share_survives_being_written(millis in Cpu::MIN.millis()..=Cpu::MAX.millis()) {
            let cpu = Cpu::from_millis(millis);
            prop_assert_eq!(cpu.to_string().parse::<Cpu>().unwrap(), cpu);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<Cpu>();
        }
    }
}
