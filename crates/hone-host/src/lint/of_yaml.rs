//! Host settings in common YAML files: Ansible tasks, cloud-init, Compose, Kubernetes, Talos. The code recognizes forms by their keys, at
//! any place. [`super::sweep`] finds other names of settings.

use std::collections::BTreeMap;

use super::finding::Role;
use super::piece::{Parts, Piece, PieceKind};
use super::run::LONGEST_TEXT;
use super::stated::Form;
use super::texts::{self, role_of};
use crate::yaml::{Node, Value, documents};

/// The pieces of a YAML text whose first line is `first_line` of its file.
pub(super) fn parts(
    file: &str,
    first_line: usize,
    text: &str,
    role: Role,
    others: &[(String, String)],
) -> Parts {
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(why) => {
            return Parts { unread: vec![(first_line, format!("invalid YAML: {why}"))], ..Parts::default() };
        }
    };
    let mut reader = Reader {
        file,
        shift: first_line - 1,
        role,
        others,
        variables: BTreeMap::new(),
        parts: Parts::default(),
        is_bound: false,
        void: None,
    };
    documents.iter().for_each(|document| reader.learn(document));
    // Variables of other files count as well: defaults and group_vars are separate files.
    let apart: Vec<Node> = others
        .iter()
        .filter(|(name, _)| name != file)
        .flat_map(|(_, text)| self::documents(text).unwrap_or_default())
        .collect();
    apart.iter().for_each(|document| reader.learn(document));
    documents.iter().for_each(|document| reader.visit(document, ""));
    reader.parts
}

struct Reader<'a> {
    file: &'a str,
    shift: usize,
    role: Role,
    others: &'a [(String, String)],
    variables: BTreeMap<String, Node>,
    parts: Parts,
    /// Whether the current part belongs to an unprivileged container.
    is_bound: bool,
    /// Why the current part has no effect.
    void: Option<String>,
}

/// Commands and settings of a text. Loops over long lists must not grow without end.
const MOST_PIECES: usize = 2_000;

/// The key of a module without its collection.
fn module(key: &str) -> &str {
    ["ansible.builtin.", "ansible.posix.", "ansible.legacy."]
        .iter()
        .find_map(|collection| key.strip_prefix(collection))
        .unwrap_or(key)
}

/// A Kubernetes container, or a Compose service.
fn is_container(node: &Node) -> bool {
    ["image", "build"].iter().any(|key| node.get(key).is_some())
}

/// Whether Ansible and Kubernetes read a word as true.
fn is_true(node: Option<&Node>) -> bool {
    node.and_then(Node::text)
        .is_some_and(|text| matches!(text.to_lowercase().as_str(), "true" | "yes" | "on" | "1"))
}

/// Whether a condition is never true.
fn is_false(node: Option<&Node>) -> bool {
    node.and_then(Node::text).is_some_and(|text| matches!(text.to_lowercase().as_str(), "false" | "no"))
}

/// `name=vm.swappiness value=1` as the map that Ansible makes of it.
fn entries(of: &Node) -> Node {
    let Some(text) = of.text().filter(|text| text.contains('=')) else { return of.clone() };
    let entry = |(name, value): (String, String)| (name, Node { line: of.line, value: Value::Text(value) });
    Node { line: of.line, value: Value::Map(words_of(text).into_iter().map(entry).collect()) }
}

fn is_absent(of: &Node) -> bool {
    of.get("state").and_then(Node::text) == Some("absent")
}

