//! The target that Cargo builds for, and the way for additional compiler flags to reach rustc without displacing the configured ones.
//!
//! Cargo knows four sources of rustflags and uses only the first that exists (The Cargo Book, `build.rustflags`):
//! `CARGO_ENCODED_RUSTFLAGS`; `RUSTFLAGS`; all matching `target.*.rustflags`; `build.rustflags`. So a flag set in one of them silently
//! hides all sources after it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hone_tool::Call;

/// Separates two flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: char = '\u{1f}';

/// All sources of rustflags, read but not yet interpreted.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// `CARGO_ENCODED_RUSTFLAGS`.
    pub(crate) encoded: Option<String>,
    /// `RUSTFLAGS`.
    pub(crate) plain: Option<String>,
    /// `CARGO_TARGET_<TRIPLE>_RUSTFLAGS`.
    pub(crate) target: Option<String>,
    /// `CARGO_BUILD_RUSTFLAGS`.
    pub(crate) build: Option<String>,
    /// `CARGO_BUILD_TARGET`.
    pub(crate) build_target: Option<String>,
    /// Cargo's configuration files, the farthest from the project first.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl Sources {
    /// Reads the environment and the configuration files for a build in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in config_files(dir) {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("Cargo's configuration {} can't be read", path.display()))?;
            files.push((path, text));
        }
        Ok(Self {
            encoded: variable("CARGO_ENCODED_RUSTFLAGS")?,
            plain: variable("RUSTFLAGS")?,
            target: None,
            build: variable("CARGO_BUILD_RUSTFLAGS")?,
            build_target: variable("CARGO_BUILD_TARGET")?,
            files,
        })
    }

    /// With the variable that holds flags for this target.
    pub(crate) fn of_target(self, triple: &str) -> Result<Self> {
        let name = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase().replace(['-', '.'], "_"));
        Ok(Self { target: variable(&name)?, ..self })
    }

    /// The target that Cargo would build for: `build.target` of the configuration, otherwise the host. Stable Cargo has no command that
    /// prints it.
    ///
    /// # Errors
    /// Fails when Hone can't build for it and start it here; the error names its place.
    pub(crate) fn triple(&self, host: &str) -> Result<String> {
        const NEXT: &str = "next: set CARGO_BUILD_TARGET to the target that Hone should optimise";
        let mut found: Vec<(String, String)> = Vec::new();
        if let Some(target) = self.build_target.as_ref().filter(|target| !target.is_empty()) {
            found.push((target.clone(), "CARGO_BUILD_TARGET".to_owned()));
        } else {
            for (path, text) in &self.files {
                let table = table(path, text)?;
                if table.contains_key("include") {
                    bail!(
                        "Cargo's configuration {} includes other files, whose build.target Hone does not see\n  {NEXT}",
                        path.display()
                    );
                }
                let Some(target) = table.get("build").and_then(|build| build.get("target")) else { continue };
                let place = format!("build.target in {}", path.display());
                let targets = match target {
                    toml::Value::String(target) => Some(vec![target.clone()]),
                    toml::Value::Array(list) => {
                        list.iter().map(|target| target.as_str().map(str::to_owned)).collect()
                    }
                    _ => None,
                };
                let targets =
                    targets.with_context(|| format!("{place} is neither a string nor a list of strings"))?;
                // For single values the nearest file wins; Cargo joins lists.
                if !target.is_array() {
                    found.clear();
                }
                let known = |target: &String| !found.iter().any(|(known, _)| known == target);
                let new: Vec<String> = targets.into_iter().filter(known).collect();
                found.extend(new.into_iter().map(|target| (target, place.clone())));
            }
        }
        if found.len() > 1 {
            let names: Vec<&str> = found.iter().map(|(target, _)| target.as_str()).collect();
            bail!(
                "{} names several targets ({}), but Hone optimises only one\n  {NEXT}",
                found[0].1,
                names.join(", ")
            );
        }
        let Some((target, place)) = found.pop() else { return Ok(host.to_owned()) };
        // Cargo's name for the host.
        if target == "host-tuple" {
            return Ok(host.to_owned());
        }
        if Path::new(&target).extension().is_some_and(|ending| ending == "json") {
            bail!(
                "{place} names the target specification {target}, but Hone builds only for rustc's own \
                 targets\n  {NEXT}"
            );
        }
        let machine = |triple: &str| triple.split('-').next().map(str::to_owned);
        if machine(&target) != machine(host) || !target.contains("linux") {
            bail!("{place} is {target}, but its programs do not start on this machine ({host})\n  {NEXT}");
        }
        Ok(target)
    }
}

fn table(path: &Path, text: &str) -> Result<toml::Table> {
    text.parse().with_context(|| format!("Cargo's configuration {} is not TOML", path.display()))
}

fn variable(name: &str) -> Result<Option<String>> {
    match env::var_os(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => bail!("the environment variable {name} is not UTF-8: correct or unset it"),
    }
}

