//! Kind of a text file, and the commands in a guide.

use super::finding::Role;
use super::piece::{Parts, Piece, PieceKind};
use super::run::takes_back;
use super::stated::{Form, is_setting_line};
use super::{of_yaml, sweep};

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

pub(super) fn role_of(name: &str) -> Role {
    if takes_back(name) { Role::Rollback } else { Role::Change }
}

/// The pieces of a file, in order. `others` are the other texts, by name; a file may write one of them somewhere.
pub(super) fn parts(file: &str, text: &str, others: &[(String, String)]) -> Parts {
    let text = text.trim_start_matches('\u{feff}');
    let name = name_of(file).to_lowercase();
    // A template counts as the file that it becomes.
    let name = [".j2", ".erb", ".tmpl", ".tpl"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name)
        .to_owned();
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let has_shebang = text.starts_with("#!");
    if !has_shebang
        && (is_guide(text) || ends(&[".md", ".markdown", ".adoc", ".asciidoc", ".rst", ".txt", ".html"]))
    {
        return guide(file, text);
    }
    let role = role_of(name_of(file));
    if !has_shebang && (ends(&[".yml", ".yaml"]) || is_yaml(text)) {
        return Parts { is_yaml: true, ..of_yaml::parts(file, 1, text, role, others) };
    }
    if is_of_another_language(&name, text) {
        return Parts::default();
    }
    let kind = if has_shebang || ends(&[".sh", ".bash"]) {
        PieceKind::Script
    } else if ends(&[".rules"]) {
        PieceKind::Settings(Form::Rules, None)
    } else {
        kind_of(text)
    };
    Parts { pieces: vec![Piece::new(file, 1, kind, role, text)], ..Parts::default() }
}

/// Whether a text is not for a shell. Names of settings in it are found by the sweep.
fn is_of_another_language(name: &str, text: &str) -> bool {
    const ENDS: [&str; 24] = [
        ".rb", ".py", ".pp", ".go", ".c", ".h", ".cc", ".cpp", ".rs", ".js", ".ts", ".tf", ".hcl", ".toml",
        ".json", ".xml", ".java", ".scala", ".pl", ".lua", ".sql", ".nix", ".ps1", ".gradle",
    ];
    let first = text.lines().next().unwrap_or_default();
    let is_shell = first
        .split(['/', ' '])
        .any(|word| ["sh", "bash", "dash", "ash", "zsh", "ksh"].contains(&word.trim()));
    if first.starts_with("#!") { !is_shell } else { ENDS.iter().any(|end| name.ends_with(end)) }
}

/// Lines that are neither empty nor a remark.
fn spoken(text: &str) -> impl Iterator<Item = &str> {
    let is_remark = |line: &str| line.is_empty() || line.starts_with(['#', ';']) || line.starts_with("{%");
    text.lines().map(str::trim).filter(move |line| !is_remark(line))
}

fn kind_of(text: &str) -> PieceKind {
    let form = form_of(text);
    form.map_or(PieceKind::Script, |form| PieceKind::Settings(form, None))
}

/// Form of a text whose lines are settings by themselves.
fn form_of(text: &str) -> Option<Form> {
    let lines = || spoken(text);
    let has = |section: &str| lines().any(|line| line == section);
    let all = |is_one: &dyn Fn(&str) -> bool| lines().next().is_some() && lines().all(is_one);
    if has("[Unit]") || has("[Service]") {
        return Some(Form::Unit);
    }
    if ["[main]", "[sysctl]", "[vm]", "[disk]", "[sysfs]", "[bootloader]"].iter().any(|section| has(section))
    {
        return Some(Form::Tuned);
    }
    if all(&|line| line.starts_with("GRUB_") || line.starts_with("export GRUB_")) {
        return Some(Form::Grub);
    }
    if all(&is_tmpfiles_line) {
        return Some(Form::Tmpfiles);
    }
    if lines().any(|line| line.contains("==\"") && line.contains("=\"")) && all(&|line| is_rule(line)) {
        return Some(Form::Rules);
    }
    let is_of_the_kernel = |line: &str| {
        let name =
            line.trim_start_matches('-').split('=').next().unwrap_or_default().trim().replace('/', ".");
        sweep::is_sysctl(&name) || name.contains(['*', '?', '['])
    };
    (all(&is_setting_line) && lines().any(is_of_the_kernel)).then_some(Form::Sysctl)
}

