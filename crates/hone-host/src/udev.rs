//! What rules of udev set on a disk when it appears: conditions that the disk's own files decide are decided, others are taken
//! for true, since a rule that may set a value is worth naming. Nothing is run.

use std::collections::BTreeMap;

use crate::glob::is_meant;
use crate::kernel::Kernel;

/// A piece of a rule: `ATTR{queue/scheduler}=="none"`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    key: String,
    /// What stands in braces behind the key.
    of: String,
    operator: String,
    value: String,
}

/// Attributes below `queue/` that a file of rules sets on a disk, with their values, in their order.
pub(crate) fn queue_settings(kernel: &dyn Kernel, disk: &str, text: &str) -> Vec<(String, String)> {
    let rules = rules(text);
    let mut environment = BTreeMap::from([("DEVTYPE".to_owned(), "disk".to_owned())]);
    let (mut settings, mut awaited) = (Vec::new(), None);
    for rule in &rules {
        let value_of = |key: &str| {
            rule.iter().find(|piece| piece.key == key && piece.operator == "=").map(|piece| &piece.value)
        };
        if let Some(label) = &awaited {
            if value_of("LABEL") == Some(label) {
                awaited = None;
            }
            continue;
        }
        import(kernel, rule, &mut environment);
        let answers: Vec<Option<bool>> = rule
            .iter()
            .filter(|piece| matches!(piece.operator.as_str(), "==" | "!="))
            .map(|piece| holds(kernel, disk, piece, &environment))
            .collect();
        if answers.contains(&Some(false)) {
            continue;
        }
        let is_queue =
            |piece: &&Piece| piece.key == "ATTR" && piece.operator == "=" && piece.of.starts_with("queue/");
        // What is put in by udev is known to udev alone.
        let is_plain = |piece: &&Piece| !piece.value.contains(['$', '%']);
        let found = rule.iter().filter(is_queue).filter(is_plain);
        settings.extend(found.map(|piece| (piece.of.clone(), piece.value.clone())));
        if answers.iter().all(|answer| *answer == Some(true)) {
            awaited = value_of("GOTO").cloned();
        }
    }
    settings
}

/// `IMPORT{cmdline}="elevator"`: a word of the kernel's command line.
fn import(kernel: &dyn Kernel, rule: &[Piece], environment: &mut BTreeMap<String, String>) {
    for piece in rule.iter().filter(|piece| piece.key == "IMPORT" && piece.of == "cmdline") {
        let text = kernel.read("proc/cmdline").unwrap_or_default();
        let word = text.split_whitespace().find_map(|word| {
            let (name, value) = word.split_once('=').unwrap_or((word, "1"));
            (name == piece.value).then(|| value.to_owned())
        });
        environment.insert(piece.value.clone(), word.unwrap_or_default());
    }
}

/// Whether a condition holds; `None` where only udev knows.
fn holds(
    kernel: &dyn Kernel,
    disk: &str,
    piece: &Piece,
    environment: &BTreeMap<String, String>,
) -> Option<bool> {
    let attribute = |place: &str| {
        kernel.read(&format!("sys/block/{disk}/{place}")).ok().map(|text| text.trim().to_owned())
    };
    let found = match piece.key.as_str() {
        "ACTION" => Some("add".to_owned()),
        "SUBSYSTEM" => Some("block".to_owned()),
        "KERNEL" => Some(disk.to_owned()),
        "ENV" => Some(environment.get(&piece.of)?.clone()),
        // A rule asks for what is not there: it does not hold, whichever way it asks.
        "ATTR" => attribute(&piece.of),
        // Of the disk itself or of a device above it, of which the nearest one is at hand.
        "ATTRS" => Some(attribute(&piece.of).or_else(|| attribute(&format!("device/{}", piece.of)))?),
        _ => return None,
    };
    let Some(found) = found else { return Some(false) };
    let is_one = piece.value.split('|').any(|pattern| is_meant(pattern.trim_end(), &found));
    Some(is_one == (piece.operator == "=="))
}

