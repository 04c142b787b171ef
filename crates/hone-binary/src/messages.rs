//! Parses `cargo build --message-format=json`: the program's path, our own crates, and code of other languages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Code of another language that a package's build script compiled and linked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeCode {
    /// The package.
    pub package: String,
    /// Static libraries, without `lib` and `.a`.
    pub libraries: Vec<String>,
    /// Possible folders of these libraries' archives; not all exist.
    pub archives: Vec<PathBuf>,
    /// Output files of the build script and its compilers; not all exist.
    pub logs: Vec<PathBuf>,
}

/// Summary of a build's messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Messages {
    /// The requested program.
    pub(crate) executable: Option<PathBuf>,
    /// Whether Cargo found it up to date and built nothing.
    pub(crate) fresh: bool,
    /// Crates that were compiled.
    pub(crate) compiled: u32,
    /// Crates that Cargo found up to date.
    pub(crate) up_to_date: u32,
    /// Crates with sources on this machine, as they appear in symbols.
    pub(crate) own_crates: BTreeSet<String>,
    /// Packages that link static libraries of other languages.
    pub(crate) native: Vec<NativeCode>,
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        package_id: String,
        target: Target,
        executable: Option<PathBuf>,
        #[serde(default)]
        fresh: bool,
    },
    BuildScriptExecuted {
        package_id: String,
        linked_libs: Vec<String>,
        linked_paths: Vec<String>,
        out_dir: PathBuf,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Parses the messages, one per line. Other lines (a build may print anything) are skipped.
pub(crate) fn parse(output: &[u8], bin: &str) -> Messages {
    let mut found = Messages::default();
    for line in output.split(|&byte| byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Message::CompilerArtifact { package_id, target, executable, fresh }) => {
                found.add_artifact(&package_id, &target, executable, fresh, bin);
            }
            Ok(Message::BuildScriptExecuted { package_id, linked_libs, linked_paths, out_dir }) => {
                found.native.extend(native_code(&package_id, &linked_libs, &linked_paths, &out_dir));
            }
            Ok(Message::Other) | Err(_) => {}
        }
    }
    found
}

impl Messages {
    fn add_artifact(&mut self, package: &str, target: &Target, exe: Option<PathBuf>, fresh: bool, bin: &str) {
        let counter = if fresh { &mut self.up_to_date } else { &mut self.compiled };
        *counter += 1;
        let is = |kind: &str| target.kind.iter().any(|found| found == kind);
        if is("bin") && target.name == bin && exe.is_some() {
            self.executable = exe;
            self.fresh = fresh;
        }
        if package.contains("path+file:") && !is("custom-build") && !is("proc-macro") {
            self.own_crates.insert(target.name.replace('-', "_"));
        }
    }
}

fn native_code(package_id: &str, libs: &[String], paths: &[String], out_dir: &Path) -> Option<NativeCode> {
    // `static=z`, and with modifiers `static:+whole-archive=z`.
    let libraries: Vec<String> = libs
        .iter()
        .filter_map(|lib| lib.split_once('='))
        .filter(|(kind, _)| kind.split(':').next() == Some("static"))
        .map(|(_, name)| name.to_owned())
        .collect();
    if libraries.is_empty() {
        return None;
    }
    // `native=DIR`, `all=DIR`, or only `DIR`.
    let folders = paths.iter().map(|path| match path.split_once('=') {
        Some((kind, folder)) if !kind.contains('/') => Path::new(folder),
        _ => Path::new(path),
    });
    let archives = folders
        .flat_map(|folder| libraries.iter().map(move |library| folder.join(format!("lib{library}.a"))))
        .collect();
    let script_dir = out_dir.parent().unwrap_or(out_dir);
    let logs = ["stderr", "output"].map(|name| script_dir.join(name)).to_vec();
    Some(NativeCode { package: package_name(package_id), libraries, archives, logs })
}

/// The name in a package id: `registry+URL#name@1.2.3`, `path+file:///dir/name#1.2.3`, or the older `name 1.2.3 (URL)`.
fn package_name(id: &str) -> String {
    let name = match id.rsplit_once('#') {
        Some((_, fragment)) if fragment.contains('@') => fragment.split('@').next(),
        Some((source, _)) => source.rsplit('/').next(),
        None => id.split(' ').next(),
    };
    name.unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_build_is_read_from_its_messages() {
        let json = include_bytes!("../tests/fixtures/cargo-messages.json");
        let found = parse(json, "zs");
        assert_eq!(found.executable.unwrap(), Path::new("/src/zs/t-gen/x86_64-unknown-linux-gnu/release/zs"));
        assert_eq!((found.fresh, found.compiled, found.up_to_date), (false, 13, 0));
        assert_eq!(found.own_crates, BTreeSet::from(["zs".to_owned()]));
        let [native] = found.native.as_slice() else { panic!("{:?}", found.native) };
        assert_eq!(
            (native.package.as_str(), native.libraries.as_slice()),
            ("zstd-sys", ["zstd".to_owned()].as_slice())
        );
        let script_dir =
            Path::new("/src/zs/t-gen/x86_64-unknown-linux-gnu/release/build/zstd-sys-788101b6a1079c1b");
        assert_eq!(native.archives, [script_dir.join("out/libzstd.a")]);
        assert_eq!(native.logs, [script_dir.join("stderr"), script_dir.join("output")]);
        assert_eq!(parse(json, "other").executable, None);
    }

    #[test]
    fn package_ids_of_all_ages() {
        let check = |id, name: &str| assert_eq!(package_name(id), name);
        check("registry+https://example.org/index#zstd-sys@2.1.2+zstd.1.5.7", "zstd-sys");
        check("path+file:///w/tiny-server#0.1.0", "tiny-server");
        check("path+file:///w/tiny#tiny-server@0.1.0", "tiny-server");
        check("zstd-sys 2.0.1 (registry+https://example.org/index)", "zstd-sys");
        check("", "");
    }

    #[test]
    fn only_static_libraries_count() {
        let libs = ["static:+whole-archive=a", "dylib=b", "c", "static=d"].map(str::to_owned);
        let paths = ["native=/n", "/plain", "/odd=folder"].map(str::to_owned);
        let code = native_code("p 1 (x)", &libs, &paths, Path::new("/b/out")).unwrap();
        assert_eq!(code.libraries, ["a", "d"]);
        assert_eq!(code.archives[4..], [PathBuf::from("/odd=folder/liba.a"), "/odd=folder/libd.a".into()]);
        assert_eq!(native_code("p 1 (x)", &libs[1..3], &paths, Path::new("/b/out")), None);
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(bytes: Vec<u8>, text in r#"(\{"reason":"[a-z-]*",?|"target":\{|[\[\]{}",:\n]|x){0,40}"#) {
            parse(&bytes, "x");
            parse(text.as_bytes(), "x");
        }

        #[test]
        fn no_package_id_makes_it_panic(id in "[#@/ a+:]{0,20}") {
            package_name(&id);
        }
    }
}
