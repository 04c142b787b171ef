//! Lines of sysctl.d and sysctl.conf, as systemd and procps read them (sysctl.d(5)): names with dots or slashes, patterns, and a leading
//! `-` for lines that may fail.

use std::collections::BTreeSet;

use crate::glob::is_meant;
use crate::kernel::Kernel;

/// A line that names a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Line number from 1.
    pub(crate) number: usize,
    /// The attribute, or a pattern of attributes, without the leading `/`.
    pub(crate) path: String,
    /// The value; `None` for a name alone (`-net.ipv4.conf.eth0.rp_filter`), which patterns then leave out.
    pub(crate) value: Option<String>,
    /// Whether a write that fails is no error.
    pub(crate) may_fail: bool,
}

/// The attribute of a sysctl's name. Dots separate its parts unless a slash comes first.
pub(crate) fn path_of(name: &str) -> String {
    let name = name.trim().trim_start_matches('/').trim_start_matches("proc/sys/");
    let slashes = name.find('/').is_some_and(|slash| name.find('.').is_none_or(|dot| slash < dot));
    // In a name with dots, a slash is a dot of the attribute (an interface `eth0.1`), and the other way round.
    let swapped = |c: char| match c {
        '.' => '/',
        '/' => '.',
        c => c,
    };
    let path: String = if slashes { name.to_owned() } else { name.chars().map(swapped).collect() };
    // A name can't leave its folder.
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    format!("proc/sys/{}", parts.join("/"))
}

/// The setting in a one-line text; `None` for a remark, and for a text without a name.
pub(crate) fn line(number: usize, text: &str) -> Option<Line> {
    let text = text.trim();
    if text.is_empty() || text.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
        None => (text, None),
    };
    let bare = name.trim_start_matches('-');
    let may_fail = bare.len() < name.len();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/*?[]!:".contains(c);
    let is_one = !bare.is_empty() && bare.chars().all(is_name) && (value.is_some() || may_fail);
    is_one.then(|| Line { number, path: path_of(bare), value, may_fail })
}

/// The lines of a text.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    text.lines().enumerate().filter_map(|(at, text)| line(at + 1, text)).collect()
}

pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Attributes that a pattern matches on this host, part by part.
pub(crate) fn meant(kernel: &dyn Kernel, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/') {
        let below = |folder: &String| -> Vec<String> {
            let at =
                |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if is_pattern(part) {
                let names = kernel.list(folder);
                names.iter().filter(|name| is_meant(part, name)).map(|name| at(name)).collect()
            } else {
                vec![at(part)]
            }
        };
        found = found.iter().flat_map(below).collect();
    }
    found.retain(|path| kernel.read(path).is_ok());
    found
}

/// A setting of a line: its index among the given lines, the attribute, and the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) at: usize,
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) may_fail: bool,
}

/// Settings of lines, in order; the last of two lines for one name wins. A name without a pattern wins over patterns at any place, and a
/// name alone excludes the attribute from patterns.
pub(crate) fn wishes(kernel: &dyn Kernel, lines: &[Line]) -> Vec<Wish> {
    let named: BTreeSet<&str> =
        lines.iter().filter(|line| !is_pattern(&line.path)).map(|line| line.path.as_str()).collect();
    let paths = |line: &Line| {
        if !is_pattern(&line.path) {
            return vec![line.path.clone()];
        }
        let mut paths = meant(kernel, &line.path);
        paths.retain(|path| !named.contains(path.as_str()));
        paths
    };
    let of = |(at, line): (usize, &Line)| -> Vec<Wish> {
        let Some(value) = &line.value else { return Vec::new() };
        let wish = |path: String| Wish { at, path, value: value.clone(), may_fail: line.may_fail };
        paths(line).into_iter().map(wish).collect()
    };
    lines.iter().enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;
    use std::fs;

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in ["all", "default", "eth0", "lo"] {
            let folder = root.path().join("proc/sys/net/ipv4/conf").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("rp_filter"), "0\n").unwrap();
        }
        root
    }

    fn wishes_of(text: &str) -> Vec<(usize, String, String)> {
        let root = root();
        let wishes = wishes(&Files::new(root.path()), &lines(text));
        wishes.into_iter().map(|wish| (wish.at, wish.path, wish.value)).collect()
    }

    /// The example of sysctl.d(5), in short.
    #[test]
    fn a_pattern_gives_way_to_names() {
        let text = "net.ipv4.conf.default.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.all.rp_filter\n";
        let path = |name: &str| format!("proc/sys/net/ipv4/conf/{name}/rp_filter");
        assert_eq!(
            wishes_of(text),
            [(0, path("default"), "2".into()), (1, path("eth0"), "1".into()), (1, path("lo"), "1".into())]
        );
    }

    #[test]
    fn names_values_and_remarks() {
        let text = "# a\n; b\n\n-net/ipv4/tcp_rmem=4096 87380 16777216\nnot a setting\nvm.x = 1\nvm.x=2\n";
        let lines = lines(text);
        let numbers: Vec<(usize, bool)> = lines.iter().map(|line| (line.number, line.may_fail)).collect();
        assert_eq!(numbers, [(4, true), (6, false), (7, false)]);
        assert_eq!(
            wishes_of(text),
            [
                (0, "proc/sys/net/ipv4/tcp_rmem".into(), "4096 87380 16777216".into()),
                (1, "proc/sys/vm/x".into(), "1".into()),
                (2, "proc/sys/vm/x".into(), "2".into())
            ]
        );
        assert_eq!(path_of("net.ipv4.conf.eth0/1.rp_filter"), "proc/sys/net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(path_of("net/ipv4/conf/eth0.1/rp_filter"), "proc/sys/net/ipv4/conf/eth0.1/rp_filter");
    }

    proptest! {
        #[test]
        fn foreign_lines_do_no_harm(text in "\\PC{0,80}", like in "[a-z.*=\\[\\]/ -]{0,40}") {
            let _ = (wishes_of(&text), wishes_of(&like));
        }
    }
}
