//! The target: its settings, and Cargo's information about them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hone_tool::{Call, Runner, Tool};
use serde::{Deserialize, Serialize};

/// A program that Cargo builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CargoTarget {
    /// Folder with the `Cargo.toml`; also the working directory of every build.
    pub manifest_dir: PathBuf,
    /// The package, when the folder holds a workspace.
    pub package: Option<String>,
    /// The program's name.
    pub bin: String,
    /// Cargo profile, for example `release`.
    pub profile: String,
    /// Features to turn on.
    pub features: Vec<String>,
    /// Whether the default features are on.
    pub default_features: bool,
    /// Compiler flags of every variant, for example `-Ctarget-cpu=native`.
    pub extra_rustflags: Vec<String>,
    /// Whether C and C++ code in the build goes through the profile too, if there is a matching clang.
    pub c_code: bool,
}

impl CargoTarget {
    /// The program `bin` in `manifest_dir`, as `cargo build --release` makes it, with its C code profiled.
    pub fn new(manifest_dir: impl Into<PathBuf>, bin: impl Into<String>) -> Self {
        Self {
            manifest_dir: manifest_dir.into(),
            package: None,
            bin: bin.into(),
            profile: "release".to_owned(),
            features: Vec::new(),
            default_features: true,
            extra_rustflags: Vec::new(),
            c_code: true,
        }
    }

    /// Refuses flags that Hone itself must set.
    pub(crate) fn check_flags(&self) -> Result<()> {
        let ours = ["profile-use", "profile-generate", "instrument-coverage"];
        match self.extra_rustflags.iter().find(|flag| ours.iter().any(|name| flag.contains(name))) {
            Some(flag) => {
                bail!("the target's rustflags contain `{flag}`, which Hone sets itself: remove it")
            }
            None => Ok(()),
        }
    }
}

/// The required part of `cargo metadata --no-deps`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    targets: Vec<PackageTarget>,
    #[serde(default)]
    default_run: Option<String>,
    #[serde(default)]
    manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct PackageTarget {
    name: String,
    kind: Vec<String>,
}

/// A program that Cargo could build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoProgram {
    /// Its package.
    pub package: String,
    /// Its name.
    pub bin: String,
    /// Whether its package's default for `cargo run` is this one.
    pub is_default: bool,
    /// The package's folder.
    pub folder: PathBuf,
}

/// All programs of a package or workspace, in Cargo's order. It contacts no registry.
///
/// # Errors
/// Fails without Cargo, or when Cargo can't parse the manifest.
pub fn cargo_programs(runner: &dyn Runner, manifest_dir: &Path) -> Result<Vec<CargoProgram>> {
    let cargo = Tool::new("cargo", "HONE_CARGO").locate(&[])?;
    let told = runner.run(&metadata_call(cargo.path(), manifest_dir))?;
    Ok(Metadata::parse(&told.stdout()?)?.programs())
}

/// Cargo's information about the packages, without contacting any registry.
pub(crate) fn metadata_call(cargo: &Path, manifest_dir: &Path) -> Call {
    Call::new("ask-cargo-metadata", cargo, manifest_dir).args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ])
}

impl Metadata {
    fn programs(&self) -> Vec<CargoProgram> {
        let of = |package: &Package| {
            let bins = package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"));
            let program = |target: &PackageTarget| CargoProgram {
                package: package.name.clone(),
                bin: target.name.clone(),
                is_default: package.default_run.as_ref() == Some(&target.name),
                folder: package.manifest_path.parent().map(Path::to_path_buf).unwrap_or_default(),
            };
            bins.map(program).collect::<Vec<_>>()
        };
        self.packages.iter().flat_map(of).collect()
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("`cargo metadata` did not print the expected JSON")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.workspace_root.join("Cargo.lock")
    }

    /// Finds the package with the program, or lists the existing programs.
    pub(crate) fn check_bin(&self, target: &CargoTarget) -> Result<()> {
        let packages: Vec<&Package> = match &target.package {
            Some(wanted) => self.packages.iter().filter(|package| package.name == *wanted).collect(),
            None => self.packages.iter().collect(),
        };
        if let (Some(wanted), true) = (&target.package, packages.is_empty()) {
            let names = self.packages.iter().map(|package| package.name.as_str());
            bail!("no package `{wanted}` in {}{}", place(&target.manifest_dir), nearest(wanted, names));
        }
        let bins = || {
            packages
                .iter()
                .flat_map(|package| &package.targets)
                .filter(|found| found.kind.iter().any(|k| k == "bin"))
        };
        if !bins().any(|found| found.name == target.bin) {
            let names = bins().map(|found| found.name.as_str());
            bail!(
                "no program `{}` in {}{}",
                target.bin,
                place(&target.manifest_dir),
                nearest(&target.bin, names)
            );
        }
        Ok(())
    }
}

fn place(dir: &Path) -> String {
    dir.join("Cargo.toml").display().to_string()
}

fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let closest = names.max_by(|a, b| strsim::jaro(wanted, a).total_cmp(&strsim::jaro(wanted, b)));
    closest.map(|name| format!("; the nearest there is `{name}`")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"workspace_root": "/w", "packages": [
        {"name": "broker", "targets": [{"name": "broker", "kind": ["lib"]}, {"name": "broker-server", "kind": ["bin"]}]},
        {"name": "tools", "targets": [{"name": "load", "kind": ["bin"]}]}]}"#;

    fn check(package: Option<&str>, bin: &str, expected: Result<(), &str>) {
        let mut target = CargoTarget::new("/w", bin);
        target.package = package.map(str::to_owned);
        let outcome = Metadata::parse(METADATA.as_bytes()).unwrap().check_bin(&target);
        assert_eq!(outcome.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        check(None, "load", Ok(()));
        check(Some("broker"), "broker-server", Ok(()));
        check(
            None,
            "broker",
            Err("no program `broker` in /w/Cargo.toml; the nearest there is `broker-server`"),
        );
        check(
            Some("broker"),
            "load",
            Err("no program `load` in /w/Cargo.toml; the nearest there is `broker-server`"),
        );
        check(Some("brokr"), "x", Err("no package `brokr` in /w/Cargo.toml; the nearest there is `broker`"));
    }

    #[test]
    fn programs_are_listed_with_their_packages() {
        let metadata = r#"{"workspace_root": "/w", "packages": [{"name": "a", "default_run": "two", "manifest_path": "/w/a/Cargo.toml",
            "targets": [{"name": "a", "kind": ["lib"]}, {"name": "one", "kind": ["bin"]}, {"name": "two", "kind": ["bin"]}]}]}"#;
        let programs = Metadata::parse(metadata.as_bytes()).unwrap().programs();
        let program = |bin: &str, is_default| CargoProgram {
            package: "a".into(),
            bin: bin.into(),
            is_default,
            folder: "/w/a".into(),
        };
        assert_eq!(programs, [program("one", false), program("two", true)]);
    }

    #[test]
    fn flags_that_hone_sets_are_refused() {
        let mut target = CargoTarget::new("/w", "x");
        target.extra_rustflags = vec!["-Ctarget-cpu=native".into()];
        assert!(target.check_flags().is_ok());
        target.extra_rustflags.push("-Cprofile-use=/x".into());
        assert!(target.check_flags().unwrap_err().to_string().contains("`-Cprofile-use=/x`"));
    }
}