impl Reader<'_> {
    fn put(&mut self, line: usize, kind: PieceKind, text: impl Into<String>) {
        if self.parts.pieces.len() >= MOST_PIECES {
            let why = format!("more than {MOST_PIECES} commands and settings");
            if self.parts.unread.last().is_none_or(|(_, last)| *last != why) {
                self.unread(line, why);
            }
            return;
        }
        let piece = Piece::new(self.file, line + self.shift, kind, self.role, text);
        self.parts.pieces.push(Piece { is_bound: self.is_bound, void: self.void.clone(), ..piece });
    }

    fn unread(&mut self, line: usize, why: String) {
        self.parts.unread.push((line + self.shift, why));
    }

    /// A reference to another file. A given file is judged at its own place.
    fn other(&mut self, line: usize, file: &str, how: &str) {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        if !self.others.iter().any(|(other, _)| name(other) == name(file)) {
            self.unread(line, format!("{file} {how}: pass that file, too"));
        }
    }

    /// Lines of a task without effect.
    fn skip(&mut self, of: &Node) {
        let lines = of.line..=of.last_line();
        self.parts.followed.extend(lines.map(|line| line + self.shift));
    }

    /// Values by name: of `vars` and `set_fact`, and of files that contain only variables.
    fn learn(&mut self, node: &Node) {
        for (key, value) in node.entries() {
            if matches!(module(key), "vars" | "set_fact" | "defaults") {
                for (name, value) in value.entries() {
                    self.variables.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            self.variables.entry(key.clone()).or_insert_with(|| value.clone());
            self.learn(value);
        }
        node.list().iter().for_each(|node| self.learn(node));
    }

    fn visit(&mut self, node: &Node, parent: &str) {
        if is_false(node.get("when")) {
            return self.skip(node);
        }
        let (role, is_bound) = (self.role, self.is_bound);
        if let Some(name) = node.get("name").and_then(Node::text)
            && role_of(name) == Role::Rollback
        {
            self.role = Role::Rollback;
        }
        if is_container(node) {
            self.container(node);
        }
        for (key, value) in node.entries() {
            self.key(node, key, value, parent);
            self.visit(value, key);
        }
        node.list().iter().for_each(|node| self.visit(node, parent));
        self.role = role;
        self.is_bound = is_bound;
    }

    fn key(&mut self, task: &Node, key: &str, value: &Node, parent: &str) {
        match module(key) {
            "sysctl" => self.sysctl_task(task, &entries(value)),
            "sysctls" => self.sysctls(value, parent),
            "cmd" | "argv" if module(parent) == "command" => self.command(task, value),
            "shell" | "raw" | "cmd" => self.shell(task, value),
            "command" if !is_container(task) => self.command(task, value),
            "copy" | "template" | "blockinfile" | "lineinfile" => {
                self.file_task(task, module(key), &entries(value));
            }
            "replace" => self.replace(value),
            "ini_file" => self.ini_file(value),
            "script" | "include_tasks" | "import_tasks" | "include_vars" | "import_playbook" | "include" => {
                self.included(value);
            }
            "include_role" | "import_role" => self.role(value),
            "roles" if task.get("hosts").is_some() => value.list().iter().for_each(|role| self.role(role)),
            "synchronize" | "unarchive" => self.folder(value),
            "sysfs" if parent == "machine" => self.sysfs(value),
            "rules" if parent == "udev" => self.rules(value),
            "extraKernelArgs" | "kernelArguments" => self.kernel_arguments(value),
            "write_files" => value.list().iter().for_each(|file| self.file(file)),
            "files" if parent == "storage" => value.list().iter().for_each(|file| self.file(file)),
            "runcmd" | "bootcmd" => value.list().iter().for_each(|command| self.script(command)),
            "data" if task.get("kind").and_then(Node::text) == Some("ConfigMap") => self.texts(value),
            "profile" => self.profiles(value),
            _ => {}
        }
    }

    /// A task of the module `sysctl`, for each item of its loop.
    fn sysctl_task(&mut self, task: &Node, of: &Node) {
        let Some(name) = of.get("name").or_else(|| of.get("key")) else {
            // `sysctl: {vm.swappiness: 1}` of a node's configuration.
            return self.lines(of.entries());
        };
        if is_absent(of) {
            return self.skip(of);
        }
        let target = of.get("sysctl_file").and_then(Node::text).and_then(|text| self.filled(text, None));
        let target = target.unwrap_or_else(|| "/etc/sysctl.conf".to_owned());
        let target = super::paths::normal(&target);
        let items = self.items(task);
        if items.is_empty() {
            self.unread(of.line, "a loop uses values of another file: pass that file, too".to_owned());
        }
        for item in items {
            let fill = |node: &Node| node.text().and_then(|text| self.filled(text, item.as_ref()));
            let Some(name) = fill(name) else {
                self.unread(
                    of.line,
                    "the name of a sysctl is in another file: pass that file, too".to_owned(),
                );
                continue;
            };
            let Some(value) = of.get("value").or_else(|| of.get("val")).and_then(fill) else { continue };
            let line = item.as_ref().map_or(of.line, |item| item.line);
            self.put(line, PieceKind::Settings(Form::Sysctl, target.clone()), format!("{name} = {value}"));
        }
    }

    /// The items of a task's loop: one `None` without a loop, empty if its list is unknown.
    fn items(&self, task: &Node) -> Vec<Option<Item>> {
        let keys = ["loop", "with_items", "with_list", "with_dict"];
        let Some((key, over)) = keys.iter().find_map(|key| Some((*key, task.get(key)?))) else {
            return vec![None];
        };
        let named = over.text().and_then(expression).and_then(|name| {
            let (name, is_dict) = match name.split_once('|') {
                Some((name, filter)) => (name.trim(), filter.contains("dict2items")),
                None => (name, false),
            };
            Some((self.variables.get(name)?, is_dict))
        });
        let (node, is_dict) = named.unwrap_or((over, false));
        if is_dict || key == "with_dict" {
            let of = |(name, value): &(String, Node)| {
                let line = value.line;
                let key = Node { line, value: Value::Text(name.clone()) };
                let entries = vec![("key".to_owned(), key), ("value".to_owned(), value.clone())];
                Some(Item { line, node: Node { line, value: Value::Map(entries) } })
            };
            return node.entries().iter().map(of).collect();
        }
        node.list().iter().map(|node| Some(Item { line: node.line, node: node.clone() })).collect()
    }

    /// A text with `{{ ... }}` filled in; `None` if a part of it is unknown.
    fn filled(&self, text: &str, item: Option<&Item>) -> Option<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((head, behind)) = rest.split_once("{{") {
            let (inside, tail) = behind.split_once("}}")?;
            filled += head;
            filled += &self.worth(inside.trim(), item)?;
            rest = tail;
        }
        Some(filled + rest)
    }

    /// A text with the known `{{ ... }}` filled in.
    fn partly_filled(&self, text: &str, item: Option<&Item>) -> String {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((head, behind)) = rest.split_once("{{") {
            filled += head;
            let Some((inside, tail)) = behind.split_once("}}") else {
                return filled + "{{" + behind;
            };
            match self.worth(inside.trim(), item) {
                Some(value) => filled += &value,
                None => filled.extend(["{{", inside, "}}"]),
            }
            if filled.len() > LONGEST_TEXT {
                return text.to_owned();
            }
            rest = tail;
        }
        filled + rest
    }

    fn worth(&self, expression: &str, item: Option<&Item>) -> Option<String> {
        let (path, filters) =
            expression.split_once('|').map_or((expression, ""), |(path, filters)| (path.trim(), filters));
        let mut parts = path.split('.');
        let first = parts.next()?;
        let whole = self.variables.get(path);
        let mut node = match item.filter(|_| first == "item") {
            Some(item) => Some(&item.node),
            None => self.variables.get(first),
        };
        for part in parts {
            node = node.and_then(|node| node.get(part));
        }
        let text = node.or(whole).and_then(Node::text).filter(|text| !text.contains("{{"));
        // `default(1)` for a missing value.
        let default = || {
            let (_, value) = filters.split_once("default(")?;
            Some(value.split_once(')')?.0.split(',').next()?.trim_matches(['"', '\'', ' ']).to_owned())
        };
        text.map(str::to_owned).or_else(default)
    }

    /// `sysctls` of a container, or of a machine (Talos).
    fn sysctls(&mut self, of: &Node, parent: &str) {
        let named = of.list().iter().filter_map(|node| {
            let pair = || Some((node.get("name")?.text()?, node.get("value")?.text()?, node.line));
            let text = || {
                let (name, value) = node.text()?.split_once('=')?;
                Some((name, value, node.line))
            };
            pair().or_else(text)
        });
        let mapped =
            of.entries().iter().filter_map(|(name, value)| Some((name.as_str(), value.text()?, value.line)));
        let kind =
            if parent == "machine" { PieceKind::Settings(Form::Sysctl, None) } else { PieceKind::Container };
        for (name, value, line) in named.chain(mapped).collect::<Vec<_>>() {
            self.put(line, kind.clone(), format!("{name} = {value}"));
        }
    }

    fn lines(&mut self, entries: &[(String, Node)]) {
        for (name, value) in entries {
            if let (true, Some(value)) =
                (super::sweep::is_sysctl(name), value.text().map(|text| (text, value.line)))
            {
                self.put(value.1, PieceKind::Settings(Form::Sysctl, None), format!("{name} = {}", value.0));
            }
        }
    }

    /// A command: a text, words, or a map with it under `cmd` (which is visited by itself).
    fn script(&mut self, of: &Node) {
        if let Some(text) = of.text() {
            let text = self.partly_filled(text, None);
            self.put(of.line, PieceKind::Script, text);
        } else if let Some((line, text)) = spoken(of) {
            self.put(line, PieceKind::Script, text);
        }
    }

    /// A shell task, for each item of its loop, in its folder.
    fn shell(&mut self, task: &Node, of: &Node) {
        let Some(text) = of.text() else { return self.script(of) };
        let (own, text) = match text.strip_prefix("chdir=").and_then(|rest| rest.split_once(' ')) {
            Some((folder, text)) => (Some(folder.trim_matches(['"', '\''])), text),
            None => (None, text),
        };
        let given = || task.get("args").unwrap_or(task).get("chdir").and_then(Node::text);
        let enter = own.or_else(given).map(|folder| format!("cd '{folder}'; ")).unwrap_or_default();
        let items = if text.contains("item") { self.items(task) } else { vec![None] };
        if items.is_empty() {
            self.unread(of.line, "a loop uses values of another file: pass that file, too".to_owned());
        }
        for item in items {
            let filled = self.partly_filled(text, item.as_ref());
            let is_whole = expression(text).is_some();
            let line = item.filter(|_| is_whole).map_or(of.line, |item| item.line);
            self.put(line, PieceKind::Script, format!("{enter}{filled}"));
        }
    }

    /// A task of `command`: no shell reads it.
    fn command(&mut self, task: &Node, of: &Node) {
        let is_more = of.text().is_some_and(super::run::needs_a_shell);
        let before = self.void.clone();
        if is_more {
            let why = "Ansible's `command` has no shell: `|`, `>` and `;` are words, and nothing is written";
            self.void = Some(why.to_owned());
        }
        self.shell(task, of);
        self.void = before;
    }

    /// A `replace` task, as sed would do it.
    fn replace(&mut self, of: &Node) {
        let text = |key: &str| of.get(key).and_then(Node::text).map(|text| text.replace('\'', "'\\''"));
        let path = text("path").or_else(|| text("dest"));
        if let (Some(path), Some(pattern), Some(new)) = (path, text("regexp"), text("replace")) {
            let line = of.get("replace").map_or(of.line, |node| node.line);
            self.put(line, PieceKind::Script, format!("sed -i 's\u{1}{pattern}\u{1}{new}\u{1}' '{path}'"));
        }
    }

    /// An `ini_file` task.
    fn ini_file(&mut self, of: &Node) {
        let text = |key: &str| of.get(key).and_then(Node::text);
        let path = text("path").or_else(|| text("dest")).and_then(super::paths::normal);
        if let (Some(path), Some(section), Some(option)) = (path, text("section"), text("option")) {
            let line = format!("[{section}]\n{option}={}\n", text("value").unwrap_or_default());
            self.put(of.line, PieceKind::File { path, append: true }, line);
        }
    }

    /// A file of tasks, variables or commands.
    fn included(&mut self, of: &Node) {
        let named = ["file", "cmd", "_raw_params"].iter().find_map(|key| of.get(key)?.text());
        if let Some(file) = of.text().or(named).and_then(|text| text.split_whitespace().next()) {
            self.other(of.line, file, "is included here");
        }
    }

    fn role(&mut self, of: &Node) {
        let named = ["name", "role"].iter().find_map(|key| of.get(key)?.text());
        if let Some(name) = of.text().or(named) {
            self.unread(
                of.line,
                format!("the role {name} does more than this text shows: pass its tasks, too"),
            );
        }
    }

    /// Files that are copied into a settings folder as a whole.
    fn folder(&mut self, of: &Node) {
        let text = |key: &str| of.get(key).and_then(Node::text);
        if let (Some(source), Some(folder)) = (text("src"), text("dest"))
            && is_folder_of_settings(folder)
        {
            self.unread(of.line, format!("the files of {source} are copied into {folder}: pass them, too"));
        }
    }

    /// `machine.sysfs` of Talos: paths below `/sys` with dots.
    fn sysfs(&mut self, of: &Node) {
        for (name, value) in of.entries() {
            if let Some(text) = value.text() {
                let path = name.replace('.', "/");
                self.put(value.line, PieceKind::Script, format!("echo '{text}' > '/sys/{path}'"));
            }
        }
    }

    fn rules(&mut self, of: &Node) {
        for rule in of.list() {
            if let Some(text) = rule.text() {
                self.put(rule.line, PieceKind::Settings(Form::Rules, None), text);
            }
        }
    }

    /// Words of the kernel's command line, for Talos and OpenShift.
    fn kernel_arguments(&mut self, of: &Node) {
        for word in of.list() {
            if let Some(text) = word.text() {
                self.put(word.line, PieceKind::Script, format!("grubby --args='{text}'"));
            }
        }
    }

    /// A container of Compose or Kubernetes: its command.
    fn container(&mut self, of: &Node) {
        let security = of.get("securityContext");
        let is_privileged =
            is_true(of.get("privileged")) || is_true(security.and_then(|context| context.get("privileged")));
        self.is_bound = !is_privileged;
        let parts = ["entrypoint", "command", "args"].map(|key| of.get(key));
        let words: Vec<Node> = parts.iter().flatten().flat_map(|node| node.list().to_vec()).collect();
        let whole = Node { line: of.line, value: Value::List(words) };
        if let Some((line, text)) = spoken(&whole) {
            self.put(line, PieceKind::Script, text);
        }
        for node in parts.into_iter().flatten().filter(|node| node.text().is_some()) {
            self.script(node);
        }
    }

    /// A task that writes a file, for each item of its loop.
    fn file_task(&mut self, task: &Node, module: &str, of: &Node) {
        let text = |key: &str| of.get(key).and_then(Node::text).and_then(|text| self.filled(text, None));
        let Some(path) = text("dest").or_else(|| text("path")) else { return };
        let source = text("src");
        let name = source.as_deref().and_then(|source| source.rsplit('/').next()).unwrap_or_default();
        let Some(mut path) = super::paths::normal(&path) else { return };
        if source.is_some() && name.is_empty() {
            return self.folder(of);
        }
        if source.is_some() && is_folder_of_settings(&path) {
            path = format!("{path}/{name}");
        }
        if is_absent(of) {
            return self.skip(of);
        }
        let append = matches!(module, "blockinfile" | "lineinfile");
        if let Some(given) = ["content", "block", "line"].iter().find_map(|key| of.get(key)) {
            return self.given_text(task, given, &path, append);
        }
        if source.is_none() || Form::of_path(&path).is_none() {
            return;
        }
        match self.others.iter().find(|(other, _)| other.rsplit('/').next() == Some(name)) {
            Some((other, content)) => {
                let text = self.partly_filled(content, None);
                let kind = PieceKind::File { path, append: false };
                let piece = Piece::new(other, 1, kind, self.role, text);
                self.parts.pieces.push(Piece { void: self.void.clone(), ..piece });
                self.parts.used.push(other.clone());
            }
            None => self.unread(of.line, format!("{name} is the source of /{path}: pass that file, too")),
        }
    }

    /// A text within a task.
    fn given_text(&mut self, task: &Node, given: &Node, path: &str, append: bool) {
        let Some(text) = given.text() else { return };
        let items = if text.contains("item") { self.items(task) } else { vec![None] };
        let mut is_known = !items.is_empty();
        for item in items {
            let filled = self.partly_filled(text, item.as_ref());
            is_known &= expression(&filled).is_none();
            let line = item.filter(|_| expression(text).is_some()).map_or(given.line, |item| item.line);
            let text = filled.trim_end().to_owned() + "\n";
            self.put(line, PieceKind::File { path: path.to_owned(), append }, text);
        }
        if !is_known && Form::of_path(path).is_some() {
            let why = format!("lines of /{path} are in another file: pass that file, too");
            self.unread(given.line, why);
        }
    }

    /// A file of cloud-init or Butane.
    fn file(&mut self, of: &Node) {
        let Some(path) = of.get("path").and_then(Node::text).and_then(super::paths::normal) else { return };
        let content = of.get("content").or_else(|| of.get("contents").and_then(|node| node.get("inline")));
        let append = is_true(of.get("append"));
        match content.and_then(|node| Some((node.line, node.text()?))) {
            Some((line, text)) if of.get("encoding").is_none() => {
                self.put(line, PieceKind::File { path, append }, text);
            }
            _ if Form::of_path(&path).is_some() => {
                let why = format!("the content of /{path} is encoded or stored elsewhere");
                self.parts.unread.push((of.line + self.shift, why));
            }
            _ => {}
        }
    }

    /// Files of a ConfigMap, each by its name.
    fn texts(&mut self, of: &Node) {
        for (name, node) in of.entries() {
            let Some(text) = node.text() else { continue };
            let found = texts::parts(name, text, &[]);
            for piece in found.pieces {
                let line = node.line + self.shift + piece.line - 1;
                self.parts.pieces.push(Piece { file: self.file.to_owned(), line, ..piece });
            }
        }
    }

    /// Profiles of OpenShift's operator for tuned.
    fn profiles(&mut self, of: &Node) {
        for profile in of.list() {
            if let Some(data) = profile.get("data")
                && let Some(text) = data.text()
            {
                self.put(data.line, PieceKind::Settings(Form::Tuned, None), text);
            }
        }
    }
}

