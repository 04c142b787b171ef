//! Settings that udev rules make on a disk when it appears. Conditions that files decide are evaluated. Others count as true and are
//! reported, since a rule that may set a value is worth mentioning. The code runs nothing.

use std::collections::BTreeMap;

use crate::glob::is_meant;
use crate::kernel::Kernel;
use crate::sysctl_text;

/// An element of a rule: `ATTR{queue/scheduler}=="none"`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    key: String,
    /// Text in braces after the key.
    of: String,
    operator: String,
    value: String,
}

impl Piece {
    fn is_condition(&self) -> bool {
        matches!(self.operator.as_str(), "==" | "!=")
    }

    /// The action of an element, if it concerns settings. `bdi/` is another path to the queue's readahead.
    fn deed(&self) -> Option<Deed> {
        let value = || self.value.clone();
        match (self.key.as_str(), self.operator.as_str()) {
            ("ATTR", "=" | ":=") => {
                let attribute = self.of.replacen("bdi/", "queue/", 1);
                Some(Deed::Attribute { attribute, value: value() })
            }
            ("SYSCTL", "=" | ":=") => {
                Some(Deed::Sysctl { path: sysctl_text::path_of(&self.of), value: value() })
            }
            ("RUN", "=" | "+=" | ":=") if self.of != "builtin" => Some(Deed::Command(value())),
            _ => None,
        }
    }
}

impl std::fmt::Display for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = if self.of.is_empty() { String::new() } else { format!("{{{}}}", self.of) };
        write!(f, "{}{of}{}\"{}\"", self.key, self.operator, self.value)
    }
}

/// Action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It sets an attribute of the device, below the device's folder.
    Attribute { attribute: String, value: String },
    /// It sets a sysctl.
    Sysctl { path: String, value: String },
    /// It starts a command.
    Command(String),
}

/// An action of a rule for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// The rule's first line, counted from 1.
    pub(crate) line: usize,
    pub(crate) deed: Deed,
    /// Conditions that only udev can decide.
    pub(crate) undecided: Vec<String>,
}

/// A rule with an action, for any device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) line: usize,
    pub(crate) deeds: Vec<Deed>,
    /// Its conditions, as written.
    pub(crate) conditions: String,
}

/// An attribute of a disk below `sys/block/DISK`, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) attribute: String,
    pub(crate) value: String,
}

/// The rule inserts something that only udev knows.
pub(crate) fn is_put_in(value: &str) -> bool {
    value.contains(['$', '%'])
}

/// Attributes of a disk's queue that a rules file sets or may set, in order.
pub(crate) fn settings(kernel: &dyn Kernel, disk: &str, text: &str) -> Vec<Set> {
    let of_queue = |done: Done| match done.deed {
        Deed::Attribute { attribute, value } if attribute.starts_with("queue/") && !is_put_in(&value) => {
            Some(Set { attribute, value })
        }
        _ => None,
    };
    deeds(kernel, &format!("sys/block/{disk}"), text).into_iter().filter_map(of_queue).collect()
}

/// The rules of a text with an action.
pub(crate) fn doing(text: &str) -> Vec<Doing> {
    let of = |(line, rule): (usize, Vec<Piece>)| {
        let conditions: Vec<String> =
            rule.iter().filter(|piece| piece.is_condition()).map(Piece::to_string).collect();
        let deeds: Vec<Deed> = rule.iter().filter_map(Piece::deed).collect();
        (!deeds.is_empty()).then(|| Doing { line, deeds, conditions: conditions.join(", ") })
    };
    rules(text).into_iter().filter_map(of).collect()
}

/// Actions of a rules file for a disk or a partition with this folder.
pub(crate) fn deeds(kernel: &dyn Kernel, folder: &str, text: &str) -> Vec<Done> {
    let mut device = Device::new(kernel, folder);
    let (mut done, mut awaited) = (Vec::new(), None);
    for (line, rule) in &rules(text) {
        let value_of = |key: &str| {
            rule.iter().find(|piece| piece.key == key && piece.operator == "=").map(|piece| &piece.value)
        };
        if let Some(label) = &awaited {
            if value_of("LABEL") == Some(label) {
                awaited = None;
            }
            continue;
        }
        device.import(rule);
        let asked: Vec<(&Piece, Option<bool>)> = rule
            .iter()
            .filter(|piece| piece.is_condition())
            .map(|piece| (piece, device.holds(piece)))
            .collect();
        if asked.iter().any(|(_, answer)| *answer == Some(false)) {
            continue;
        }
        let undecided: Vec<String> =
            asked.iter().filter(|(_, answer)| answer.is_none()).map(|(piece, _)| piece.to_string()).collect();
        let of = |deed: Deed| Done { line: *line, deed, undecided: undecided.clone() };
        done.extend(rule.iter().filter_map(Piece::deed).map(of));
        if undecided.is_empty() {
            device.keep(rule);
            awaited = value_of("GOTO").cloned();
        }
    }
    done
}