/// Cargo's home first, then from the root down to the project. In one folder the name without an extension wins.
fn config_files(dir: &Path) -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let in_project = dir.ancestors().map(|folder| folder.join(".cargo")).collect::<Vec<_>>();
    let mut folders: Vec<PathBuf> = home.into_iter().collect();
    folders.extend(in_project.into_iter().rev());
    let mut seen = Vec::new();
    for folder in folders {
        let file =
            ["config", "config.toml"].map(|name| folder.join(name)).into_iter().find(|file| file.is_file());
        if let Some(file) = file.filter(|file| !seen.contains(file)) {
            seen.push(file);
        }
    }
    seen
}

/// The way for additional flags, and the flags that already use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// By `CARGO_ENCODED_RUSTFLAGS`, after these flags of the user.
    Encoded(Vec<String>),
    /// By `--config target.<triple>.rustflags`, which Cargo joins with the configured target flags.
    TargetConfig,
}

impl Route {
    /// Chooses the way that loses no flags, or refuses if there is none.
    pub(crate) fn choose(sources: &Sources, triple: &str) -> Result<Self> {
        if let Some(encoded) = &sources.encoded {
            let flags = encoded.split(SEPARATOR).filter(|flag| !flag.is_empty());
            return Ok(Self::Encoded(flags.map(str::to_owned).collect()));
        }
        if let Some(plain) = &sources.plain {
            return Ok(Self::Encoded(split_flags(plain)));
        }
        let configured = Configured::read(sources, triple)?;
        if configured.for_triple || (configured.for_some_cfg && configured.build.is_empty()) {
            return Ok(Self::TargetConfig);
        }
        if configured.for_some_cfg {
            bail!(
                "Cargo's configuration has rustflags both under [build] and under [target.'cfg(...)'], and \
                 Hone can't see without building which of them apply: set RUSTFLAGS to the flags that the \
                 target needs"
            );
        }
        Ok(Self::Encoded(configured.build))
    }

    /// Adds flags to a call of cargo. Must come before a `--`.
    pub(crate) fn apply(&self, call: Call, triple: &str, added: &[String]) -> Call {
        match self {
            Self::Encoded(own) => {
                let all: Vec<&str> = own.iter().chain(added).map(String::as_str).collect();
                if all.is_empty() {
                    return call;
                }
                call.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", all.join(&SEPARATOR.to_string()))
            }
            Self::TargetConfig if added.is_empty() => call,
            Self::TargetConfig => {
                let list = toml::Value::Array(added.iter().cloned().map(toml::Value::String).collect());
                call.arg("--config").arg(format!("target.{triple}.rustflags={list}"))
            }
        }
    }
}

#[derive(Debug, Default)]
struct Configured {
    for_triple: bool,
    for_some_cfg: bool,
    build: Vec<String>,
}

impl Configured {
    fn read(sources: &Sources, triple: &str) -> Result<Self> {
        let mut found = Self { for_triple: sources.target.is_some(), ..Self::default() };
        for (path, text) in &sources.files {
            found.add(path, text, triple)?;
        }
        // For single values the environment overrides files; lists are joined, files first.
        found.build.extend(sources.build.iter().flat_map(|flags| split_flags(flags)));
        Ok(found)
    }

    fn add(&mut self, path: &Path, text: &str, triple: &str) -> Result<()> {
        let table = table(path, text)?;
        if table.contains_key("include") {
            bail!(
                "Cargo's configuration {} includes other files, whose rustflags Hone does not see: set RUSTFLAGS to \
                 the flags that the target needs",
                path.display()
            );
        }
        if let Some(flags) = table.get("build").and_then(|build| build.get("rustflags")) {
            self.build.extend(flag_list(flags).with_context(|| {
                format!("build.rustflags in {} is neither a string nor a list of strings", path.display())
            })?);
        }
        let targets = table.get("target").and_then(toml::Value::as_table);
        for (name, settings) in targets.into_iter().flatten() {
            let Some(flags) = settings.get("rustflags") else {
                continue;
            };
            // Cargo joins lists with lists, and fails on a text that meets a list.
            if name == triple && !flags.is_array() {
                bail!(
                    "target.{name}.rustflags in {} is not a list, so Hone can't add a flag: write it as \
                     [\"...\", \"...\"]",
                    path.display()
                );
            }
            self.for_triple |= name == triple;
            self.for_some_cfg |= name.starts_with("cfg(");
        }
        Ok(())
    }
}

