//! A `java` command line: options, what it runs, and that program's arguments. The grammar is that of the launcher (JDK 9 to 25, `man java`).

use std::fmt;
use std::path::Path;

/// Options that take the next word as their value, and do not allow `=`.
const WITH_VALUE: [&str; 3] = ["-p", "--module-path", "--source"];
/// Options that take the next word as their value unless they have `=`.
const WITH_VALUE_OR_EQUALS: [&str; 10] = [
    "--add-modules",
    "--limit-modules",
    "--upgrade-module-path",
    "--add-reads",
    "--add-exports",
    "--add-opens",
    "--patch-module",
    "--enable-native-access",
    "--describe-module",
    "--illegal-native-access",
];
/// The options that name the class path, the usual one first.
const CLASS_PATH: [&str; 3] = ["-cp", "-classpath", "--class-path"];

/// A command line of `java`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaCommand {
    /// The launcher.
    pub java: String,
    /// Options of the virtual machine, in their order. A value is a word of its own where the user wrote it so.
    pub options: Vec<String>,
    /// What it runs.
    pub runs: Runs,
    /// Arguments of that program.
    pub args: Vec<String>,
}

/// What a command line runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// `-jar FILE`.
    Jar(String),
    /// `-m MODULE[/CLASS]`.
    Module(String),
    /// A class of the class path.
    Class(String),
}

/// Why a command line is not one of `java`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no word.
    #[error("the command is empty")]
    Empty,
    /// An option without its value.
    #[error("the option {0} has no value")]
    NoValue(String),
    /// Options only.
    #[error("the command names no class, jar or module to run")]
    NothingToRun,
    /// Options in a file, which the launcher reads.
    #[error("the command takes options from the file {0}, which Hone does not read")]
    File(String),
}

impl JavaCommand {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// When an option has no value, options are in a file, or nothing is run.
    pub fn parse(words: &[String]) -> Result<Self, CommandError> {
        let (java, rest) = words.split_first().ok_or(CommandError::Empty)?;
        let mut options = Vec::new();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().cloned().ok_or_else(|| CommandError::NoValue(word.clone()));
            let runs = match word.as_str() {
                "-jar" => Runs::Jar(value()?),
                "-m" | "--module" => Runs::Module(value()?),
                _ if word.starts_with("--module=") => Runs::Module(word["--module=".len()..].to_owned()),
                _ if takes_next(word) => {
                    let value = value()?;
                    options.extend([word.clone(), value]);
                    continue;
                }
                _ if word.starts_with('@') && !word.starts_with("@@") => {
                    return Err(CommandError::File(word[1..].to_owned()));
                }
                _ if word.starts_with('-') => {
                    options.push(word.clone());
                    continue;
                }
                _ => Runs::Class(word.clone()),
            };
            return Ok(Self { java: java.clone(), options, runs, args: rest.cloned().collect() });
        }
        Err(CommandError::NothingToRun)
    }

    /// The words of the command line.
    pub fn argv(&self) -> Vec<String> {
        let runs = match &self.runs {
            Runs::Jar(file) => vec!["-jar".to_owned(), file.clone()],
            Runs::Module(module) => vec!["-m".to_owned(), module.clone()],
            Runs::Class(class) => vec![class.clone()],
        };
        let java = std::iter::once(self.java.clone());
        java.chain(self.options.iter().cloned()).chain(runs).chain(self.args.iter().cloned()).collect()
    }

    /// The entries of the class path: the jar, or those of the last `-cp`. Empty for a module.
    pub fn class_path(&self) -> Vec<&str> {
        match &self.runs {
            Runs::Jar(file) => vec![file],
            Runs::Module(_) => Vec::new(),
            Runs::Class(_) => {
                let at = self.options.iter().rposition(|word| CLASS_PATH.contains(&word.as_str()));
                let path = at.and_then(|at| self.options.get(at + 1));
                path.map_or(Vec::new(), |path| path.split(':').filter(|entry| !entry.is_empty()).collect())
            }
        }
    }

    /// Removes the options that name the class path.
    pub fn remove_class_path(&mut self) {
        let mut kept = Vec::new();
        let mut options = std::mem::take(&mut self.options).into_iter();
        while let Some(option) = options.next() {
            if CLASS_PATH.contains(&option.as_str()) {
                options.next();
            } else {
                kept.push(option);
            }
        }
        self.options = kept;
    }

    /// Sets the class path.
    pub fn set_class_path(&mut self, path: &str) {
        self.options.extend([CLASS_PATH[0].to_owned(), path.to_owned()]);
    }

    /// The last option that sets what this one sets; `None` if there is none.
    pub fn option(&self, key: &Key) -> Option<&str> {
        self.options.iter().rfind(|word| Key::of_option(word).as_ref() == Some(key)).map(String::as_str)
    }

    /// Sets an option and removes the earlier ones that set the same.
    pub fn set(&mut self, option: &str) {
        if let Some(key) = Key::of_option(option) {
            self.remove(&key);
        }
        self.options.push(option.to_owned());
    }

    /// Removes the options that set this.
    pub fn remove(&mut self, key: &Key) {
        self.options.retain(|word| Key::of_option(word).as_ref() != Some(key));
    }
}

impl fmt::Display for JavaCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.argv().join(" ").fmt(formatter)
    }
}

fn takes_next(word: &str) -> bool {
    CLASS_PATH.contains(&word) || WITH_VALUE.contains(&word) || WITH_VALUE_OR_EQUALS.contains(&word)
}

/// Whether a path names a jar.
pub fn is_jar(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("jar"))
}