/// `w /sys/kernel/mm/transparent_hugepage/enabled - - - - never`.
fn is_tmpfiles_line(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let is_kind = kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && kind.chars().skip(1).all(|c| "+!-=~^$".contains(c));
    is_kind && words.next().is_some_and(|path| path.starts_with('/'))
}

/// `KEY{of}=="value", ...`, or a continuation of such a line.
fn is_rule(line: &str) -> bool {
    let key: String = line.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
    !key.is_empty() && line.get(key.len()..).is_some_and(|rest| rest.starts_with(['=', '{', '!', '+', ':']))
}

/// Beginnings of common YAML files. A script may contain a colon anywhere, but none begins so.
fn is_yaml(text: &str) -> bool {
    if text.starts_with("#cloud-config") || text.starts_with("---\n") {
        return true;
    }
    let first = spoken(text).next().unwrap_or_default();
    ["apiVersion:", "kind:", "services:", "version:", "- hosts:", "- name:", "write_files:", "runcmd:"]
        .iter()
        .any(|key| first.starts_with(key))
}

/// A fence at the beginning of a line marks a guide, for any file name.
fn is_guide(text: &str) -> bool {
    text.lines().filter(|line| line.starts_with("```") || line.starts_with("~~~")).count() >= 2
}

/// Meaning of a heading for the text below it.
#[derive(Debug, Default)]
struct Below {
    /// Level of the heading of a rollback.
    back: Option<usize>,
}

impl Below {
    fn heading(&mut self, level: usize, text: &str) {
        if self.back.is_none_or(|of| level <= of) {
            self.back = takes_back(text).then_some(level);
        }
    }

    fn role(&self) -> Role {
        if self.back.is_some() { Role::Rollback } else { Role::Change }
    }
}

/// A line that ends with a colon is a heading of the lowest level.
const LOWEST: usize = 99;

/// The level of a heading: Markdown's `#`, AsciiDoc's `=`, an underline, or a few words and a colon.
fn heading(line: &str, next: &str) -> Option<usize> {
    let is_made_of = |mark: char| next.len() >= 3 && next.chars().all(|c| c == mark);
    let marks = |mark: char| line.chars().take_while(|c| *c == mark).count();
    let is_marked = |level: usize| level > 0 && line.get(level..).is_some_and(|rest| rest.starts_with(' '));
    if line.trim().is_empty() {
        return None;
    }
    if is_marked(marks('#')) {
        return Some(marks('#'));
    }
    if is_marked(marks('=')) {
        return Some(marks('='));
    }
    if is_made_of('=') || is_made_of('-') {
        return Some(if is_made_of('=') { 1 } else { 2 });
    }
    let is_short = !line.starts_with([' ', '\t', '-', '|']) && line.split_whitespace().count() <= 6;
    (is_short && line.trim_end().trim_end_matches('*').ends_with(':')).then_some(LOWEST)
}

/// A block that is open.
struct Open {
    /// The line that closes it.
    mark: String,
    language: String,
    begins: usize,
    body: String,
}

