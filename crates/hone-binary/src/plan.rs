//! The calls, as values. This module reads nothing from the system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_tool::Call;

use crate::build_request::{BuildRequest, Guide};
use crate::diagnostics::HEARD_FROM_LLVM;
use crate::flags::Route;
use crate::layout::{PADDING, layout_flags};
use crate::target::CargoTarget;
use crate::toolchain::CCompiler;

/// Time limit of a release build of a large service with fat LTO on a small machine.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 3600);

/// A one-line program links within a second.
const TRIAL_LIMIT: Duration = Duration::from_secs(120);

/// Flags for rustc. `stray` is for the profiles of processes that were started without [`profile_env`].
fn rustflags(request: &BuildRequest, stray: &Path, dump_object: Option<&Path>, pads: bool) -> Vec<String> {
    let mut flags = match &request.guide {
        Guide::Generate => {
            let link = |object: &Path| format!("-Clink-arg={}", object.display());
            let counts = format!("-Cprofile-generate={}", stray.display());
            std::iter::once(counts).chain(dump_object.map(link)).collect()
        }
        // Without the second flag, rustc silently ignores a foreign profile, and a stale one of weak functions.
        Guide::Use(profile) => vec![
            format!("-Cprofile-use={}", profile.display()),
            format!("-Cllvm-args={}", HEARD_FROM_LLVM.join(" ")),
        ],
        // Earlier checks refuse all but the first.
        Guide::None | Guide::Traceable | Guide::CsGenerate(_) | Guide::SampleUse(_) => vec![],
    };
    if !request.jump_tables {
        flags.push("-Cjump-tables=no".to_owned());
    }
    if request.relocs {
        // A linker that strips can't keep relocations, and Cargo's profiles request that by default.
        flags.extend(["-Clink-arg=-Wl,--emit-relocs", "-Cstrip=none"].map(str::to_owned));
    }
    if let Some(seed) = request.link_seed {
        // rustc's default is a separate section for each function.
        flags.extend(layout_flags(seed, pads).into_iter().map(|flag| format!("-Clink-arg={flag}")));
    }
    flags
}

/// Flags for the C code of build scripts.
fn c_flags(request: &BuildRequest) -> String {
    let guide = match &request.guide {
        Guide::Generate => "-fprofile-generate".to_owned(),
        // A C file without any function in the profile is normal; a stale one is not, and that warning stays on.
        Guide::Use(profile) => {
            let stale = HEARD_FROM_LLVM[0];
            format!("-fprofile-use={} -Wno-profile-instr-unprofiled -mllvm {stale}", profile.display())
        }
        Guide::None | Guide::Traceable | Guide::CsGenerate(_) | Guide::SampleUse(_) => String::new(),
    };
    if request.jump_tables { guide } else { join(&guide, "-fno-jump-tables") }
}

/// The common settings of one target's builds.
#[derive(Debug, Clone)]
pub(crate) struct BuildPlan {
    pub(crate) target: CargoTarget,
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
    pub(crate) triple: String,
    pub(crate) route: Route,
    pub(crate) locked: bool,
    /// The C compiler of *every* variant, and the user's flags for C and for C++.
    pub(crate) c: Option<(CCompiler, CFlags)>,
    /// The object that is linked into the instrumented program.
    pub(crate) dump_object: Option<PathBuf>,
    /// Whether the linker can pad functions by a seed.
    pub(crate) pads: bool,
}

/// Flags for C and C++ in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CFlags {
    pub(crate) c: String,
    pub(crate) cxx: String,
}

impl BuildPlan {
    /// The build of one variant into its own folder.
    pub(crate) fn build(&self, request: &BuildRequest, stray: &Path, target_dir: &Path) -> Call {
        let target = &self.target;
        let mut call = Call::new(format!("build-{}", request.variant), &self.cargo, &target.manifest_dir)
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
        // With a named target, build scripts and procedural macros get none of the flags: they would write profiles during the build.
        call = call
            .args(["--target", &self.triple])
            .arg("--target-dir")
            .arg(target_dir)
            .arg("--message-format=json-render-diagnostics")
            .env("RUSTC", &self.rustc)
            .env_remove("LLVM_PROFILE_FILE");
        let mut added = target.extra_rustflags.clone();
        added.extend(rustflags(request, stray, self.dump_object.as_deref(), self.pads));
        if request.guide.counts() && self.dump_object.is_some() && self.triple.contains("-musl") {
            // It comes after the static C library, of which the linker takes only what was requested before.
            added.push("-Clink-arg=-lc".to_owned());
        }
        self.with_c(self.route.apply(call, &self.triple, &added), request)
    }

