//! Caches of an earlier run: classes that are loaded and linked, and from JDK 25 on the profiles of their methods. A cache shortens the start
//! and the warm-up (JEP 350, 483, 514, 515).
//!
//! The virtual machine ignores a cache that does not fit, with a warning at most. JDK 25.0.3 even takes the classes of a cache whose jar has
//! changed. So Hone keeps the hashes of all that a cache depends on, and counts the classes that came from it.

use serde::{Deserialize, Serialize};

use crate::command::{JavaCommand, Key};

/// How a release makes and uses a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// JDK 25 and later: one run makes it as it ends (JEP 514), with method profiles (JEP 515).
    Aot,
    /// JDK 24: one run records, a second one makes it (JEP 483).
    AotInTwoSteps,
    /// JDK 13 to 23: class data of the application, on top of the JDK's own (JEP 350).
    ClassData,
}

/// The flag of the two kinds of AOT caches.
const AOT_CACHE: &str = "AOTCache";
const CLASS_DATA: &str = "SharedArchiveFile";
/// Flags of a training, which the run that uses the cache does not have.
const TRAINING: [&str; 5] =
    ["AOTCacheOutput", "AOTConfiguration", "AOTMode", "ArchiveClassesAtExit", "RecordDynamicDumpInfo"];

impl CacheKind {
    /// The kind of a release; `None` if it has none for applications.
    pub fn for_release(feature: u32) -> Option<Self> {
        match feature {
            25.. => Some(Self::Aot),
            24 => Some(Self::AotInTwoSteps),
            13..=23 => Some(Self::ClassData),
            _ => None,
        }
    }

    /// In words, for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Aot => "AOT cache with method profiles",
            Self::AotInTwoSteps => "AOT cache without method profiles",
            Self::ClassData => "class-data archive of the application",
        }
    }

    /// The usual end of its file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Aot | Self::AotInTwoSteps => "aot",
            Self::ClassData => "jsa",
        }
    }

    /// The command of the run that trains: it makes the cache as it ends, or records for it.
    pub fn training(self, command: &JavaCommand, file: &str) -> JavaCommand {
        let mut training = without_cache(command);
        match self {
            Self::Aot => training.set(&format!("-XX:AOTCacheOutput={file}")),
            Self::AotInTwoSteps => {
                training.set("-XX:AOTMode=record");
                training.set(&format!("-XX:AOTConfiguration={}", recording(file)));
            }
            Self::ClassData => training.set(&format!("-XX:ArchiveClassesAtExit={file}")),
        }
        training
    }

    /// The command that makes the cache of a recording; `None` if the training makes it.
    pub fn making(self, command: &JavaCommand, file: &str) -> Option<JavaCommand> {
        if self != Self::AotInTwoSteps {
            return None;
        }
        let mut making = without_cache(command);
        making.set("-XX:AOTMode=create");
        making.set(&format!("-XX:AOTConfiguration={}", recording(file)));
        making.set(&format!("-XX:AOTCache={file}"));
        Some(making)
    }

    /// The command that uses the cache.
    pub fn using(self, command: &JavaCommand, file: &str) -> JavaCommand {
        let mut using = without_cache(command);
        match self {
            Self::Aot | Self::AotInTwoSteps => using.set(&format!("-XX:{AOT_CACHE}={file}")),
            Self::ClassData => using.set(&format!("-XX:{CLASS_DATA}={file}")),
        }
        using
    }
}

/// The recording from which a cache is made.
pub fn recording(file: &str) -> String {
    format!("{file}.config")
}

/// The command without any cache and without the options of a training.
pub fn without_cache(command: &JavaCommand) -> JavaCommand {
    let mut plain = command.clone();
    for name in TRAINING.into_iter().chain([AOT_CACHE, CLASS_DATA]) {
        plain.remove(&Key::Flag(name.to_owned()));
    }
    plain.remove(&Key::Share);
    plain
}

/// The option that writes what [`LoadedClasses`] and [`complaints`] read.
pub fn log_option(file: &str, feature: u32) -> String {
    // JDK 24 renamed `cds`; a tag that a release does not know ends it.
    let tags = if feature >= 24 { "aot=info,cds=info" } else { "cds=info" };
    format!("-Xlog:{tags},class+load=info:file={file}:uptime,level,tags:filecount=0")
}

/// Where the classes of a run came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedClasses {
    /// From a shared file: the cache, or the JDK's own archive.
    pub shared: u64,
    /// From the application's own archive on top of the JDK's (JDK 13 to 23).
    pub top: u64,
    /// All classes.
    pub all: u64,
}

impl LoadedClasses {
    /// Counts the lines of `class+load` in a log. Classes that the program makes as it runs come from no file, and do not count.
    pub fn of_log(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let Some((_, source)) = line.split_once(" source: ") else { continue };
            if !line.contains("[class,load") || source.starts_with("__") {
                continue;
            }
            found.all += 1;
            found.shared += u64::from(source.starts_with("shared objects file"));
            found.top += u64::from(source.starts_with("shared objects file (top)"));
        }
        found
    }

    /// The classes that came from a cache of this kind.
    pub fn cached(&self, kind: CacheKind) -> u64 {
        if kind == CacheKind::ClassData { self.top } else { self.shared }
    }

    /// The share of classes that came from a cache of this kind.
    pub fn share(&self, kind: CacheKind) -> f64 {
        self.cached(kind) as f64 / self.all.max(1) as f64
    }
}

