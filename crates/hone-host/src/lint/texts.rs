//! What kind of text a file is, and the parts of a guide that are commands.

use super::Role;
use super::run::takes_back;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Script,
    /// A unit of systemd.
    Unit,
    /// Lines of sysctl.d.
    Sysctl,
    /// Rules of udev.
    Rules,
}

/// A text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The file that it is of.
    pub(super) file: String,
    /// Its first line there.
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) role: Role,
    pub(super) text: String,
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// The parts of a file, in their order.
pub(super) fn pieces(file: &str, text: &str) -> Vec<Piece> {
    let name = name_of(file);
    let role = if takes_back(name) { Role::Rollback } else { Role::Change };
    if name.ends_with(".md") || name.ends_with(".markdown") {
        return blocks(file, text);
    }
    let kind = if name.ends_with(".rules") {
        Kind::Rules
    } else if name.ends_with(".sh") || text.starts_with("#!") {
        Kind::Script
    } else {
        kind_of(text)
    };
    vec![Piece { file: file.to_owned(), line: 1, kind, role, text: text.to_owned() }]
}

fn kind_of(text: &str) -> Kind {
    let lines =
        || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    if lines().any(|line| line == "[Unit]" || line == "[Service]") {
        return Kind::Unit;
    }
    // `vm.swappiness = 1`: a name with a dot or a slash, and nothing that a shell would need.
    let is_setting = |line: &str| {
        line.split_once('=').is_some_and(|(name, _)| {
            let name = name.trim().trim_start_matches('-');
            name.contains(['.', '/'])
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/*".contains(c))
        })
    };
    if lines().next().is_some() && lines().all(is_setting) { Kind::Sysctl } else { Kind::Script }
}

/// Blocks of code in Markdown. What stands below a heading of a way back is of the way back.
fn blocks(file: &str, text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut back_below: Option<usize> = None;
    let mut open: Option<(String, String, usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        let fence: String = bare.chars().take_while(|c| *c == '`' || *c == '~').collect();
        open = match open.take() {
            Some((mark, language, begins, body)) if bare.starts_with(&mark) && bare.trim_end() == fence => {
                let role = if back_below.is_some() { Role::Rollback } else { Role::Change };
                found.extend(block(file, begins, &language, &body, role));
                None
            }
            Some((mark, language, begins, body)) => Some((mark, language, begins, body + line + "\n")),
            None if fence.len() >= 3 => {
                let language = bare.trim_start_matches(['`', '~']).trim().to_lowercase();
                Some((fence, language, at + 2, String::new()))
            }
            None => {
                let level = bare.chars().take_while(|c| *c == '#').count();
                if level > 0 && back_below.is_none_or(|of| level <= of) {
                    back_below = takes_back(bare).then_some(level);
                }
                None
            }
        };
    }
    found
}

fn block(file: &str, line: usize, language: &str, body: &str, role: Role) -> Option<Piece> {
    let is_shell = ["bash", "sh", "shell", "console", "zsh"].contains(&language);
    let kind = kind_of(body);
    // Without a language a block is as well a picture or a program's output.
    if !is_shell && kind == Kind::Script && !body.contains("sysctl ") && !body.contains("> /sys/") {
        return None;
    }
    // `$ sysctl -w ...`: the prompt is no part of the command.
    let text = body
        .lines()
        .map(|line| line.strip_prefix("$ ").unwrap_or(line))
        .fold(String::new(), |text, line| text + line + "\n");
    Some(Piece { file: file.to_owned(), line, kind: if is_shell { Kind::Script } else { kind }, role, text })
}

/// Values of a key in a unit (`After=a b`), with the number of the line; an empty one forgets those before.
pub(super) fn unit_values(text: &str, key: &str) -> Vec<String> {
    let mut values = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(value) = line.strip_prefix(key).and_then(|rest| rest.trim_start().strip_prefix('=')) else {
            continue;
        };
        if value.trim().is_empty() {
            values.clear();
        }
        values.push(value.trim().to_owned());
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_guide_is_its_blocks_and_what_they_are_for() {
        let text = "# Tuning\n```bash\n$ sysctl -w vm.swappiness=1\n```\n~~~ini\n[Unit]\nAfter=x\n~~~\n## Rollback\ntext\n### Steps\n```\nsysctl -w vm.swappiness=60\n```\n## Results\n```\np99 1.97 ms\n```\n```conf\nvm.dirty_ratio = 80 # much\n```\n";
        let found = pieces("g/guide.md", text);
        let kinds: Vec<(Kind, Role, usize)> =
            found.iter().map(|piece| (piece.kind, piece.role, piece.line)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Script, Role::Change, 3),
                (Kind::Unit, Role::Change, 6),
                (Kind::Script, Role::Rollback, 13),
                (Kind::Sysctl, Role::Change, 20),
            ]
        );
        assert_eq!(found[0].text, "sysctl -w vm.swappiness=1\n");
    }

    #[test]
    fn files_by_what_they_hold() {
        let kind = |file: &str, text: &str| pieces(file, text)[0].kind;
        assert_eq!(kind("99-x.conf", "# a\nvm.swappiness = 1\n-net/ipv4/x=2\n"), Kind::Sysctl);
        assert_eq!(kind("x.service", "[Unit]\nDescription=a\n"), Kind::Unit);
        assert_eq!(kind("tune", "echo 1 > /proc/sys/vm/swappiness\n"), Kind::Script);
        assert_eq!(kind("60.rules", "KERNEL==\"sda\"\n"), Kind::Rules);
        assert_eq!(pieces("undo-tuning.sh", "x")[0].role, Role::Rollback);
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*", like in "[`~#a-z =\n]{0,80}") {
            let _ = (pieces("a.md", &text), pieces("a.md", &like), pieces("a", &text), unit_values(&text, "After"));
        }
    }
}