    /// Links a one-line program like the target, by a linker that must know how to pad functions: Cargo's configuration is that of the
    /// target's folder.
    pub(crate) fn trial_of_padding(&self, manifest: &Path, target_dir: &Path) -> Call {
        let call = Call::new("ask-padding", &self.cargo, &self.target.manifest_dir)
            .limit(TRIAL_LIMIT)
            .args(["build", "--offline", "--target", &self.triple, "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(target_dir)
            .env("RUSTC", &self.rustc);
        let mut flags = self.target.extra_rustflags.clone();
        flags.push(format!("-Clink-arg=-Wl,{PADDING}=1"));
        self.route.apply(call, &self.triple, &flags)
    }

    fn with_c(&self, mut call: Call, request: &BuildRequest) -> Call {
        let Some((compiler, flags)) = &self.c else {
            return call;
        };
        let added = c_flags(request);
        call = self.with_language(call, "CC", "CFLAGS", &compiler.clang, &join(&flags.c, &added));
        if let Some(clangxx) = &compiler.clangxx {
            call = self.with_language(call, "CXX", "CXXFLAGS", clangxx, &join(&flags.cxx, &added));
        }
        call
    }

    fn with_language(&self, call: Call, compiler: &str, flags: &str, program: &Path, value: &str) -> Call {
        let call = self.with_setting(call, compiler, program.as_os_str().to_owned());
        // No flags: the user has set none either, so nothing is hidden.
        if value.is_empty() { call } else { self.with_setting(call, flags, value.into()) }
    }

    /// The name with dashes would override the one with underscores, so it is hidden.
    fn with_setting(&self, call: Call, name: &str, value: OsString) -> Call {
        let underscored = self.triple.replace(['-', '.'], "_");
        call.env_remove(format!("{name}_{}", self.triple)).env(format!("{name}_{underscored}"), value)
    }
}

fn join(own: &str, added: &str) -> String {
    format!("{} {}", own.trim(), added).trim().to_owned()
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
            dump_object: None,
            pads: false,
        }
    }

    fn check(plan: &BuildPlan, request: &BuildRequest, expected: &str) {
        let call = plan.build(request, Path::new("/w/stray"), Path::new("/w/t"));
        let line = call.to_string().replace('\u{1f}', "|");
        assert_eq!(line, expected.replace("\n", " "));
    }

    fn shaped(profile: &str) -> BuildRequest {
        BuildRequest::plain("pgo").guided(Guide::Use(profile.into()))
    }

    #[test]
    fn the_plain_builds() {
        check(
            &plan(),
            &BuildRequest::plain("baseline"),
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
            &shaped("/w/a b.profdata"),
            "cd /src && env -u LLVM_PROFILE_FILE -u RUSTFLAGS RUSTC=/rust/rustc\n\
             CARGO_ENCODED_RUSTFLAGS='-Ctarget-cpu=native|-Cprofile-use=/w/a b.profdata|-Cllvm-args=-no-pgo-warn-mismatch-comdat-weak=false -pgo-warn-missing-function'\n\
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
        check(&plan, &BuildRequest::plain("baseline"), &with("", "-DX"));
        check(
            &plan,
            &BuildRequest::plain("instrumented").guided(Guide::Generate),
            &with(
                "\n--config 'target.x86_64-unknown-linux-gnu.rustflags=[\"-Cprofile-generate=/w/stray\"]'",
                "'-DX -fprofile-generate'",
            ),
        );
        let optimized = plan.build(&shaped("/w/p"), Path::new("/w/stray"), Path::new("/w/t"));
        assert!(optimized.to_string().contains("'-DX -fprofile-use=/w/p -Wno-profile-instr-unprofiled -mllvm -no-pgo-warn-mismatch-comdat-weak=false'"));
    }

    #[test]
    fn wishes_become_flags_of_every_language() {
        let mut plan = plan();
        let compiler = CCompiler { clang: "/usr/bin/clang-22".into(), clangxx: None };
        plan.c = Some((compiler, CFlags::default()));
        plan.pads = true;
        let request = BuildRequest::plain("x").with_relocs().without_jump_tables().seeded(6);
        let line = plan.build(&request, Path::new("/w/stray"), Path::new("/w/t")).to_string();
        let line = line.replace('\u{1f}', "|");
        let rust = "CARGO_ENCODED_RUSTFLAGS='-Cjump-tables=no|-Clink-arg=-Wl,--emit-relocs|-Cstrip=none|\
                    -Clink-arg=-Wl,--shuffle-sections=.text*=7|-Clink-arg=-Wl,--randomize-section-padding=7'";
        assert!(line.contains(rust), "{line}");
        assert!(line.contains("CFLAGS_x86_64_unknown_linux_gnu=-fno-jump-tables "), "{line}");
    }

    #[test]
    fn only_the_counting_program_gets_the_dump_object() {
        let plan = BuildPlan { dump_object: Some("/w/aids/d.o".into()), ..plan() };
        let line = |request: &BuildRequest| {
            plan.build(request, Path::new("/w/stray"), Path::new("/w/t")).to_string()
        };
        let counting = line(&BuildRequest::plain("instrumented").guided(Guide::Generate));
        assert!(counting.contains("-Clink-arg=/w/aids/d.o"), "{counting}");
        for request in [BuildRequest::plain("baseline"), shaped("/w/p")] {
            assert!(!line(&request).contains("/w/aids"), "{request:?}");
        }
    }
}
