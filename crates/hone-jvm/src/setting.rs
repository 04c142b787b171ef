//! Settings of the virtual machine as one change each: `gc=zgc`, `heap=2g`, `compact-headers=true`, or any flag by its own name.

use crate::command::{JavaCommand, Key, flag_value, size_of};

/// A garbage collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gc {
    /// G1, the default on a server.
    G1,
    /// Throughput collector.
    Parallel,
    /// One thread.
    Serial,
    /// Concurrent, generational from JDK 21 on.
    Z,
    /// Concurrent, in the builds that have it.
    Shenandoah,
}

impl Gc {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::G1, Self::Parallel, Self::Serial, Self::Z, Self::Shenandoah];

    /// Its name in a change.
    pub fn name(self) -> &'static str {
        match self {
            Self::G1 => "g1",
            Self::Parallel => "parallel",
            Self::Serial => "serial",
            Self::Z => "zgc",
            Self::Shenandoah => "shenandoah",
        }
    }

    /// The flag that selects it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::G1 => "UseG1GC",
            Self::Parallel => "UseParallelGC",
            Self::Serial => "UseSerialGC",
            Self::Z => "UseZGC",
            Self::Shenandoah => "UseShenandoahGC",
        }
    }

    /// The collector that an option selects.
    pub fn of_option(option: &str) -> Option<Self> {
        let (name, value) = flag_value(option)?;
        Self::ALL.into_iter().find(|gc| gc.flag() == name && value == "true")
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gc| gc.name() == name)
    }
}

/// The first release in which compact object headers are a product flag (JEP 519), and the one in which they are experimental (JEP 450).
const COMPACT_HEADERS: [u32; 2] = [25, 24];
/// The releases in which ZGC is a product (JEP 377), generational by a flag (JEP 439), and always generational (JEP 474, 490).
const ZGC: [u32; 3] = [15, 21, 23];

/// Names of settings that are no flag's, with an example each.
pub const NAMES: [(&str, &str); 9] = [
    ("gc", "gc=zgc"),
    ("heap", "heap=2g"),
    ("max-heap", "max-heap=2g"),
    ("young", "young=512m"),
    ("pause-goal", "pause-goal=20"),
    ("compact-headers", "compact-headers=true"),
    ("huge-pages", "huge-pages=true"),
    ("code-cache", "code-cache=240m"),
    ("cpus", "cpus=2"),
];

/// The command line with a setting. `feature` is the release of its JDK; `None` if unknown.
///
/// # Errors
/// When the release has no such setting, or the value is invalid.
pub fn with_setting(
    command: &JavaCommand,
    name: &str,
    value: &str,
    feature: Option<u32>,
) -> Result<JavaCommand, String> {
    let mut changed = command.clone();
    let size = |value: &str| {
        size_of(value)
            .map(|_| ())
            .ok_or_else(|| format!("invalid size `{value}`: use a number with k, m or g, for example `2g`"))
    };
    let is_on = || match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("invalid value `{value}`: use true or false")),
    };
    match name {
        "gc" => set_gc(&mut changed, value, feature)?,
        "heap" => {
            size(value)?;
            changed.set(&format!("-Xms{value}"));
            changed.set(&format!("-Xmx{value}"));
        }
        "max-heap" => {
            size(value)?;
            changed.set(&format!("-Xmx{value}"));
        }
        "young" => {
            size(value)?;
            changed.set(&format!("-Xmn{value}"));
        }
        "pause-goal" => {
            let goal: u32 = value
                .parse()
                .map_err(|_| format!("invalid pause goal `{value}`: use a number of milliseconds"))?;
            changed.set(&format!("-XX:MaxGCPauseMillis={goal}"));
        }
        "compact-headers" => set_compact_headers(&mut changed, is_on()?, feature)?,
        "huge-pages" => {
            let on = is_on()?;
            changed.set(if on { "-XX:+UseTransparentHugePages" } else { "-XX:-UseTransparentHugePages" });
            changed.set(if on { "-XX:+AlwaysPreTouch" } else { "-XX:-AlwaysPreTouch" });
        }
        "code-cache" => {
            size(value)?;
            changed.set(&format!("-XX:ReservedCodeCacheSize={value}"));
        }
        "cpus" => {
            let cpus: u32 =
                value.parse().map_err(|_| format!("invalid number of CPUs `{value}`: use a whole number"))?;
            changed.set(&format!("-XX:ActiveProcessorCount={cpus}"));
        }
        flag if is_flag(flag) => changed.set(&match value {
            "true" => format!("-XX:+{flag}"),
            "false" => format!("-XX:-{flag}"),
            _ => format!("-XX:{flag}={value}"),
        }),
        property if property.contains('.') => changed.set(&format!("-D{property}={value}")),
        _ => return Err(unknown(name)),
    }
    Ok(changed)
}