/// Code blocks of a guide. A block below the heading of a rollback belongs to the rollback. A guide without blocks is read by its lines
/// that are commands or settings.
fn guide(file: &str, text: &str) -> Parts {
    let mut found = Parts { is_prose: true, ..Parts::default() };
    let mut below = Below::default();
    let mut open: Option<Open> = None;
    let mut language = String::new();
    let lines: Vec<&str> = text.lines().collect();
    // Lines between the blocks, each with its role: indented lines, or lines with a prompt.
    let mut loose: Vec<(usize, Role, &str)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        if let Some(mut block) = open.take() {
            if bare.trim_end() == block.mark {
                found.add(self::block(file, &block, below.role()));
            } else {
                block.body += line;
                block.body.push('\n');
                open = Some(block);
            }
            continue;
        }
        if let Some((mark, named)) = fence(bare) {
            let language = if named.is_empty() { std::mem::take(&mut language) } else { named };
            open = Some(Open { mark, language, begins: at + 2, body: String::new() });
            continue;
        }
        if let Some(source) = bare.strip_prefix("[source") {
            language = source.trim_start_matches([',', '%']).trim_end_matches(']').trim().to_lowercase();
            continue;
        }
        match heading(line, lines.get(at + 1).copied().unwrap_or_default()) {
            Some(level) => below.heading(level, line),
            None => loose.push((at + 1, below.role(), line)),
        }
    }
    // Its end is missing, but its contents still count.
    if let Some(block) = open {
        found.add(self::block(file, &block, below.role()));
    }
    let loose = lines_of(file, &loose, found.pieces.is_empty());
    found.pieces.extend(loose);
    found
}

/// Opening of a block: a Markdown fence with its language, or AsciiDoc's marks.
fn fence(line: &str) -> Option<(String, String)> {
    let marks: String = line.chars().take_while(|c| *c == '`' || *c == '~').collect();
    // With closing marks on the same line, it is inline code.
    if marks.len() >= 3 && !line.trim_start_matches(['`', '~']).contains('`') {
        let named = line.trim_start_matches(['`', '~']).trim().to_lowercase();
        let named = named.split([' ', '{', ',']).next().unwrap_or_default().to_owned();
        return Some((marks, named));
    }
    let is_block = matches!(line.trim_end(), "----" | "....");
    is_block.then(|| (line.trim_end().to_owned(), String::new()))
}

/// Whether a line begins like a command in a guide.
fn is_command(line: &str) -> bool {
    const NAMES: [&str; 19] = [
        "sudo",
        "sysctl",
        "echo",
        "printf",
        "cat",
        "tee",
        "for",
        "done",
        "do",
        "if",
        "fi",
        "then",
        "blockdev",
        "tuned-adm",
        "swapoff",
        "systemctl",
        "EOF",
        "cd",
        "grubby",
    ];
    NAMES.contains(&line.split_whitespace().next().unwrap_or_default())
}

/// Lines outside blocks that can only be commands: with a prompt, or indented; in a guide without blocks, all lines that look like
/// commands.
fn lines_of(file: &str, lines: &[(usize, Role, &str)], has_no_block: bool) -> Vec<Piece> {
    let of = |line: &str| -> Option<String> {
        let bare = line.trim();
        let command = prompted(bare);
        let is_indented = line.starts_with("    ") || line.starts_with('\t');
        match command {
            Some(command) => Some(command.to_owned()),
            None if is_indented || has_no_block => {
                (is_command(bare) || is_setting_line(bare)).then(|| bare.to_owned())
            }
            None => None,
        }
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, role, line) in lines {
        let Some(text) = of(line) else { continue };
        match pieces.last_mut() {
            Some(piece) if piece.role == *role => {
                let behind = piece.line + piece.text.lines().count();
                piece.text += &"\n".repeat(number.saturating_sub(behind));
                piece.text += &text;
                piece.text.push('\n');
            }
            _ => pieces.push(Piece {
                is_guide: true,
                ..Piece::new(file, *number, PieceKind::Script, *role, text + "\n")
            }),
        }
    }
    pieces.retain(|piece| !sweep::mentions(&piece.text, false).is_empty());
    pieces
}

