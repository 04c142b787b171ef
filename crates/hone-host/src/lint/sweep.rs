//! Names of settings anywhere in a text: an unfollowed setting must not look like a clean result.

/// A setting that a line names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mention {
    /// Line number from 1.
    pub(super) line: usize,
    /// Name as in [`super::stated::name_of`].
    pub(super) name: String,
}

/// Families of sysctls. [`is_sysctl`] excludes other words with such a beginning (`kernel.org`, `fs.readFile`).
const ROOTS: [&str; 5] = ["vm.", "net.", "kernel.", "fs.", "dev."];
/// Names, or beginnings of names, in families that are common words in other languages.
const NETS: [&str; 6] = ["core.", "ipv4.", "ipv6.", "netfilter.", "unix.", "bridge."];
const OF_FS: [&str; 8] =
    ["aio-max-nr", "aio-nr", "file-max", "nr_open", "inotify.", "epoll.", "pipe-", "mqueue."];
const OF_KERNEL: [&str; 18] = [
    "sched_",
    "numa_",
    "pid_max",
    "threads-max",
    "shm",
    "sem",
    "msg",
    "core_",
    "watchdog",
    "nmi_watchdog",
    "perf_event_",
    "hung_task_",
    "panic",
    "printk",
    "timer_migration",
    "randomize_va_space",
    "kptr_restrict",
    "sysrq",
];
/// Names of `vm.` without an underscore.
const OF_VM: [&str; 3] = ["swappiness", "overcommit_memory", "compact_memory"];
/// Attributes of a queue, by file name.
const OF_QUEUE: [&str; 12] = [
    "read_ahead_kb",
    "nr_requests",
    "nomerges",
    "rq_affinity",
    "scheduler",
    "max_sectors_kb",
    "wbt_lat_usec",
    "write_cache",
    "io_poll",
    "io_poll_delay",
    "add_random",
    "rotational",
];