/// What an option sets: two options with the same key replace each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The largest heap: `-Xmx` or `-XX:MaxHeapSize`.
    MaxHeap,
    /// The first heap: `-Xms` or `-XX:InitialHeapSize`.
    FirstHeap,
    /// The young generation: `-Xmn`, or its two sizes.
    Young,
    /// The stack of a thread: `-Xss` or `-XX:ThreadStackSize`.
    Stack,
    /// `-Xshare:` of class data.
    Share,
    /// Another flag, `-XX:+NAME`, `-XX:-NAME` or `-XX:NAME=VALUE`.
    Flag(String),
    /// A system property, `-DNAME=VALUE`.
    Property(String),
}

impl Key {
    /// The key of an option. `None` if options of its kind add up, such as `-Xlog`.
    pub fn of_option(option: &str) -> Option<Self> {
        if let Some(flag) = option.strip_prefix("-XX:") {
            let name = flag.trim_start_matches(['+', '-']);
            let name = name.split_once('=').map_or(name, |(name, _)| name);
            return Some(match name {
                "MaxHeapSize" => Self::MaxHeap,
                "InitialHeapSize" | "MinHeapSize" => Self::FirstHeap,
                "NewSize" | "MaxNewSize" => Self::Young,
                "ThreadStackSize" => Self::Stack,
                _ => Self::Flag(name.to_owned()),
            });
        }
        if let Some(property) = option.strip_prefix("-D") {
            let name = property.split_once('=').map_or(property, |(name, _)| name);
            return Some(Self::Property(name.to_owned()));
        }
        let short = [
            ("-Xmx", Self::MaxHeap),
            ("-Xms", Self::FirstHeap),
            ("-Xmn", Self::Young),
            ("-Xss", Self::Stack),
            ("-Xshare:", Self::Share),
        ];
        short.into_iter().find(|(begin, _)| option.starts_with(begin)).map(|(_, key)| key)
    }
}

/// The value of a flag: `true` and `false` for `-XX:+NAME` and `-XX:-NAME`, otherwise the text after `=`.
pub fn flag_value(option: &str) -> Option<(&str, &str)> {
    let flag = option.strip_prefix("-XX:")?;
    match flag.split_at_checked(1)? {
        ("+", name) => Some((name, "true")),
        ("-", name) => Some((name, "false")),
        _ => flag.split_once('='),
    }
}

/// A size as the virtual machine reads it: a number with `k`, `m`, `g` or `t`, in bytes.
pub fn size_of(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().find(|(_, letter)| !letter.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    };
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parse(line: &str) -> JavaCommand {
        JavaCommand::parse(&split(line)).unwrap()
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let command = parse(
            "java -Xmx1g -cp a.jar:b.jar --add-opens java.base/java.lang=ALL-UNNAMED -XX:+UseG1GC Main -Xmx2g x",
        );
        assert_eq!(command.runs, Runs::Class("Main".to_owned()));
        assert_eq!(command.args, ["-Xmx2g", "x"]);
        assert_eq!(command.class_path(), ["a.jar", "b.jar"]);
        assert_eq!(command.option(&Key::MaxHeap), Some("-Xmx1g"));
        let mut again = JavaCommand::parse(&command.argv()).unwrap();
        assert_eq!(again, command);
        again.remove_class_path();
        assert_eq!((again.class_path().len(), again.options.len()), (0, 4));
        assert_eq!(parse("java -jar app.jar --port 1").class_path(), ["app.jar"]);
        assert_eq!(parse("java -p mods -m app/Main").runs, Runs::Module("app/Main".to_owned()));
        assert_eq!(parse("java --module=app/Main a").args, ["a"]);
        assert_eq!(parse("java --add-modules=a.b -jar x").options, ["--add-modules=a.b"]);
    }

    #[test]
    fn what_is_no_command_line_is_refused() {
        let refused = |line: &str| JavaCommand::parse(&split(line)).unwrap_err();
        assert_eq!(refused(""), CommandError::Empty);
        assert_eq!(refused("java -Xmx1g"), CommandError::NothingToRun);
        assert_eq!(refused("java -cp"), CommandError::NoValue("-cp".to_owned()));
        assert_eq!(refused("java -jar"), CommandError::NoValue("-jar".to_owned()));
        assert_eq!(refused("java @options.txt Main"), CommandError::File("options.txt".to_owned()));
    }

    #[test]
    fn an_option_replaces_every_earlier_form_of_itself() {
        let mut command = parse("java -Xmx1g -XX:MaxHeapSize=2g -XX:-UseNUMA -Da=1 -Xlog:gc -jar x");
        command.set("-Xmx3g");
        command.set("-XX:+UseNUMA");
        command.set("-Da=2");
        command.set("-Xlog:safepoint");
        assert_eq!(command.options, ["-Xlog:gc", "-Xmx3g", "-XX:+UseNUMA", "-Da=2", "-Xlog:safepoint"]);
        assert_eq!(flag_value("-XX:+UseNUMA"), Some(("UseNUMA", "true")));
        assert_eq!(flag_value("-XX:ReservedCodeCacheSize=32m"), Some(("ReservedCodeCacheSize", "32m")));
        assert_eq!(flag_value("-Xmx1g"), None);
    }

    #[test]
    fn sizes_are_read_as_the_virtual_machine_reads_them() {
        assert_eq!(
            ["512m", "1G", "1024", "2t", "1x", "", "99999999999999g"].map(size_of),
            [Some(512 << 20), Some(1 << 30), Some(1024), Some(2 << 40), None, None, None]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_command_line_panics(words in proptest::collection::vec("[-@+:=A-Za-z]{0,8}", 0..8)) {
            if let Ok(command) = JavaCommand::parse(&words) {
                proptest::prop_assert_eq!(JavaCommand::parse(&command.argv()).unwrap().args, command.args);
            }
        }
    }
}