/// A disk or a partition as udev sees it.
struct Device<'k> {
    kernel: &'k dyn Kernel,
    folder: &'k str,
    name: &'k str,
    properties: BTreeMap<String, String>,
    /// Whether these are all of its properties, since udev's own record of it is available.
    has_record: bool,
}

impl<'k> Device<'k> {
    fn new(kernel: &'k dyn Kernel, folder: &'k str) -> Self {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let read =
            |file: &str| kernel.read(&format!("{folder}/{file}")).ok().map(|text| text.trim().to_owned());
        let kind = if read("partition").is_some() { "partition" } else { "disk" };
        let number = read("dev").unwrap_or_default();
        let record = kernel.read(&format!("run/udev/data/b{number}")).ok().filter(|_| !number.is_empty());
        let mut properties = BTreeMap::new();
        for line in record.iter().flat_map(|text| text.lines()) {
            if let Some((name, value)) = line.strip_prefix("E:").and_then(|line| line.split_once('=')) {
                properties.insert(name.to_owned(), value.to_owned());
            }
        }
        let (major, minor) = number.split_once(':').unwrap_or_default();
        let known = [("DEVTYPE", kind), ("MAJOR", major), ("MINOR", minor)];
        properties.extend(known.map(|(name, value)| (name.to_owned(), value.to_owned())));
        properties.insert("DEVNAME".to_owned(), format!("/dev/{name}"));
        for (key, file) in [("DM_NAME", "dm/name"), ("DM_UUID", "dm/uuid")] {
            // Devices that the device mapper did not create have no name there.
            properties.insert(key.to_owned(), read(file).unwrap_or_default());
        }
        Self { kernel, folder, name, properties, has_record: record.is_some() }
    }

    /// `IMPORT{cmdline}="elevator"`: a word of the kernel's command line.
    fn import(&mut self, rule: &[Piece]) {
        for piece in rule.iter().filter(|piece| piece.key == "IMPORT" && piece.of == "cmdline") {
            let text = self.kernel.read("proc/cmdline").unwrap_or_default();
            let word = text.split_whitespace().find_map(|word| {
                let (name, value) = word.split_once('=').unwrap_or((word, "1"));
                (name == piece.value).then(|| value.to_owned())
            });
            self.properties.insert(piece.value.clone(), word.unwrap_or_default());
        }
    }

    /// Properties that a rule sets for the device.
    fn keep(&mut self, rule: &[Piece]) {
        for piece in rule.iter().filter(|piece| piece.key == "ENV" && piece.operator == "=") {
            if !is_put_in(&piece.value) {
                self.properties.insert(piece.of.clone(), piece.value.clone());
            }
        }
    }

    fn property(&self, name: &str) -> Option<String> {
        let is_of_a_mapper = name.starts_with("DM_") && self.property_is_empty("DM_NAME");
        let known = self.properties.get(name).cloned();
        known.or_else(|| (self.has_record || is_of_a_mapper).then(String::new))
    }

    fn property_is_empty(&self, name: &str) -> bool {
        self.properties.get(name).is_none_or(String::is_empty)
    }