/// Whether a name with dots is a sysctl's.
pub(super) fn is_sysctl(name: &str) -> bool {
    let begins = |all: &[&str], rest: &str| all.iter().any(|head| rest.starts_with(head));
    let Some((root, rest)) = name.split_once('.') else { return false };
    let last = rest.rsplit('.').next().unwrap_or_default();
    if last.is_empty() || !rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-/*".contains(c)) {
        return false;
    }
    match root {
        // The kernel's names have small letters; `vm.maxMemory` belongs to another language.
        "vm" => {
            !rest.contains('.')
                && (OF_VM.contains(&rest) || rest.contains('_'))
                && !rest.contains(|c: char| c.is_ascii_uppercase())
        }
        "net" => begins(&NETS, rest) && last != rest,
        "kernel" => begins(&OF_KERNEL, rest),
        "fs" => begins(&OF_FS, rest),
        "dev" => begins(&["raid.", "scsi.", "hpet."], rest),
        _ => false,
    }
}

fn name_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || "._-/*{}$".contains(c)))
        .filter(|word| !word.is_empty())
}

fn of_word(word: &str) -> Option<String> {
    let word = word.trim_matches(['.', '-', '*', '{', '}']);
    if let Some((_, path)) = word.split_once("/proc/sys/") {
        let name = path.trim_end_matches('/').replace('/', ".");
        return name.contains('.').then_some(name);
    }
    for (folder, file) in [("enabled", "enabled"), ("defrag", "defrag")] {
        if word.ends_with(&format!("transparent_hugepage/{folder}")) {
            return Some(format!("transparent_hugepage.{file}"));
        }
    }
    if let Some((_, file)) = word.rsplit_once("queue/") {
        let is_one = OF_QUEUE.contains(&file) || file.starts_with("iosched/");
        return is_one.then(|| format!("queue.{}", file.replace('/', ".")));
    }
    let bare = word.replace('/', ".");
    let at = ROOTS.iter().filter_map(|root| bare.find(root)).min()?;
    let is_begin = at == 0 || !bare.get(..at)?.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
    let name = bare.get(at..)?;
    (is_begin && is_sysctl(name)).then(|| name.to_owned())
}

/// Names of settings in cloud APIs (GKE's LinuxNodeConfig, AKS' LinuxOSConfig), in small letters.
const OF_CLOUDS: [(&str, &str); 12] = [
    ("transparenthugepageenabled", "transparent_hugepage.enabled"),
    ("transparenthugepagedefrag", "transparent_hugepage.defrag"),
    ("transparent_hugepage_enabled", "transparent_hugepage.enabled"),
    ("transparent_hugepage_defrag", "transparent_hugepage.defrag"),
    ("vmswappiness", "vm.swappiness"),
    ("vmmaxmapcount", "vm.max_map_count"),
    ("vmvfscachepressure", "vm.vfs_cache_pressure"),
    ("fsaiomaxnr", "fs.aio-max-nr"),
    ("fsfilemax", "fs.file-max"),
    ("netcoresomaxconn", "net.core.somaxconn"),
    ("netcorermemmax", "net.core.rmem_max"),
    ("netcorewmemmax", "net.core.wmem_max"),
];

/// Words that name a setting without a path.
fn plain(line: &str) -> Vec<&'static str> {
    let has = |word: &str| line.contains(word);
    let small = line.to_lowercase();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<&str> = small.split(|c| !is_part(c)).collect();
    let of_clouds = OF_CLOUDS.iter().filter(|(word, _)| words.contains(word));
    let mut found: Vec<&str> = of_clouds.map(|(_, name)| *name).collect();
    if has("transparent_hugepage=") || has("transparent_hugepages=") {
        found.push("transparent_hugepage.enabled");
    }
    if has("elevator=") {
        found.push("queue.scheduler");
    }
    if has("--setra") || (has("read_ahead_kb") && !has("queue/read_ahead_kb")) || has("readahead=") {
        found.push("queue.read_ahead_kb");
    }
    if has("nr_requests") && !has("queue/nr_requests") {
        found.push("queue.nr_requests");
    }
    found
}

/// The settings that a text names, except in remarks. `is_prose`: a `#` begins a heading and not a remark.
pub(super) fn mentions(text: &str, is_prose: bool) -> Vec<Mention> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = if is_prose { line } else { without_remark(line) };
        let names = name_words(line).filter_map(of_word).chain(plain(line).into_iter().map(str::to_owned));
        found.extend(names.map(|name| Mention { line: at + 1, name }));
    }
    found.sort();
    found.dedup();
    found
}

/// A line without the text after a `#` or `;` at its beginning or after a space.
fn without_remark(line: &str) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    line.find(" #").and_then(|at| line.get(..at)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        mentions(text, true).into_iter().map(|mention| mention.name).collect()
    }

    #[test]
    fn settings_are_known_in_any_dress() {
        for (text, expected) in [
            ("sysctl 'vm.swappiness' do", "vm.swappiness"),
            ("| `vm.dirty_ratio` | 80 |", "vm.dirty_ratio"),
            ("open(\"/proc/sys/vm/dirty_ratio\", \"w\")", "vm.dirty_ratio"),
            ("w('/sys/block/' + d + '/queue/nr_requests', 32)", "queue.nr_requests"),
            ("\"net.ipv4.tcp_rmem\" = \"4096\"", "net.ipv4.tcp_rmem"),
            ("net/core/somaxconn=1", "net.core.somaxconn"),
            ("fs.aio-max-nr: 1048576", "fs.aio-max-nr"),
            ("echo never > /sys/kernel/mm/transparent_hugepage/enabled", "transparent_hugepage.enabled"),
            ("linux /vmlinuz elevator=noop", "queue.scheduler"),
            ("ATTR{queue/read_ahead_kb}=\"0\"", "queue.read_ahead_kb"),
            ("\"vmSwappiness\": 1", "vm.swappiness"),
            (
                "transparentHugePageEnabled: TRANSPARENT_HUGEPAGE_ENABLED_NEVER",
                "transparent_hugepage.enabled",
            ),
            ("- name: kernel.sched_migration_cost_ns", "kernel.sched_migration_cost_ns"),
        ] {
            assert_eq!(names(text), [expected], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "see https://www.kernel.org/doc/vm.html",
            "fs.readFile(x); net.Conn; net.createServer",
            "const vm = require('vm'); vm.runInContext(a); vm.maxMemory = 1",
            "the scheduler and its queue depths",
            "kernel.version, dev.example.com, fs.default.name",
            "com.acme.vm.dirty_ratio_exporter",
        ] {
            assert_eq!(names(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(mentions("# vm.swappiness = 1\nx # vm.dirty_ratio\n", false), []);
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*", like in "[vm.net/procsyqueu_#\n ]{0,60}") {
            let _ = (mentions(&text, true), mentions(&like, false));
        }
    }
}
