//! The calls, as values. Nothing here looks at the world.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_tool::Call;

use crate::flags::Route;
use crate::{CCompiler, CargoTarget};

/// A release build of a large service with fat LTO on a small machine takes this long at most.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Which build.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// As its makers build it.
    Baseline,
    /// Counting, with this folder for profiles of processes that were started without [`profile_env`].
    Instrumented { stray: &'a Path },
    /// Shaped by this merged profile.
    Optimized { profile: &'a Path },
}

impl Kind<'_> {
    pub(crate) fn variant(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Instrumented { .. } => "instrumented",
            Self::Optimized { .. } => "pgo",
        }
    }

    fn rustflags(self) -> Vec<String> {
        match self {
            Self::Baseline => vec![],
            Self::Instrumented { stray } => vec![format!("-Cprofile-generate={}", stray.display())],
            // Without the second flag a foreign profile is used, to no effect, in silence.
            Self::Optimized { profile } => vec![
                format!("-Cprofile-use={}", profile.display()),
                "-Cllvm-args=-pgo-warn-missing-function".to_owned(),
            ],
        }
    }

    fn c_flags(self) -> String {
        match self {
            Self::Baseline => String::new(),
            Self::Instrumented { .. } => "-fprofile-generate".to_owned(),
            // A C file without any function in the profile is no news; a stale one is, and stays switched on.
            Self::Optimized { profile } => {
                format!("-fprofile-use={} -Wno-profile-instr-unprofiled", profile.display())
            }
        }
    }
}

/// Everything that the builds of one target have in common.
#[derive(Debug, Clone)]
pub(crate) struct BuildPlan {
    pub(crate) target: CargoTarget,
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    pub(crate) triple: String,
    pub(crate) route: Route,
    pub(crate) locked: bool,
    /// The C compiler of *every* variant, and the flags that the user has set for C and for C++.
    pub(crate) c: Option<(CCompiler, CFlags)>,
}

/// Flags that the environment already holds for C and C++.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CFlags {
    pub(crate) c: String,
    pub(crate) cxx: String,
}

impl BuildPlan {
    /// The build of one variant into a folder of its own.
    pub(crate) fn build(&self, kind: Kind<'_>, target_dir: &Path) -> Call {
        let target = &self.target;
        let mut call = Call::new(format!("build-{}", kind.variant()), &self.cargo, &target.manifest_dir)
            .limit(BUILD_LIMIT)
            .args(["build", "--bin", &target.bin, "--profile", &target.profile]);
        if let Some(package) = &target.package {
            call = call.args(["--package", package]);
        }
        if !target.features.is_empty() {
            call = call.arg("--features").arg(target.features.join(","));
        }
        if !target.default_features {
            call = call.arg("--no-default-features");
        }
        if self.locked {
            call = call.arg("--locked");
        }
        // With a target named, build scripts and procedural macros get none of the flags: they would write profiles
        // while the build runs.
        call = call
            .args(["--target", &self.triple])
            .arg("--target-dir")
            .arg(target_dir)
            .arg("--message-format=json-render-diagnostics")
            .env("RUSTC", &self.rustc)
            .env_remove("LLVM_PROFILE_FILE");
        let mut added = target.extra_rustflags.clone();
        added.extend(kind.rustflags());
        self.with_c(self.route.apply(call, &self.triple, &added), kind)
    }

    fn with_c(&self, mut call: Call, kind: Kind<'_>) -> Call {
        let Some((compiler, flags)) = &self.c else {
            return call;
        };
        let added = kind.c_flags();
        call = self.with_language(call, "CC", "CFLAGS", &compiler.clang, &join(&flags.c, &added));
        if let Some(clangxx) = &compiler.clangxx {
            call = self.with_language(call, "CXX", "CXXFLAGS", clangxx, &join(&flags.cxx, &added));
        }
        call
    }

    fn with_language(&self, call: Call, compiler: &str, flags: &str, program: &Path, value: &str) -> Call {
        let call = self.with_setting(call, compiler, program.as_os_str().to_owned());
        // No flags: the user has set none either, so there is nothing to hide.
        if value.is_empty() { call } else { self.with_setting(call, flags, value.into()) }
    }

    /// The name with dashes would win over the one with underscores, so it is hidden.
    fn with_setting(&self, call: Call, name: &str, value: OsString) -> Call {
        let underscored = self.triple.replace(['-', '.'], "_");
        call.env_remove(format!("{name}_{}", self.triple)).env(format!("{name}_{underscored}"), value)
    }
}

fn join(own: &str, added: &str) -> String {
    format!("{} {}", own.trim(), added).trim().to_owned()
}

/// What Cargo knows about the packages, without asking any registry.
pub(crate) fn metadata(cargo: &Path, manifest_dir: &Path) -> Call {
    Call::new("ask-cargo-metadata", cargo, manifest_dir).args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ])
}

/// Merges raw profiles.
pub(crate) fn merge(profdata: &Path, work: &Path, raw: &[PathBuf], into: &Path) -> Call {
    Call::new("merge-profile", profdata, work).args(["merge", "-o"]).arg(into).args(raw).produces(into)
}