/// An item of a loop, and the position of its value.
struct Item {
    line: usize,
    node: Node,
}

/// The content of the braces in a text that consists only of them.
fn expression(text: &str) -> Option<&str> {
    Some(text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim())
}

/// Whether the files of a folder are settings.
fn is_folder_of_settings(folder: &str) -> bool {
    let folder = folder.trim_matches('/');
    let is_file = Form::of_path(folder).is_some()
        || folder.rsplit('/').next().is_some_and(|name| name.contains(".conf"));
    !is_file
        && ["x.conf", "x.rules", "x.service"]
            .iter()
            .any(|name| Form::of_path(&format!("{folder}/{name}")).is_some())
}

/// `name=vm.swappiness value="1 2"`.
fn words_of(text: &str) -> Vec<(String, String)> {
    let (mut words, mut quote) = (vec![String::new()], None);
    // Braces may contain spaces: `value={{ item.value }}`.
    let mut braces = 0_usize;
    for c in text.chars() {
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() && braces == 0 => quote = Some(c),
            c if c.is_whitespace() && quote.is_none() && braces == 0 => words.push(String::new()),
            c => {
                braces = match c {
                    '{' => braces + 1,
                    '}' => braces.saturating_sub(1),
                    _ => braces,
                };
                words.last_mut().into_iter().for_each(|word| word.push(c));
            }
        }
    }
    let of = |word: &String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    words.iter().filter_map(of).collect()
}

/// Line and script of words: the argument of a shell among them, or the command itself.
fn spoken(of: &Node) -> Option<(usize, String)> {
    let words = of.list();
    let first = words.first()?.text()?;
    let is_shell = ["sh", "bash", "ash", "dash"].contains(&first.rsplit('/').next().unwrap_or_default());
    let behind = words
        .iter()
        .position(|word| word.text().is_some_and(|word| word.starts_with('-') && word.ends_with('c')));
    if let (true, Some(script)) = (is_shell, behind.and_then(|at| words.get(at + 1))) {
        return Some((script.line, script.text()?.to_owned()));
    }
    let quoted = words.iter().map(|word| Some(format!("'{}'", word.text()?.replace('\'', "'\\''"))));
    Some((words.first()?.line, quoted.collect::<Option<Vec<String>>>()?.join(" ")))
}
