//! Sources outside a target's tree that manifests name by a path. Hone parses the files itself, because a tool might fetch packages or
//! write a lock file. Hone ignores an unreadable manifest: the build reports it better.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hone_binary::recipe::is_no_source;

use super::asked::workspace;

/// Packages and files that the manifests of a workspace name, directly or indirectly.
pub(super) fn of_cargo(root: &Path) -> BTreeSet<PathBuf> {
    let Ok(root) = root.canonicalize() else { return BTreeSet::new() };
    let mut found = Found { root: root.clone(), all: BTreeSet::new() };
    let mut waiting: Vec<PathBuf> = by_settings(&root).iter().filter_map(|path| found.add(path)).collect();
    waiting.push(root);
    while let Some(folder) = waiting.pop() {
        let mut manifests = Vec::new();
        manifests_in(&folder, &mut manifests);
        // A package inherits its dependencies from there.
        manifests.push(workspace(&folder).join("Cargo.toml"));
        for manifest in manifests {
            let text = fs::read_to_string(&manifest).unwrap_or_default();
            let table = toml::from_str::<toml::Table>(&text).unwrap_or_default();
            let mut paths = members(&table);
            paths_in(&table, &mut paths);
            let beside = manifest.parent().unwrap_or(&manifest);
            waiting.extend(paths.iter().filter_map(|path| found.add(&beside.join(path))));
        }
    }
    found.all
}

/// Replacements of packages by the Cargo settings of the tree and its parent folders: `paths`, and patches.
fn by_settings(root: &Path) -> Vec<PathBuf> {
    let of = |folder: &Path| {
        // If both files exist, Cargo reads the one without an extension.
        let text = ["config", "config.toml"]
            .iter()
            .find_map(|name| fs::read_to_string(folder.join(".cargo").join(name)).ok())?;
        let table = toml::from_str::<toml::Table>(&text).ok()?;
        let mut paths = strings(table.get("paths"));
        if let Some(patches) = table.get("patch").and_then(toml::Value::as_table) {
            paths_in(patches, &mut paths);
        }
        Some(paths.iter().map(|path| folder.join(path)).collect::<Vec<_>>())
    };
    root.ancestors().filter_map(of).flatten().collect()
}

/// Members of a workspace. For a pattern, the folder before it.
fn members(manifest: &toml::Table) -> Vec<PathBuf> {
    let named = strings(manifest.get("workspace").and_then(|workspace| workspace.get("members")));
    let plain = |path: PathBuf| {
        let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
        path.components().take_while(is_plain).collect()
    };
    named.into_iter().map(plain).collect()
}

fn strings(value: Option<&toml::Value>) -> Vec<PathBuf> {
    let values = value.and_then(toml::Value::as_array).into_iter().flatten();
    values.filter_map(toml::Value::as_str).map(PathBuf::from).collect()
}

/// Modules that `replace` and `go.work` name.
pub(super) fn of_go(module: &Path, go_work: Option<&OsStr>) -> BTreeSet<PathBuf> {
    let Ok(root) = module.canonicalize() else { return BTreeSet::new() };
    let work = match go_work.filter(|named| !named.is_empty()) {
        Some(named) => Some(PathBuf::from(named)).filter(|path| path.is_file()),
        None => root.ancestors().map(|folder| folder.join("go.work")).find(|path| path.is_file()),
    };
    let mut files = vec![root.join("go.mod")];
    if let Some(work) = &work {
        files.extend(used_by(work).iter().map(|module| module.join("go.mod")));
        files.push(work.clone());
    }
    let mut found = Found { root, all: BTreeSet::new() };
    for file in &files {
        let beside = file.parent().unwrap_or(file);
        // Unrelated files may be next to the workspace's own file.
        found.add(if Some(file) == work.as_ref() { file } else { beside });
        for line in behind(file, "replace") {
            let by = line.split_once("=>").and_then(|(_, by)| first_word(by));
            if let Some(by) = by.filter(|by| by.starts_with(['.', '/'])) {
                found.add(&beside.join(by));
            }
        }
    }
    found.all
}

/// The folders of a workspace's modules.
fn used_by(work: &Path) -> Vec<PathBuf> {
    let beside = work.parent().unwrap_or(work);
    let used = behind(work, "use");
    used.iter().filter_map(|line| beside.join(first_word(line)?).canonicalize().ok()).collect()
}

fn first_word(text: &str) -> Option<&str> {
    text.split_whitespace().next().map(|word| word.trim_matches(['"', '`']))
}

/// The arguments of a verb's lines, each alone or in a block.
fn behind(file: &Path, verb: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let (mut found, mut is_inside) = (Vec::new(), false);
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        let behind = line.strip_prefix(verb).filter(|rest| rest.starts_with([' ', '\t', '(']));
        let words = match behind.map(str::trim) {
            Some("(") => {
                is_inside = true;
                None
            }
            Some(words) => Some(words),
            None if line == ")" => {
                is_inside = false;
                None
            }
            None => is_inside.then_some(line),
        };
        found.extend(words.map(str::to_owned));
    }
    found
}