/// Writes a merged profile as text, with every counter.
pub(crate) fn dump(profdata: &Path, work: &Path, profile: &Path, into: &Path) -> Call {
    Call::new("read-profile", profdata, work)
        .args(["merge", "--text", "-o"])
        .arg(into)
        .arg(profile)
        .produces(into)
}

/// The environment variable with which the instrumented server must be started: one raw file for each process in
/// `raw_dir`, named by the program's signature and the process id.
pub fn profile_env(raw_dir: &Path) -> (OsString, OsString) {
    ("LLVM_PROFILE_FILE".into(), raw_dir.join("%m_%p.profraw").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> BuildPlan {
        BuildPlan {
            target: CargoTarget::new("/src", "server"),
            cargo: "/rust/cargo".into(),
            rustc: "/rust/rustc".into(),
            triple: "x86_64-unknown-linux-gnu".into(),
            route: Route::Encoded(vec![]),
            locked: true,
            c: None,
        }
    }

    fn check(plan: &BuildPlan, kind: Kind<'_>, expected: &str) {
        let line = plan.build(kind, Path::new("/w/t")).to_string().replace('\u{1f}', "|");
        assert_eq!(line, expected.replace("\n", " "));
    }

    #[test]
    fn the_plain_builds() {
        check(
            &plan(),
            Kind::Baseline,
            "cd /src && env -u LLVM_PROFILE_FILE RUSTC=/rust/rustc /rust/cargo build --bin server --profile release\n\
             --locked --target x86_64-unknown-linux-gnu --target-dir /w/t --message-format=json-render-diagnostics",
        );
        let mut rich = plan();
        rich.locked = false;
        rich.target.package = Some("broker".into());
        rich.target.features = vec!["a".into(), "b".into()];
        rich.target.default_features = false;
        rich.target.extra_rustflags = vec!["-Ctarget-cpu=native".into()];
        check(
            &rich,
            Kind::Optimized { profile: Path::new("/w/a b.profdata") },
            "cd /src && env -u LLVM_PROFILE_FILE -u RUSTFLAGS RUSTC=/rust/rustc\n\
             CARGO_ENCODED_RUSTFLAGS='-Ctarget-cpu=native|-Cprofile-use=/w/a b.profdata|-Cllvm-args=-pgo-warn-missing-function'\n\
             /rust/cargo build --bin server --profile release --package broker --features a,b --no-default-features\n\
             --target x86_64-unknown-linux-gnu --target-dir /w/t --message-format=json-render-diagnostics",
        );
    }

    #[test]
    fn c_code_goes_through_the_same_compiler_in_every_variant() {
        let mut plan = plan();
        let compiler = CCompiler { clang: "/usr/bin/clang-22".into(), clangxx: None };
        plan.c = Some((compiler, CFlags { c: "-DX ".into(), cxx: String::new() }));
        plan.route = Route::TargetConfig;
        let with = |flags: &str, cflags: &str| {
            format!(
                "cd /src && env -u LLVM_PROFILE_FILE -u CC_x86_64-unknown-linux-gnu -u CFLAGS_x86_64-unknown-linux-gnu\n\
                 RUSTC=/rust/rustc CC_x86_64_unknown_linux_gnu=/usr/bin/clang-22\n\
                 CFLAGS_x86_64_unknown_linux_gnu={cflags} /rust/cargo build --bin server --profile release --locked\n\
                 --target x86_64-unknown-linux-gnu --target-dir /w/t --message-format=json-render-diagnostics{flags}"
            )
        };
        check(&plan, Kind::Baseline, &with("", "-DX"));
        check(
            &plan,
            Kind::Instrumented { stray: Path::new("/w/stray") },
            &with(
                "\n--config 'target.x86_64-unknown-linux-gnu.rustflags=[\"-Cprofile-generate=/w/stray\"]'",
                "'-DX -fprofile-generate'",
            ),
        );
        let optimized = plan.build(Kind::Optimized { profile: Path::new("/w/p") }, Path::new("/w/t"));
        assert!(optimized.to_string().contains("'-DX -fprofile-use=/w/p -Wno-profile-instr-unprofiled'"));
    }

    #[test]
    fn profile_calls() {
        let raw = ["/w/raw/1_2.profraw".into(), "/w/raw/3_4.profraw".into()];
        let call = merge(Path::new("/rust/llvm-profdata"), Path::new("/w"), &raw, Path::new("/w/m"));
        assert_eq!(
            call.to_string(),
            "cd /w && /rust/llvm-profdata merge -o /w/m /w/raw/1_2.profraw /w/raw/3_4.profraw"
        );
        let call =
            dump(Path::new("/rust/llvm-profdata"), Path::new("/w"), Path::new("/w/m"), Path::new("/w/t"));
        assert_eq!(call.to_string(), "cd /w && /rust/llvm-profdata merge --text -o /w/t /w/m");
        assert_eq!(profile_env(Path::new("/w/raw")).1, "/w/raw/%m_%p.profraw");
    }
}