fn block(file: &str, block: &Open, role: Role) -> Parts {
    let language = block.language.as_str();
    let is_about = || !sweep::mentions(&block.body, false).is_empty();
    if matches!(language, "yaml" | "yml") {
        let mut parts = of_yaml::parts(file, block.begins, &block.body, role, &[]);
        // A block about another subject may be invalid.
        parts.unread.retain(|_| is_about());
        return parts;
    }
    let is_shell = ["bash", "sh", "shell", "console", "zsh", "shell-session", "terminal"].contains(&language);
    let form = form_of(&transcript(&block.body).0);
    // Blocks of other languages, or without one, may also be pictures or output.
    let is_open = is_shell
        || [
            "",
            "text",
            "ini",
            "conf",
            "config",
            "properties",
            "plaintext",
            "none",
            "udev",
            "systemd",
            "rules",
        ]
        .contains(&language);
    if !is_open || (!is_shell && form != Some(Form::Unit) && !is_about()) {
        return Parts::default();
    }
    let (text, printed) = transcript(&block.body);
    let kind = form_of(&text).map_or(PieceKind::Script, |form| PieceKind::Settings(form, None));
    let piece = Piece { is_guide: true, ..Piece::new(file, block.begins, kind, role, text) };
    let followed = printed.into_iter().map(|at| block.begins + at).collect();
    Parts { pieces: vec![piece], followed, ..Parts::default() }
}

/// Text after a shell's prompt: `$ `, `[root@k1 ~]# `, `me@k1:~$ `.
fn prompted(line: &str) -> Option<&str> {
    if let Some(command) = line.strip_prefix("$ ") {
        return Some(command);
    }
    let (head, command) = line.split_at_checked(line.find(['$', '#'])?)?;
    let is_of_a_prompt = |c: char| c.is_ascii_alphanumeric() || "@._-:~/[] ".contains(c);
    let is_prompt = head.contains('@') && head.split(' ').count() <= 3 && head.chars().all(is_of_a_prompt);
    command.get(1..)?.strip_prefix(' ').filter(|_| is_prompt)
}

/// The commands of a block, each on its line, and their output: lines without a prompt if others have one.
fn transcript(body: &str) -> (String, Vec<usize>) {
    let has_prompts = body.lines().any(|line| prompted(line).is_some());
    let (mut text, mut printed) = (String::new(), Vec::new());
    // The word that ends a command's here-document.
    let (mut goes_on, mut end) = (false, None::<String>);
    for (at, line) in body.lines().enumerate() {
        let command = prompted(line).unwrap_or(line);
        let is_command =
            !has_prompts || command.len() < line.len() || goes_on || end.is_some() || is_command(line);
        if is_command {
            text += command;
            goes_on = command.ends_with('\\');
            end = match end {
                Some(end) => (line.trim() != end).then_some(end),
                None => here_end(command),
            };
        } else {
            printed.push(at);
        }
        text.push('\n');
    }
    (text, printed)
}