/// Flags begin with a capital letter.
fn is_flag(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn unknown(name: &str) -> String {
    let near = hone_format::nearest(name, NAMES.iter().map(|(name, _)| *name));
    let known: Vec<&str> = NAMES.iter().map(|(_, example)| *example).collect();
    format!(
        "unknown setting `{name}`{}; use one of {}, or a flag such as UseNUMA=true",
        hone_format::did_you_mean(near),
        known.join(", ")
    )
}

fn set_gc(command: &mut JavaCommand, value: &str, feature: Option<u32>) -> Result<(), String> {
    let gc = Gc::of_name(value).ok_or_else(|| {
        format!("unknown collector `{value}`; use one of {}", Gc::ALL.map(Gc::name).join(", "))
    })?;
    for other in Gc::ALL {
        command.remove(&Key::Flag(other.flag().to_owned()));
    }
    command.set(&format!("-XX:+{}", gc.flag()));
    if gc != Gc::Z {
        return Ok(());
    }
    let [product, generational, always] = ZGC;
    match feature {
        Some(feature) if feature < product => {
            Err(format!("JDK {feature} has ZGC only as an experiment; use JDK {product} or newer"))
        }
        Some(feature) if (generational..always).contains(&feature) => {
            command.set("-XX:+ZGenerational");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn set_compact_headers(command: &mut JavaCommand, on: bool, feature: Option<u32>) -> Result<(), String> {
    let [product, experimental] = COMPACT_HEADERS;
    match feature {
        Some(feature) if feature < experimental => {
            return Err(format!("JDK {feature} has no compact object headers; they need JDK {product}"));
        }
        Some(feature) if feature < product => command.set("-XX:+UnlockExperimentalVMOptions"),
        _ => {}
    }
    command.set(if on { "-XX:+UseCompactObjectHeaders" } else { "-XX:-UseCompactObjectHeaders" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> JavaCommand {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        JavaCommand::parse(&words).unwrap()
    }

    fn options(line: &str, name: &str, value: &str, feature: u32) -> Result<Vec<String>, String> {
        with_setting(&command(line), name, value, Some(feature)).map(|changed| changed.options)
    }

    #[test]
    fn a_collector_replaces_the_one_that_is_selected() {
        let line = "java -XX:+UseG1GC -Xmx1g -jar x";
        assert_eq!(options(line, "gc", "parallel", 17).unwrap(), ["-Xmx1g", "-XX:+UseParallelGC"]);
        assert_eq!(options(line, "gc", "zgc", 21).unwrap(), ["-Xmx1g", "-XX:+UseZGC", "-XX:+ZGenerational"]);
        assert_eq!(options(line, "gc", "zgc", 25).unwrap(), ["-Xmx1g", "-XX:+UseZGC"]);
        assert!(options(line, "gc", "zgc", 11).unwrap_err().contains("use JDK 15 or newer"));
        assert!(options(line, "gc", "cms", 25).unwrap_err().contains("use one of g1, parallel"));
    }

    #[test]
    fn sizes_flags_and_properties_are_set_once() {
        let line = "java -Xms1g -Xmx1g -jar x";
        assert_eq!(options(line, "heap", "2g", 25).unwrap(), ["-Xms2g", "-Xmx2g"]);
        assert_eq!(options(line, "max-heap", "2g", 25).unwrap(), ["-Xms1g", "-Xmx2g"]);
        assert_eq!(options("java -jar x", "UseNUMA", "true", 25).unwrap(), ["-XX:+UseNUMA"]);
        assert_eq!(
            options("java -jar x", "TieredStopAtLevel", "1", 25).unwrap(),
            ["-XX:TieredStopAtLevel=1"]
        );
        assert_eq!(
            options("java -jar x", "io.netty.noUnsafe", "true", 25).unwrap(),
            ["-Dio.netty.noUnsafe=true"]
        );
        assert!(
            options(line, "heap", "2x", 25)
                .unwrap_err()
                .contains("invalid size `2x`: use a number with k, m or g")
        );
        assert!(options(line, "haep", "2g", 25).unwrap_err().contains("did you mean `heap`"));
    }

    #[test]
    fn compact_headers_need_a_release_that_has_them() {
        let of = |feature| options("java -jar x", "compact-headers", "true", feature);
        assert_eq!(of(25).unwrap(), ["-XX:+UseCompactObjectHeaders"]);
        assert_eq!(of(24).unwrap(), ["-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders"]);
        assert!(of(17).unwrap_err().contains("they need JDK 25"));
        assert!(
            options("java -jar x", "huge-pages", "on", 25)
                .unwrap_err()
                .contains("invalid value `on`: use true or false")
        );
    }
}
