//! The modules of a crate, and which file uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::source::{Source, Tokens};

/// The sources of a crate, and the uses between its files.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) files: Vec<File>,
    /// For each pair of files, from and to, the paths in the first that lead to the second.
    pub(crate) uses: BTreeMap<(usize, usize), Vec<Use>>,
}

pub(crate) struct File {
    /// Below the root of the workspace.
    pub(crate) path: String,
    pub(crate) source: Source,
    /// False for the files of tests and fuzzers, which no `mod` of the product declares.
    pub(crate) is_production: bool,
}

/// One path in the code, and its line.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// A module with a file of its own, or an inline module.
struct Module {
    file: usize,
    root: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names that `use` brings in, with the path of each.
    names: BTreeMap<String, Vec<String>>,
    /// The paths before `::*`.
    globs: Vec<Vec<String>>,
    /// The folder in which the files of its children are.
    folder: PathBuf,
}

/// A statement that names modules. `inner` lists the inline modules around it.
enum Statement {
    Declared { inner: Vec<String>, name: String, path: Option<String> },
    Opened { inner: Vec<String>, name: String },
    Imported { inner: Vec<String>, path: Vec<String>, name: Option<String>, offset: usize },
    Mentioned { inner: Vec<String>, path: Vec<String>, offset: usize },
}

/// The limit for aliases of aliases. More of them can only be a circle of names.
const HOPS: usize = 8;

impl Crate {
    /// The crate in this folder, with its files named from `root`.
    pub(crate) fn read(root: &Path, folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut paths = rust_files(&folder.join("src"));
        // By their text, so that a module stands before its children.
        paths.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        let files = paths.iter().map(|path| File {
            path: path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned(),
            source: Source::new(fs::read_to_string(path).unwrap_or_default()),
            is_production: false,
        });
        let mut files: Vec<File> = files.collect();
        let mut tree = Tree::new(&paths, &files, &name, folder);
        tree.import();
        let uses = tree.uses();
        let reached: BTreeSet<usize> = tree.modules.iter().map(|module| module.file).collect();
        reached.into_iter().for_each(|file| files[file].is_production = true);
        Self { name, files, uses }
    }

    pub(crate) fn lines(&self) -> usize {
        self.files.iter().map(|file| file.source.lines()).sum()
    }

    pub(crate) fn production_lines(&self) -> usize {
        let production = self.files.iter().filter(|file| file.is_production);
        production.map(|file| file.source.production_lines()).sum()
    }
}

pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => rust_files(&path),
            Some(extension) if extension == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

struct Tree<'a> {
    modules: Vec<Module>,
    /// Each statement with the module of the file that holds it.
    statements: Vec<(usize, Statement)>,
    by_path: BTreeMap<&'a Path, usize>,
    files: &'a [File],
    /// The library's name in the package's programs, and its root module.
    library: Option<(String, usize)>,
}

impl<'a> Tree<'a> {
    fn new(paths: &'a [PathBuf], files: &'a [File], name: &str, folder: &Path) -> Self {
        let by_path = paths.iter().enumerate().map(|(index, path)| (path.as_path(), index)).collect();
        let mut tree = Self { modules: Vec::new(), statements: Vec::new(), by_path, files, library: None };
        let source = folder.join("src");
        if let Some(root) = tree.add_root(&source.join("lib.rs")) {
            tree.library = Some((name.replace('-', "_"), root));
        }
        tree.add_root(&source.join("main.rs"));
        let programs = paths.iter().filter(|path| is_program(path, &source.join("bin")));
        programs.for_each(|path| {
            tree.add_root(path);
        });
        tree
    }

    fn add_root(&mut self, path: &Path) -> Option<usize> {
        let file = *self.by_path.get(path)?;
        let folder = path.parent().unwrap_or(path).to_owned();
        Some(self.add_file(file, None, folder))
    }