/// The word that ends the here-document of a command.
fn here_end(command: &str) -> Option<String> {
    let (_, behind) = command.split_once("<<")?;
    let word = behind.trim_start_matches('-').split_whitespace().next()?;
    Some(word.trim_matches(['\'', '"', '\\']).to_owned()).filter(|word| !word.starts_with('<'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_of_yaml_that_can_not_be_read_says_why_where_it_is_about_settings() {
        let guide = |body: &str| parts("guide.md", &format!("# T\n```yaml\n{body}\n```\n"), &[]).unread;
        let found = guide("- sysctl: {name: vm.swappiness, value: \"1}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == 3 && found[0].1.starts_with("invalid YAML: "), "{found:?}");
        assert_eq!(guide("- name: {x: \"1}"), []);
    }

    #[test]
    fn a_guide_is_its_blocks_and_what_they_are_for() {
        let text = "# Tuning\n```bash\n$ sysctl -w vm.swappiness=1\n```\n~~~ini\n[Unit]\nAfter=x\n~~~\n## Rollback\ntext\n### Steps\n```\nsysctl -w vm.swappiness=60\n```\n## Results\n```\np99 1.97 ms\n```\n```conf\nvm.dirty_ratio = 80 # much\n```\n";
        let found = parts("g/guide.md", text, &[]).pieces;
        let kinds: Vec<(PieceKind, Role, usize)> =
            found.iter().map(|piece| (piece.kind.clone(), piece.role, piece.line)).collect();
        assert_eq!(
            kinds,
            [
                (PieceKind::Script, Role::Change, 3),
                (PieceKind::Settings(Form::Unit, None), Role::Change, 6),
                (PieceKind::Script, Role::Rollback, 13),
                (PieceKind::Settings(Form::Sysctl, None), Role::Change, 20),
            ]
        );
        assert_eq!(found[0].text, "sysctl -w vm.swappiness=1\n");
    }

    #[test]
    fn files_by_what_they_hold() {
        let kind = |file: &str, text: &str| parts(file, text, &[]).pieces[0].kind.clone();
        let form = |form: Form| PieceKind::Settings(form, None);
        assert_eq!(kind("99-x.conf", "# a\nvm.swappiness = 1\n-net/ipv4/x=2\n"), form(Form::Sysctl));
        assert_eq!(kind("x.service", "[Unit]\nDescription=a\n"), form(Form::Unit));
        assert_eq!(kind("tune", "echo 1 > /proc/sys/vm/swappiness\n"), PieceKind::Script);
        assert_eq!(kind("60.rules", "KERNEL==\"sda\"\n"), form(Form::Rules));
        assert_eq!(kind("x", "KERNEL==\"sd*\", \\\n  ATTR{queue/nomerges}=\"2\"\n"), form(Form::Rules));
        assert_eq!(kind("x", "w /sys/a - - - - 1\nd /run/x 0755\n"), form(Form::Tmpfiles));
        assert_eq!(kind("tuned.conf", "[main]\ninclude=a\n[sysctl]\nvm.x=1\n"), form(Form::Tuned));
        assert_eq!(kind("grub", "# a\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet\"\n"), form(Form::Grub));
        assert_eq!(parts("undo-tuning.sh", "x", &[]).pieces[0].role, Role::Rollback);
    }

    /// A guide is known by its fences, and its parts by what they hold.
    #[test]
    fn guides_of_all_kinds() {
        let of = |file: &str, text: &str| -> Vec<(PieceKind, Role, usize, String)> {
            let found = parts(file, text, &[]).pieces;
            found.into_iter().map(|piece| (piece.kind, piece.role, piece.line, piece.text)).collect()
        };
        let fenced = "# A\n```bash\n# why\nvm.swappiness=1   # no swap\n```\n## Roll back\n```bash\nsysctl -w vm.swappiness=60\n```\n";
        let found = of("guide.txt", fenced);
        assert_eq!(found[0].0, PieceKind::Settings(Form::Sysctl, None));
        assert_eq!((found[1].1, found[1].2), (Role::Rollback, 8));
        assert_eq!(of("notes", fenced), found, "whatever its name is");
        // Without any fence: lines that are commands, and a heading that is a line with a colon.
        let plain = "Set the disks up.\n\n  sudo sysctl -w vm.swappiness=1\nvm.dirty_ratio = 80\nThen look at p99.\n\nRollback:\n  sysctl -w vm.swappiness=60\n";
        let found = of("guide.txt", plain);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].2, found[0].3.as_str()),
            (3, "sudo sysctl -w vm.swappiness=1\nvm.dirty_ratio = 80\n")
        );
        assert_eq!((found[1].1, found[1].2), (Role::Rollback, 8));
        let asciidoc = "= Tuning\n\n[source,bash]\n----\nsysctl -w vm.swappiness=1\n----\n";
        assert_eq!(of("x.adoc", asciidoc)[0].2, 5);
        let indented = "Title\n=====\n\nRun::\n\n    $ sysctl -w vm.swappiness=1\n";
        assert_eq!(
            (of("x.rst", indented)[0].2, of("x.rst", indented)[0].3.as_str()),
            (6, "sysctl -w vm.swappiness=1\n")
        );
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*", like in "[`~#a-z =\n]{0,80}") {
            let _ = (parts("a.md", &text, &[]), parts("a.md", &like, &[]), parts("a", &text, &[]), super::super::stated::unit_values(&text, "After"));
        }
    }
}