/// Sentences with which the virtual machine says that it does not use a cache, in its own words and without their marks.
pub fn complaints(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        let (marks, said) = split_marks(line);
        let is_more = !marks.is_empty() && marks.iter().all(|mark| mark.trim().is_empty());
        let is_bad = marks.iter().any(|mark| ["warning", "error"].contains(&mark.trim()));
        let is_of_a_cache = marks.iter().any(|mark| {
            let first = mark.split(',').next().unwrap_or_default().trim();
            ["aot", "cds"].contains(&first)
        });
        if is_more && is_open {
            found.last_mut().into_iter().for_each(|last| {
                last.push(' ');
                last.push_str(said.trim());
            });
            continue;
        }
        is_open = is_bad && is_of_a_cache && !is_harmless(said);
        if is_open && !found.iter().any(|one| one == said.trim()) {
            found.push(said.trim().to_owned());
        }
    }
    found
}

/// What a training says of single classes that it leaves out.
fn is_harmless(said: &str) -> bool {
    let said = said.trim_start();
    said.starts_with("Skipping ") || said.starts_with("Preload Warning")
}

/// The marks in brackets at the beginning of a line, and the text after them.
fn split_marks(line: &str) -> (Vec<&str>, &str) {
    let (mut marks, mut rest) = (Vec::new(), line);
    while let Some((mark, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        marks.push(mark);
        rest = after;
    }
    (marks, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> JavaCommand {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        JavaCommand::parse(&words).unwrap()
    }

    #[test]
    fn each_release_has_its_way() {
        let kinds = [8, 11, 13, 17, 21, 23, 24, 25, 26].map(CacheKind::for_release);
        let data = Some(CacheKind::ClassData);
        let aot = Some(CacheKind::Aot);
        assert_eq!(kinds, [None, None, data, data, data, data, Some(CacheKind::AotInTwoSteps), aot, aot]);
        let plain = command("java -Xshare:off -XX:AOTCache=old -Xmx1g -jar x");
        let line = |command: JavaCommand| command.to_string();
        assert_eq!(line(CacheKind::Aot.training(&plain, "a")), "java -Xmx1g -XX:AOTCacheOutput=a -jar x");
        assert_eq!(line(CacheKind::Aot.using(&plain, "a")), "java -Xmx1g -XX:AOTCache=a -jar x");
        assert_eq!(CacheKind::Aot.making(&plain, "a"), None);
        let two = CacheKind::AotInTwoSteps;
        assert_eq!(
            line(two.training(&plain, "a")),
            "java -Xmx1g -XX:AOTMode=record -XX:AOTConfiguration=a.config -jar x"
        );
        assert_eq!(
            line(two.making(&plain, "a").unwrap()),
            "java -Xmx1g -XX:AOTMode=create -XX:AOTConfiguration=a.config -XX:AOTCache=a -jar x"
        );
        let data = CacheKind::ClassData;
        assert_eq!(line(data.training(&plain, "a")), "java -Xmx1g -XX:ArchiveClassesAtExit=a -jar x");
        assert_eq!(line(data.using(&plain, "a")), "java -Xmx1g -XX:SharedArchiveFile=a -jar x");
    }

    #[test]
    fn classes_are_counted_by_their_source() {
        let text = "[0.1s][info][class,load] a.A source: shared objects file (top)\n\
                    [0.1s][info][class,load ] a.B source: shared objects file\n\
                    [0.1s][info][class,load] a.C source: file:/x.jar\n\
                    [0.1s][info][class,load] a.D$$Lambda/0x1 source: __JVM_LookupDefineClass__\n\
                    [0.1s][info][aot] source: nothing\n";
        let found = LoadedClasses::of_log(text);
        assert_eq!(found, LoadedClasses { shared: 2, top: 1, all: 3 });
        assert!((found.share(CacheKind::ClassData) - 1.0 / 3.0).abs() < 1e-9);
        assert!((found.share(CacheKind::Aot) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(LoadedClasses::default().share(CacheKind::Aot), 0.0);
    }

    #[test]
    fn complaints_are_whole_sentences_and_said_once() {
        let text = "[0.024s][info   ][aot       ] trying to map /t.aot\n\
                    [0.024s][warning][aot       ] Unable to use AOT cache.\n\
                    [                           ] The AOT cache's UseCompactObjectHeaders setting (disabled) does not equal it.\n\
                    [0.024s][error  ][aot       ] Loading static archive failed.\n\
                    [0.024s][error  ][aot       ] Loading static archive failed.\n\
                    [0.043s][warning][cds,dynamic] Unable to use shared archive. The top archive failed to load: /t.jsa\n\
                    [1.021s][warning][aot] Skipping jdk/internal/event/Event: JFR event class\n\
                    [1.021s][warning][gc] something else\n";
        assert_eq!(
            complaints(text),
            [
                "Unable to use AOT cache. The AOT cache's UseCompactObjectHeaders setting (disabled) does not equal it.",
                "Loading static archive failed.",
                "Unable to use shared archive. The top archive failed to load: /t.jsa",
            ]
        );
        assert!(complaints("[0.1s][info][aot] Opened AOT cache /t.aot.\nhello [warning]\n").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_log_panics(text in "[\\[\\]a-z, :()\n]{0,120}") {
            complaints(&text);
            LoadedClasses::of_log(&text);
        }
    }
}