/// The rules of a file. A backslash at a line's end joins it with the next one; remarks in between are left out (udev(7)).
fn rules(text: &str) -> Vec<Vec<Piece>> {
    let (mut all, mut whole) = (Vec::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match line.trim_end().strip_suffix('\\') {
            Some(begun) => whole.push_str(begun),
            None => {
                whole.push_str(line);
                all.push(pieces(&whole));
                whole.clear();
            }
        }
    }
    all.push(pieces(&whole));
    all
}

fn pieces(line: &str) -> Vec<Piece> {
    let (mut found, mut rest) = (Vec::new(), line);
    while let Some((head, behind)) = rest.split_once('"') {
        // A value may itself hold a quote behind a backslash.
        let mut end = None;
        let mut escaped = false;
        for (at, c) in behind.char_indices() {
            match c {
                '"' if !escaped => {
                    end = Some(at);
                    break;
                }
                _ => escaped = c == '\\' && !escaped,
            }
        }
        let Some((value, next)) = end.and_then(|end| Some((behind.get(..end)?, behind.get(end + 1..)?)))
        else {
            break;
        };
        let head = head.trim_matches([' ', '\t', ',']).trim_end_matches(['e', 'i']);
        let operator_at = head.find(['=', '!', '+', '-', ':']).unwrap_or(head.len());
        let (name, operator) = head.split_at(operator_at);
        let (key, of) = name.trim().split_once('{').unwrap_or((name.trim(), ""));
        found.push(Piece {
            key: key.to_owned(),
            of: of.trim_end_matches('}').to_owned(),
            operator: operator.trim().to_owned(),
            value: value.to_owned(),
        });
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;
    use std::fs;

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store              \n"),
            ("sys/block/sda/queue/rotational", "1\n"),
            ("proc/cmdline", "quiet elevator=kyber\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[track_caller]
    fn check(disk: &str, text: &str, expected: &[(&str, &str)]) {
        let root = root();
        let found = queue_settings(&Files::new(root.path()), disk, text);
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected, "{disk}: {text}");
    }

    #[test]
    fn a_rule_is_of_the_disks_that_it_means() {
        let fedora = "ACTION==\"add\", SUBSYSTEM==\"block\", \\\n# a remark\n  KERNEL==\"mmcblk*[0-9]|sd*[!0-9]|sr*\", \\\n  ATTR{queue/scheduler}=\"bfq\"\n";
        check("sda", fedora, &[("queue/scheduler", "bfq")]);
        check("nvme0n1", fedora, &[]);
        let turning = "ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"";
        check("nvme0n1", turning, &[("queue/scheduler", "none")]);
        check("sda", turning, &[]);
        check("sda", "ATTR{no/such}!=\"1\", ATTR{queue/nomerges}=\"2\"", &[]);
        let model =
            "ATTRS{model}==\"Amazon Elastic Block Store              \", ATTR{queue/io_timeout}=\"9\"";
        check("nvme0n1", model, &[("queue/io_timeout", "9")]);
        check("sda", "ENV{ID_BUS}==\"ata\", ATTR{queue/nomerges}=\"2\"", &[("queue/nomerges", "2")]);
    }

    #[test]
    fn jumps_of_the_rule_for_the_elevator() {
        let jump = |word: &str| {
            format!(
                "KERNEL==\"dm-*|nvme*\", GOTO=\"out\"\nIMPORT{{cmdline}}=\"{word}\"\nENV{{{word}}}!=\"?*\", GOTO=\"out\"\nATTR{{queue/nomerges}}=\"1\"\nATTR{{queue/scheduler}}=\"$env{{{word}}}\"\nLABEL=\"out\"\nATTR{{queue/rq_affinity}}=\"2\"\n"
            )
        };
        let behind = ("queue/rq_affinity", "2");
        check("nvme0n1", &jump("elevator"), &[behind]);
        check("sda", &jump("elevator"), &[("queue/nomerges", "1"), behind]);
        check("sda", &jump("absent"), &[behind]);
    }

    proptest! {
        #[test]
        fn foreign_rules_do_no_harm(text in "\\PC*", like in "[A-Z{}=!\"\\\\, *\\[a-c\n]{0,60}") {
            let root = tempfile::tempdir().unwrap();
            let files = Files::new(root.path());
            let _ = (queue_settings(&files, "sda", &text), queue_settings(&files, "sda", &like));
        }
    }
}