    fn add(&mut self, file: usize, parent: Option<usize>, folder: PathBuf) -> usize {
        let index = self.modules.len();
        let root = parent.map_or(index, |parent| self.modules[parent].root);
        let (children, names) = (BTreeMap::new(), BTreeMap::new());
        self.modules.push(Module { file, root, parent, children, names, globs: Vec::new(), folder });
        index
    }

    /// The module of this file, with all that it declares.
    fn add_file(&mut self, file: usize, parent: Option<usize>, folder: PathBuf) -> usize {
        let module = self.add(file, parent, folder);
        let files = self.files;
        for statement in statements(&files[file].source) {
            match &statement {
                Statement::Opened { inner, name } => self.open(module, inner, name),
                Statement::Declared { inner, name, path } => {
                    self.declare(module, inner, name, path.as_deref());
                }
                Statement::Imported { .. } | Statement::Mentioned { .. } => {
                    self.statements.push((module, statement));
                }
            }
        }
        module
    }

    fn open(&mut self, module: usize, inner: &[String], name: &str) {
        let parent = self.inner(module, inner);
        let (file, folder) = (self.modules[parent].file, self.modules[parent].folder.join(name));
        let child = self.add(file, Some(parent), folder);
        self.modules[parent].children.insert(name.to_owned(), child);
    }