/// Paths outside of a tree, each once.
struct Found {
    root: PathBuf,
    all: BTreeSet<PathBuf>,
}

impl Found {
    /// Adds what exists and is not inside a known path; returns the folder if it is a new one.
    fn add(&mut self, path: &Path) -> Option<PathBuf> {
        let path = path.canonicalize().ok()?;
        let is_known = path.starts_with(&self.root) || self.all.iter().any(|known| path.starts_with(known));
        if is_known {
            return None;
        }
        self.all.insert(path.clone());
        path.is_dir().then_some(path)
    }
}

fn manifests_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if is_no_source(&path) {
            continue;
        }
        match kind {
            Ok(kind) if kind.is_dir() => manifests_in(&path, found),
            Ok(_) if entry.file_name() == "Cargo.toml" => found.push(path),
            _ => {}
        }
    }
}

/// Every `path` of a manifest: of dependencies in any table, of patches, of targets.
fn paths_in(table: &toml::Table, found: &mut Vec<PathBuf>) {
    found.extend(table.get("path").and_then(toml::Value::as_str).map(PathBuf::from));
    for value in table.values() {
        match value {
            toml::Value::Table(table) => paths_in(table, found),
            toml::Value::Array(values) => {
                values.iter().filter_map(toml::Value::as_table).for_each(|table| paths_in(table, found));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn of(files: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = tree.0.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }

        fn named(&self, found: &BTreeSet<PathBuf>) -> Vec<String> {
            let top = self.0.path().canonicalize().unwrap();
            let name = |path: &PathBuf| path.strip_prefix(&top).unwrap().display().to_string();
            found.iter().map(name).collect()
        }
    }

    #[test]
    fn packages_by_their_path_are_sources_of_a_workspace() {
        let tree = Tree::of(&[
            (
                "app/Cargo.toml",
                "[workspace]\nmembers = [\"a\"]\n[patch.crates-io]\nz = { path = '../patched' }",
            ),
            (
                "app/a/Cargo.toml",
                "[dependencies]\nb = { path = '../b' }\nshared = { path = '../../shared' }\nserde = '1'\n\
                 [target.'cfg(unix)'.dependencies]\nnone = { path = '../../none' }",
            ),
            ("app/b/Cargo.toml", "[package]\nname = 'b'"),
            ("app/target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55"),
            ("app/target/package/Cargo.toml", "[dependencies]\nc = { path = '../../../unused' }"),
            ("unused/Cargo.toml", ""),
            ("patched/Cargo.toml", ""),
            (
                "shared/Cargo.toml",
                "[dependencies]\ndeep = { path = '../deep' }\nback = { path = '../app/a' }",
            ),
            ("deep/Cargo.toml", "this is no manifest"),
        ]);
        let found = of_cargo(&tree.0.path().join("app"));
        assert_eq!(tree.named(&found), ["deep", "patched", "shared"]);
        assert!(of_cargo(&tree.0.path().join("nowhere")).is_empty());
    }

    #[test]
    fn members_elsewhere_and_what_settings_put_in_the_place_of_packages_are_sources() {
        let tree = Tree::of(&[
            ("top/.cargo/config.toml", "paths = ['over']\n[build]\njobs = 1"),
            ("top/app/.cargo/config.toml", "[patch.crates-io]\nz = { path = '../patched' }"),
            (
                "top/app/Cargo.toml",
                "[workspace]\nmembers = ['a', '../lib', '../many/*', '*']\ndefault-members = ['../unused']",
            ),
            ("top/over/Cargo.toml", "[dependencies]\ndeep = { path = '../deep' }"),
            ("top/patched/Cargo.toml", ""),
            ("top/deep/Cargo.toml", ""),
            ("top/lib/Cargo.toml", ""),
            ("top/many/one/Cargo.toml", ""),
            ("top/unused/Cargo.toml", ""),
        ]);
        let found = of_cargo(&tree.0.path().join("top/app"));
        assert_eq!(tree.named(&found), ["top/deep", "top/lib", "top/many", "top/over", "top/patched"]);
    }

    #[test]
    fn replaced_modules_and_those_of_the_workspace_are_sources_of_a_module() {
        let tree = Tree::of(&[
            (
                "app/go.mod",
                "module app\nreplace a.b/c => ../c // by hand\nreplace (\n\tx.y/z v1 => \"../z\"\n\tp.q/r => s.t/u v2\n)\n",
            ),
            ("c/go.mod", "module c"),
            ("z/go.mod", "module z"),
            ("lib/go.mod", "module lib\nreplace d => ../d"),
            ("d/go.mod", "module d"),
            ("go.work", "go 1.24\nuse ./app\nuse (\n\t./lib\n)\n"),
            ("elsewhere/file", ""),
        ]);
        let app = tree.0.path().join("app");
        let off = OsStr::new("off");
        assert_eq!(tree.named(&of_go(&app, Some(off))), ["c", "z"]);
        assert_eq!(tree.named(&of_go(&app, None)), ["c", "d", "go.work", "lib", "z"]);
        assert_eq!(tree.named(&of_go(&tree.0.path().join("d"), Some(off))), Vec::<String>::new());
    }
}