fn flag_list(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(split_flags(text)),
        toml::Value::Array(list) => list.iter().map(|flag| flag.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn split_flags(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_configuration_makes_it_panic(
            text in "(\\[?(build|target|rustflags|'cfg\\(x\\)'|x86_64-unknown-linux-gnu)\\]?|[.=\n]|'-Ca'|\\['-C', 5?\\]|7){0,14}",
        ) {
            let _ = Route::choose(&files(&[&text]), TRIPLE);
            let _ = files(&[&text]).triple(TRIPLE);
        }
    }

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    fn files(texts: &[&str]) -> Sources {
        let files =
            texts.iter().enumerate().map(|(i, text)| (PathBuf::from(format!("/{i}")), (*text).to_owned()));
        Sources { files: files.collect(), ..Sources::default() }
    }

    fn check(sources: Sources, expected: &str) {
        let line = match Route::choose(&sources, TRIPLE) {
            Ok(route) => {
                let call = Call::new("s", "cargo", "/");
                route.apply(call, TRIPLE, &["-Cx=1".into(), "-Cy".into()]).to_string().replace(SEPARATOR, "|")
            }
            Err(error) => format!("{error:#}"),
        };
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn configured_flags_are_kept() {
        let encoded = "env -u RUSTFLAGS CARGO_ENCODED_RUSTFLAGS=";
        check(files(&[]), &format!("{encoded}'-Cx=1|-Cy' cargo"));
        check(
            Sources { plain: Some(" -Ca  -Cb ".into()), ..files(&["build.rustflags = ['-Cno']"]) },
            &format!("{encoded}'-Ca|-Cb|-Cx=1|-Cy' cargo"),
        );
        check(
            Sources { encoded: Some("-Ca b\u{1f}-Cc".into()), plain: Some("-Cno".into()), ..files(&[]) },
            &format!("{encoded}'-Ca b|-Cc|-Cx=1|-Cy' cargo"),
        );
        check(
            files(&["[build]\nrustflags = '-Ca -Cb'", "build.rustflags = ['-C c']"]),
            &format!("{encoded}'-Ca|-Cb|-C c|-Cx=1|-Cy' cargo"),
        );
        check(
            Sources { build: Some("-Cb".into()), ..files(&["build.rustflags = ['-Ca']"]) },
            &format!("{encoded}'-Ca|-Cb|-Cx=1|-Cy' cargo"),
        );
        let config = format!(r#"cargo --config 'target.{TRIPLE}.rustflags=["-Cx=1", "-Cy"]'"#);
        check(
            files(&["[target.x86_64-unknown-linux-gnu]\nrustflags = ['-Ca']", "build.rustflags = 'b'"]),
            &config,
        );
        check(files(&["[target.'cfg(unix)']\nrustflags = ['-Ca']"]), &config);
        check(Sources { target: Some("-Ca".into()), ..files(&[]) }, &config);
        check(files(&["[target.other]\nrustflags = ['-Ca']"]), &format!("{encoded}'-Cx=1|-Cy' cargo"));
    }

    #[test]
    fn what_is_uncertain_is_refused() {
        check(
            files(&["[target.'cfg(unix)']\nrustflags = ['-Ca']", "build.rustflags = 'b'"]),
            "set RUSTFLAGS to the flags that the target needs",
        );
        check(files(&["include = 'other.toml'"]), "/0 includes other files");
        check(
            files(&["[target.x86_64-unknown-linux-gnu]\nrustflags = '-Ca'"]),
            "target.x86_64-unknown-linux-gnu.rustflags in /0 is not a list",
        );
        check(
            files(&["build.rustflags = 5"]),
            "build.rustflags in /0 is neither a string nor a list of strings",
        );
        check(files(&["= ="]), "/0 is not TOML");
    }

    #[test]
    fn the_target_is_that_of_cargos_configuration() {
        const MUSL: &str = "x86_64-unknown-linux-musl";
        let check = |sources: Sources, expected: &str| {
            let found = sources.triple(TRIPLE).unwrap_or_else(|error| format!("{error:#}"));
            assert!(found.contains(expected), "{found}");
        };
        let musl = format!("build.target = '{MUSL}'");
        check(files(&[]), TRIPLE);
        check(files(&["build.jobs = 2"]), TRIPLE);
        check(files(&[&musl]), MUSL);
        check(files(&["build.target = 'aarch64-unknown-linux-gnu'", &musl]), MUSL);
        check(files(&[&format!("build.target = ['{MUSL}']"), &format!("build.target = ['{MUSL}']")]), MUSL);
        check(files(&["build.target = 'host-tuple'"]), TRIPLE);
        let named = Sources { build_target: Some(MUSL.into()), ..files(&["build.target = 'x.json'"]) };
        check(named, MUSL);
        check(
            files(&[&format!("build.target = ['{MUSL}', '{TRIPLE}']")]),
            "build.target in /0 names several targets (x86_64-unknown-linux-musl, x86_64-unknown-linux-gnu)",
        );
        check(
            files(&["build.target = 'my/board.json'"]),
            "build.target in /0 names the target specification my/board.json",
        );
        check(
            files(&["build.target = 'aarch64-unknown-linux-gnu'"]),
            "do not start on this machine (x86_64-",
        );
        check(files(&["build.target = 5"]), "build.target in /0 is neither a string nor a list of strings");
        check(files(&["include = 'other.toml'"]), "whose build.target Hone does not see");
    }

    #[test]
    fn without_flags_the_call_stays_as_it_is() {
        let call = Call::new("s", "cargo", "/");
        assert_eq!(Route::Encoded(vec![]).apply(call.clone(), TRIPLE, &[]), call);
        assert_eq!(Route::TargetConfig.apply(call.clone(), TRIPLE, &[]), call);
    }
}