    fn declare(&mut self, module: usize, inner: &[String], name: &str, path: Option<&str>) {
        let parent = self.inner(module, inner);
        let folder = &self.modules[parent].folder;
        let places = match path {
            Some(path) => vec![self.beside(module).join(path)],
            None => vec![folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")],
        };
        let Some((file, below)) = places.iter().find_map(|place| {
            let file = *self.by_path.get(place.as_path())?;
            Some((file, children_folder(place)))
        }) else {
            return;
        };
        if self.is_above(parent, file) {
            return;
        }
        let child = self.add_file(file, Some(parent), below);
        self.modules[parent].children.insert(name.to_owned(), child);
    }

    /// True for a file that holds this module or one above it: a `#[path]` to it would never end.
    fn is_above(&self, module: usize, file: usize) -> bool {
        let mut at = Some(module);
        while let Some(index) = at {
            if self.modules[index].file == file {
                return true;
            }
            at = self.modules[index].parent;
        }
        false
    }

    /// The folder of the module's file, from which `#[path]` counts.
    fn beside(&self, module: usize) -> PathBuf {
        let file = self.modules[module].file;
        let path = self.by_path.iter().find(|(_, index)| **index == file).map(|(path, _)| *path);
        path.and_then(Path::parent).unwrap_or(Path::new("")).to_owned()
    }

    /// The inline module with these names, seen from the module of the file.
    fn inner(&self, module: usize, inner: &[String]) -> usize {
        inner.iter().fold(module, |at, name| self.modules[at].children.get(name).copied().unwrap_or(at))
    }

    /// Records the names that each `use` brings in. Call this once all modules are known.
    fn import(&mut self) {
        let statements = std::mem::take(&mut self.statements);
        for (module, statement) in &statements {
            let Statement::Imported { inner, path, name, .. } = statement else { continue };
            let module = self.inner(*module, inner);
            match name {
                Some(name) => drop(self.modules[module].names.insert(name.clone(), path.clone())),
                None => self.modules[module].globs.push(path.clone()),
            }
        }
        self.statements = statements;
    }

    fn uses(&self) -> BTreeMap<(usize, usize), Vec<Use>> {
        let mut uses: BTreeMap<(usize, usize), Vec<Use>> = BTreeMap::new();
        for (module, statement) in &self.statements {
            let (Statement::Imported { inner, path, offset, .. }
            | Statement::Mentioned { inner, path, offset }) = statement
            else {
                continue;
            };
            let from = self.inner(*module, inner);
            let Some((to, _)) = self.resolved(from, path, HOPS) else { continue };
            let (from, to) = (self.modules[from].file, self.modules[to].file);
            if from != to {
                let line = self.files[from].source.line(*offset);
                uses.entry((from, to)).or_default().push(Use { path: path.join("::"), line });
            }
        }
        uses
    }

    /// The deepest module on this path, and whether the path ends with it.
    fn resolved(&self, from: usize, path: &[String], hops: usize) -> Option<(usize, bool)> {
        let (first, mut rest) = path.split_first()?;
        let (mut at, is_module) = self.start(from, first, hops)?;
        if !is_module {
            return Some((at, false));
        }
        while let Some((name, after)) = rest.split_first() {
            let next = if name == "super" { self.modules[at].parent } else { self.child(at, name) };
            let Some(next) = next else { return Some((at, false)) };
            (at, rest) = (next, after);
        }
        Some((at, true))
    }

    fn child(&self, module: usize, name: &str) -> Option<usize> {
        if name == "self" { Some(module) } else { self.modules[module].children.get(name).copied() }
    }

    /// The module that the first name of a path leads to, and whether the name is that of a module. An item's
    /// name leads to the module that holds the item.
    fn start(&self, from: usize, name: &str, hops: usize) -> Option<(usize, bool)> {
        let module = &self.modules[from];
        match name {
            "crate" => return Some((module.root, true)),
            "self" => return Some((from, true)),
            "super" => return module.parent.map(|parent| (parent, true)),
            _ => {}
        }
        if let Some(child) = module.children.get(name) {
            return Some((*child, true));
        }
        let hops = hops.checked_sub(1)?;
        if let Some(path) = module.names.get(name) {
            return self.resolved(from, path, hops);
        }
        let globs = module.globs.iter().filter_map(|path| self.resolved(from, path, hops));
        let mut seen = globs.filter(|(glob, is_module)| *is_module && *glob != from);
        let through = seen.find_map(|(glob, _)| {
            let child = self.modules[glob].children.get(name).map(|child| (*child, true));
            child.or_else(|| self.resolved(glob, self.modules[glob].names.get(name)?, hops))
        });
        through.or_else(|| {
            let (library, root) = self.library.as_ref()?;
            (library == name).then_some((*root, true))
        })
    }
}

/// A file of `src/bin`, or the main file of a folder there.
fn is_program(path: &Path, folder: &Path) -> bool {
    let parent = path.parent().unwrap_or(path);
    parent == folder || (parent.parent() == Some(folder) && path.ends_with("main.rs"))
}

/// Where the children of the module in this file are.
fn children_folder(path: &Path) -> PathBuf {
    if path.ends_with("mod.rs") { path.parent().unwrap_or(path).to_owned() } else { path.with_extension("") }
}

fn statements(source: &Source) -> Vec<Statement> {
    let mut reader = Reader::new(source);
    while reader.at < reader.tokens.len() {
        reader.step();
    }
    reader.statements
}

struct Reader<'a> {
    source: &'a Source,
    tokens: Tokens<'a>,
    at: usize,
    depth: usize,
    /// The open inline modules, each with the brace depth outside it.
    inner: Vec<(String, usize)>,
    /// The value of the last `#[path = "…"]`.
    path: Option<String>,
    statements: Vec<Statement>,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source) -> Self {
        let (inner, statements) = (Vec::new(), Vec::new());
        Self { source, tokens: source.production(), at: 0, depth: 0, inner, path: None, statements }
    }

    fn word(&self, ahead: usize) -> &'a str {
        self.tokens.word(self.at + ahead)
    }

    fn names(&self) -> Vec<String> {
        self.inner.iter().map(|(name, _)| name.clone()).collect()
    }

    fn step(&mut self) {
        match self.word(0) {
            "{" => self.depth += 1,
            "}" => self.close(),
            "#" if self.word(1) == "[" && self.word(2) == "path" => self.read_path(),
            "mod" if self.tokens.is_name(self.at + 1) => return self.read_module(),
            // `use<'a>` is no import.
            "use" if self.word(1) != "<" => return self.read_import(),
            "pub" if self.is_visibility() => return self.at = self.tokens.closed(self.at + 1),
            _ if self.begins_path() => return self.read_mention(),
            _ => {}
        }
        self.at += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.inner.last().is_some_and(|(_, outside)| *outside == self.depth) {
            self.inner.pop();
        }
    }

    fn read_path(&mut self) {
        let end = self.tokens.closed(self.at + 1).saturating_sub(1);
        let text = self.source.original(self.tokens.span(self.at + 3).end..self.tokens.span(end).start);
        self.path = Some(text.trim().trim_matches('"').to_owned());
    }

    fn read_module(&mut self) {
        let (name, inner) = (self.word(1).to_owned(), self.names());
        match self.word(2) {
            ";" => {
                let path = self.path.take();
                self.statements.push(Statement::Declared { inner, name, path });
            }
            "{" => {
                self.statements.push(Statement::Opened { inner, name: name.clone() });
                self.inner.push((name, self.depth));
                self.depth += 1;
            }
            _ => {}
        }
        self.at += 3;
    }

    fn read_import(&mut self) {
        self.at += 1;
        // `use ::name` can only be another crate.
        if self.word(0) != "::" {
            self.read_group(&mut Vec::new());
        }
        while self.at < self.tokens.len() && self.word(0) != ";" {
            self.at += 1;
        }
    }

    /// Reads one tree of a `use`: a path, with whatever is in braces at its end.
    fn read_group(&mut self, path: &mut Vec<String>) {
        let (before, offset) = (path.len(), self.tokens.span(self.at).start);
        loop {
            match self.word(0) {
                "{" => {
                    self.read_braces(path);
                    break;
                }
                "*" => {
                    self.at += 1;
                    self.push_import(path.clone(), None, offset);
                    break;
                }
                _ if self.tokens.is_name(self.at) => path.push(self.word(0).to_owned()),
                _ => break,
            }
            self.at += 1;
            if self.word(0) != "::" {
                self.read_leaf(path, offset);
                break;
            }
            self.at += 1;
        }
        path.truncate(before);
    }

    fn read_braces(&mut self, path: &mut Vec<String>) {
        self.at += 1;
        while self.at < self.tokens.len() && !matches!(self.word(0), "}" | ";") {
            self.read_group(path);
            // Skips a token that is no part of a path, so that the loop always ends.
            if !matches!(self.word(0), "}" | ";") {
                self.at += 1;
            }
        }
        if self.word(0) == "}" {
            self.at += 1;
        }
    }

    fn read_leaf(&mut self, path: &[String], offset: usize) {
        let mut path = path.to_vec();
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.word(0) == "as" {
            name = self.word(1).to_owned();
            self.at += 2;
        }
        self.push_import(path, Some(name), offset);
    }

    fn push_import(&mut self, path: Vec<String>, name: Option<String>, offset: usize) {
        let inner = self.names();
        self.statements.push(Statement::Imported { inner, path, name, offset });
    }

    /// `pub(crate)` and `pub(in some::path)` are no uses.
    fn is_visibility(&self) -> bool {
        self.word(1) == "(" && (self.word(2) == "in" || self.word(3) == ")")
    }

    /// True at the first name of a path. A method call is no path, but a path may follow the dots of a range.
    fn begins_path(&self) -> bool {
        let before = self.tokens.before(self.at);
        let is_method = before == "." && self.tokens.before(self.at - 1) != ".";
        self.tokens.is_name(self.at) && self.word(1) == "::" && before != "::" && !is_method
    }

    fn read_mention(&mut self) {
        let offset = self.tokens.span(self.at).start;
        let mut path = vec![self.word(0).to_owned()];
        self.at += 1;
        while self.word(0) == "::" && self.tokens.is_name(self.at + 1) {
            path.push(self.word(1).to_owned());
            self.at += 2;
        }
        self.statements.push(Statement::Mentioned { inner: self.names(), path, offset });
    }
}