    /// Whether a condition is true; `None` if only udev knows.
    fn holds(&self, piece: &Piece) -> Option<bool> {
        let attribute = |place: &str| {
            self.kernel.read(&format!("{}/{place}", self.folder)).ok().map(|text| text.trim().to_owned())
        };
        let is_one = |found: &str| piece.value.split('|').any(|pattern| is_meant(pattern.trim_end(), found));
        let found = match piece.key.as_str() {
            // The device appears, and `udevadm trigger` reports a change.
            "ACTION" if piece.operator == "==" => return Some(is_one("add") || is_one("change")),
            "ACTION" => Some("add".to_owned()),
            "SUBSYSTEM" => Some("block".to_owned()),
            "KERNEL" => Some(self.name.to_owned()),
            "ENV" => Some(self.property(&piece.of)?),
            // A condition about a missing attribute is false, with either operator.
            "ATTR" => attribute(&piece.of),
            // An attribute of the disk itself or of a device above it, of which the nearest one is available.
            "ATTRS" => Some(attribute(&piece.of).or_else(|| attribute(&format!("device/{}", piece.of)))?),
            "TEST" if !is_put_in(&piece.value) => {
                let place = piece.value.strip_prefix('/').map(str::to_owned);
                let place = place.unwrap_or_else(|| format!("{}/{}", self.folder, piece.value));
                return Some(self.kernel.exists(&place) == (piece.operator == "=="));
            }
            _ => return None,
        };
        let Some(found) = found else { return Some(false) };
        Some(is_one(&found) == (piece.operator == "=="))
    }
}

/// The rules of a file, each with its first line. A backslash at a line's end joins it with the next one; remarks in between are left out
/// (udev(7)).
fn rules(text: &str) -> Vec<(usize, Vec<Piece>)> {
    let (mut all, mut whole, mut begun) = (Vec::new(), String::new(), 1);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
        if whole.is_empty() {
            begun = at + 1;
        }
        match line.trim_end().strip_suffix('\\') {
            Some(head) => whole.push_str(head),
            None => {
                whole.push_str(line);
                all.push((begun, pieces(&whole)));
                whole.clear();
            }
        }
    }
    all.push((begun, pieces(&whole)));
    all
}

fn pieces(line: &str) -> Vec<Piece> {
    let (mut found, mut rest) = (Vec::new(), line);
    while let Some((head, behind)) = rest.split_once('"') {
        // A value may contain a quote after a backslash.
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
        // Text in braces may contain any of these.
        let behind_braces = head.find('}').unwrap_or_default();
        let operator = head.get(behind_braces..).and_then(|rest| rest.find(['=', '!', '+', '-', ':']));
        let operator_at = operator.map_or(head.len(), |at| behind_braces + at);
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
        let found = settings(&Files::new(root.path()), disk, text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|set| (set.attribute.as_str(), set.value.as_str())).collect();
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
    fn properties_are_of_files_or_not_decided() {
        let root = root();
        let add = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        add("sys/block/dm-0/dm/name", "mpatha\n");
        add("sys/block/sda/dev", "8:0\n");
        add("sys/block/sda/sda1/partition", "1\n");
        let files = Files::new(root.path());
        let of = |folder: &str, text: &str| deeds(&files, folder, text);
        let mapped =
            "# a\nSUBSYSTEM==\"block\", ENV{DM_NAME}==\"mpath*\", \\\n ATTR{bdi/read_ahead_kb}=\"1\"\n";
        assert_eq!(of("sys/block/sda", mapped), []);
        let found = of("sys/block/dm-0", mapped);
        assert_eq!((found[0].line, found[0].undecided.len()), (2, 0));
        let deed = Deed::Attribute { attribute: "queue/read_ahead_kb".into(), value: "1".into() };
        assert_eq!(found[0].deed, deed);
        // Conditions that only udev's record decides stay open without it.
        let bus = "ENV{ID_BUS}==\"ata\", SYSCTL{vm.swappiness}=\"1\"";
        assert_eq!(of("sys/block/sda", bus)[0].undecided, ["ENV{ID_BUS}==\"ata\""]);
        add("run/udev/data/b8:0", "S:disk/by-id/x\nE:ID_BUS=scsi\n");
        assert_eq!(of("sys/block/sda", bus), []);
        // Partitions are devices, too; a rule may give a property that a later one asks for.
        let given = "KERNEL==\"sda1\", ENV{mine}=\"1\"\nENV{mine}==\"1\", ENV{DEVTYPE}==\"partition\", TEST==\"partition\", RUN+=\"/bin/x %k\"";
        assert_eq!(of("sys/block/sda/sda1", given)[0].deed, Deed::Command("/bin/x %k".into()));
        assert_eq!(of("sys/block/sda", given), []);
        assert_eq!(doing(mapped)[0].conditions, "SUBSYSTEM==\"block\", ENV{DM_NAME}==\"mpath*\"");
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
            let _ = (settings(&files, "sda", &text), settings(&files, "sda", &like), doing(&text), doing(&like));
        }
    }
}
