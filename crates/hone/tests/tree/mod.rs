//! Recorded hosts as text, and as folders; `fixtures/hosts/README.md` has the form.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The folder of the broker's data that a text names: `# data = /var/lib/kafka`.
pub(crate) fn data(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# data = "))
}

/// A folder with the host's files.
pub(crate) fn planted(text: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        assert!(!line.starts_with('|'), "a line of no file: {line}");
        let (name, what) = line.split_once(' ').unwrap_or((line, ""));
        let mut content = String::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
            content += line.strip_prefix("| ").unwrap_or("");
            content += "\n";
        }
        for path in expanded(name) {
            plant(&root.path().join(path), what, &content);
        }
    }
    root
}

fn plant(path: &Path, what: &str, content: &str) {
    if path.to_str().unwrap().ends_with('/') {
        return fs::create_dir_all(path).unwrap();
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match what.split_once(' ') {
        Some(("->", target)) => symlink(target, path).unwrap(),
        Some(("=", text)) => fs::write(path, format!("{text}\n")).unwrap(),
        None if what.is_empty() => fs::write(path, content).unwrap(),
        _ => panic!("{}: {what}", path.display()),
    }
}

/// `{a,b}` and `{0..7}`, as a shell expands them.
fn expanded(path: &str) -> Vec<String> {
    let Some((head, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (inside, tail) = rest.split_once('}').unwrap();
    let words: Vec<String> = match inside.split_once("..") {
        Some((from, to)) => {
            let (from, to): (u32, u32) = (from.parse().unwrap(), to.parse().unwrap());
            (from..=to).map(|number| number.to_string()).collect()
        }
        None => inside.split(',').map(str::to_owned).collect(),
    };
    let tails = expanded(tail);
    words.iter().flat_map(|word| tails.iter().map(move |tail| format!("{head}{word}{tail}"))).collect()
}

#[test]
fn a_text_becomes_files() {
    let root = planted("# x\na/{b,c}/{1..2} = t\nd/\ne\n| one\n|\n| two\nf -> a/b/1\n");
    let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    assert_eq!((read("a/b/1").as_str(), read("a/c/2").as_str()), ("t\n", "t\n"));
    assert_eq!((read("e").as_str(), read("f").as_str()), ("one\n\ntwo\n", "t\n"));
    assert!(root.path().join("d").is_dir());
}
