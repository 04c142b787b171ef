//! What YAML of the field says of a host's settings: tasks of Ansible, cloud-init, Compose, Kubernetes, Talos. Shapes are known by their
//! keys, wherever they stand; what else names a setting is left to [`super::sweep`].

use std::collections::BTreeMap;

use super::stated::Form;
use super::texts::{Kind, Parts, Piece, role_of};
use super::yaml::{Node, Value, documents};
use super::{Role, texts};

/// The parts of a text of YAML whose first line is `first_line` of its file.
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
    };
    documents.iter().for_each(|document| reader.learn(document));
    // Variables of other files count as well: defaults and group_vars lie apart.
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
    /// Whether what is read belongs to a container without privileges.
    is_bound: bool,
}

/// The key of a module without the collection that it is of.
fn module(key: &str) -> &str {
    ["ansible.builtin.", "ansible.posix.", "ansible.legacy."]
        .iter()
        .find_map(|collection| key.strip_prefix(collection))
        .unwrap_or(key)
}

/// A container of Kubernetes, or a service of Compose.
fn is_container(node: &Node) -> bool {
    ["image", "build"].iter().any(|key| node.get(key).is_some())
}

/// Whether Ansible and Kubernetes take a word for true.
fn is_true(node: Option<&Node>) -> bool {
    node.and_then(Node::text)
        .is_some_and(|text| matches!(text.to_lowercase().as_str(), "true" | "yes" | "on" | "1"))
}

impl Reader<'_> {
    fn put(&mut self, line: usize, kind: Kind, text: impl Into<String>) {
        let piece = Piece::new(self.file, line + self.shift, kind, self.role, text);
        self.parts.pieces.push(Piece { is_bound: self.is_bound, ..piece });
    }

    /// Values by their names: of `vars` and `set_fact`, and of files that hold nothing but variables.
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
            "sysctl" => self.sysctl_task(task, value),
            "sysctls" => self.sysctls(value, parent),
            "shell" | "raw" | "cmd" => self.script(value),
            "command" if !is_container(task) => self.script(value),
            "copy" | "template" | "blockinfile" | "lineinfile" => self.file_task(module(key), value),
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
            // `sysctl: {vm.swappiness: 1}` of a node's configuration, or words in one text.
            let (words, settings) = (of.text().map(words_of), of.entries());
            if let Some(words) = words {
                let get =
                    |key: &str| words.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
                if let (Some(name), Some(value)) = (get("name"), get("value")) {
                    self.put(of.line, Kind::Settings(Form::Sysctl, None), format!("{name} = {value}"));
                }
            }
            return self.lines(settings);
        };
        if of.get("state").and_then(Node::text) == Some("absent") {
            return;
        }
        let target = of.get("sysctl_file").and_then(Node::text).and_then(|text| self.filled(text, None));
        let target = target.unwrap_or_else(|| "/etc/sysctl.conf".to_owned());
        let target = super::run::normal(&target);
        for item in self.items(task) {
            let fill = |node: &Node| node.text().and_then(|text| self.filled(text, item.as_ref()));
            let (Some(name), Some(value)) =
                (fill(name), of.get("value").or_else(|| of.get("val")).and_then(fill))
            else {
                continue;
            };
            let line = item.as_ref().map_or(of.line, |item| item.line);
            self.put(line, Kind::Settings(Form::Sysctl, target.clone()), format!("{name} = {value}"));
        }
    }

    /// The items of a task's loop; one `None` without a loop, nothing where it is not known what it goes over.
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

    /// A text with `{{ ... }}` filled in; `None` where something in it is not known.
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
        // `default(1)`, where there is nothing.
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
        let kind = if parent == "machine" { Kind::Settings(Form::Sysctl, None) } else { Kind::Container };
        for (name, value, line) in named.chain(mapped).collect::<Vec<_>>() {
            self.put(line, kind.clone(), format!("{name} = {value}"));
        }
    }

    fn lines(&mut self, entries: &[(String, Node)]) {
        for (name, value) in entries {
            if let (true, Some(value)) =
                (super::sweep::is_sysctl(name), value.text().map(|text| (text, value.line)))
            {
                self.put(value.1, Kind::Settings(Form::Sysctl, None), format!("{name} = {}", value.0));
            }
        }
    }

    /// A command: a text, words, or a map that has it under `cmd` (which is visited by itself).
    fn script(&mut self, of: &Node) {
        if let Some(text) = of.text() {
            let text = self.filled(text, None).unwrap_or_else(|| text.to_owned());
            self.put(of.line, Kind::Script, text);
        } else if let Some((line, text)) = spoken(of) {
            self.put(line, Kind::Script, text);
        }
    }

    /// A container of Compose or Kubernetes: what it starts.
    fn container(&mut self, of: &Node) {
        let security = of.get("securityContext");
        let is_privileged =
            is_true(of.get("privileged")) || is_true(security.and_then(|context| context.get("privileged")));
        self.is_bound = !is_privileged;
        let parts = ["entrypoint", "command", "args"].map(|key| of.get(key));
        let words: Vec<Node> = parts.iter().flatten().flat_map(|node| node.list().to_vec()).collect();
        let whole = Node { line: of.line, value: Value::List(words) };
        if let Some((line, text)) = spoken(&whole) {
            self.put(line, Kind::Script, text);
        }
        for node in parts.into_iter().flatten().filter(|node| node.text().is_some()) {
            self.script(node);
        }
    }

    /// A task that writes a file.
    fn file_task(&mut self, module: &str, of: &Node) {
        let text = |key: &str| of.get(key).and_then(Node::text).and_then(|text| self.filled(text, None));
        let Some(path) = text("dest").or_else(|| text("path")).as_deref().and_then(super::run::normal) else {
            return;
        };
        let append = matches!(module, "blockinfile" | "lineinfile");
        let given = ["content", "block", "line"].iter().find_map(|key| Some((of.get(key)?.line, text(key)?)));
        if let Some((line, content)) = given {
            return self.put(line, Kind::File { path, append }, content);
        }
        let Some(source) = text("src").filter(|_| Form::of_path(&path).is_some()) else { return };
        let name = source.rsplit('/').next().unwrap_or_default();
        match self.others.iter().find(|(other, _)| other.rsplit('/').next() == Some(name)) {
            Some((_, content)) => self.put(of.line, Kind::File { path, append: false }, content.clone()),
            None => {
                let why = format!("{name} is the source of /{path}: pass that file, too");
                self.parts.unread.push((of.line + self.shift, why));
            }
        }
    }

    /// A file of cloud-init or Butane.
    fn file(&mut self, of: &Node) {
        let Some(path) = of.get("path").and_then(Node::text).and_then(super::run::normal) else { return };
        let content = of.get("content").or_else(|| of.get("contents").and_then(|node| node.get("inline")));
        let append = is_true(of.get("append"));
        match content.and_then(|node| Some((node.line, node.text()?))) {
            Some((line, text)) if of.get("encoding").is_none() => {
                self.put(line, Kind::File { path, append }, text);
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
                self.put(data.line, Kind::Settings(Form::Tuned, None), text);
            }
        }
    }
}

/// An item of a loop, and where its value stands.
struct Item {
    line: usize,
    node: Node,
}

/// What is between the braces of a text that is nothing else.
fn expression(text: &str) -> Option<&str> {
    Some(text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim())
}

/// `name=vm.swappiness value=1`.
fn words_of(text: &str) -> Vec<(String, String)> {
    let of = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.trim_matches(['"', '\'']).to_owned()))
    };
    text.split_whitespace().filter_map(of).collect()
}

/// The line and the script of words: what a shell among them is told to do, or the command itself.
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
