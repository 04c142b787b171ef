//! The calls of `go`, as values. This module reads nothing from the system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_tool::Call;

use super::target::GoTarget;

/// With a profile, Go recompiles every package, its own ones too.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// The linker's seed is a signed number.
const LARGEST_SEED: u64 = i64::MAX as u64 - 1;

/// The source of a build's profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From<'a> {
    /// None.
    Off,
    /// This file.
    File(&'a Path),
    /// `default.pgo` in the main package's folder, if there is one.
    Auto,
}

impl From<'_> {
    fn flag(&self) -> OsString {
        let mut flag = OsString::from("-pgo=");
        flag.push(match self {
            Self::Off => "off".as_ref(),
            Self::File(path) => path.as_os_str(),
            Self::Auto => "auto".as_ref(),
        });
        flag
    }
}

/// The calls for one target.
#[derive(Debug, Clone)]
pub(super) struct GoPlan {
    pub(super) go: PathBuf,
    pub(super) target: GoTarget,
}

impl GoPlan {
    fn call(&self, step: &str, verb: &str) -> Call {
        Call::new(step, &self.go, &self.target.module_dir).limit(BUILD_LIMIT).arg(verb)
    }

    fn with_flags(&self, mut call: Call, link_seed: Option<u64>) -> Call {
        if !self.target.tags.is_empty() {
            call = call.arg("-tags").arg(self.target.tags.join(","));
        }
        // The linker takes 0 for no seed.
        let shuffle = link_seed.map(|seed| format!("-randlayout={}", 1 + seed % LARGEST_SEED));
        let ldflags: Vec<&str> = self.target.ldflags.iter().chain(&shuffle).map(String::as_str).collect();
        if !ldflags.is_empty() {
            call = call.arg(format!("-ldflags={}", ldflags.join(" ")));
        }
        if self.target.trimpath {
            call = call.arg("-trimpath");
        }
        call.args(&self.target.extra_flags)
    }

    pub(super) fn build(
        &self,
        variant: &str,
        from: &From<'_>,
        link_seed: Option<u64>,
        output: &Path,
    ) -> Call {
        let call = self.call(&format!("go-build-{variant}"), "build").arg("-v").arg(from.flag());
        self.with_flags(call, link_seed).arg("-o").arg(output).arg(&self.target.package).produces(output)
    }

    /// The same build once more, only for the compiler's messages about the profile in the module's own packages.
    pub(super) fn explain(&self, profile: &Path, module: &str, output: &Path) -> Call {
        let call = self.call("go-explain", "build").arg(From::File(profile).flag());
        let call = call.arg(format!("-gcflags={module}/...=-m -d=pgodebug=1"));
        self.with_flags(call, None).arg("-o").arg(output).arg(&self.target.package).produces(output)
    }

    pub(super) fn settings(&self, binary: &Path) -> Call {
        self.call("go-build-settings", "version").arg("-m").arg(binary)
    }

    pub(super) fn main_package(&self) -> Call {
        let call = self.call("go-list-main", "list").arg("-json=ImportPath,Name,Dir,Module");
        self.with_tags(call).arg(&self.target.package)
    }

    pub(super) fn packages(&self) -> Call {
        let call = self.call("go-list-deps", "list").arg("-deps");
        let call = call.arg("-json=ImportPath,Name,Dir,Module,CgoFiles,SFiles");
        self.with_tags(call).arg(&self.target.package)
    }

    fn with_tags(&self, call: Call) -> Call {
        match self.target.tags.is_empty() {
            true => call,
            false => call.arg("-tags").arg(self.target.tags.join(",")),
        }
    }

    /// The test program of a package: built once, started often. It requires no output file: a package without tests has none.
    pub(super) fn test_program(&self, package: &str, from: &From<'_>, output: &Path) -> Call {
        let call = self.call("go-test-build", "test").arg("-c").arg(from.flag());
        self.with_flags(call, None).arg("-o").arg(output).arg(package)
    }

    pub(super) fn listed(&self, patterns: &[String]) -> Call {
        let call = self.call("go-list-tests", "list").arg("-json=ImportPath,Name,Dir,Module");
        self.with_tags(call).args(patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_can_be_pasted() {
        let mut target = GoTarget::new("/w", "./cmd/x");
        let check = |target: &GoTarget, from: &From<'_>, seed: Option<u64>, line: &str| {
            let plan = GoPlan { go: "/go/bin/go".into(), target: target.clone() };
            assert_eq!(plan.build("pgo", from, seed, Path::new("/o/x")).to_string(), line);
        };
        check(&target, &From::Off, None, "cd /w && /go/bin/go build -v -pgo=off -o /o/x ./cmd/x");
        check(
            &target,
            &From::Off,
            Some(6),
            "cd /w && /go/bin/go build -v -pgo=off -ldflags=-randlayout=7 -o /o/x ./cmd/x",
        );
        target.tags = vec!["a".into(), "b".into()];
        target.ldflags = Some("-s -w".into());
        target.trimpath = true;
        check(
            &target,
            &From::File(Path::new("/p/1.pgo")),
            Some(0),
            "cd /w && /go/bin/go build -v -pgo=/p/1.pgo -tags a,b '-ldflags=-s -w -randlayout=1' -trimpath -o /o/x ./cmd/x",
        );
    }
}
