//! The command line of the broker, defined once: `hone-broker` and `hone broker` have the same flags and the same texts.
//!
//! A [`Flag`] has a name, a value and a help text. Each of the two programs shows the flags in its own way and passes the given ones to a
//! [`CommandLine`], which turns them into [`Settings`].

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::endpoint::resolve;
use crate::properties;
use crate::security::read_password;
use crate::security::tls::TlsFiles;
use crate::settings::{NewUser, Number, Settings, SettingsError, numbers};

/// One flag of the command line.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without the two dashes.
    pub name: &'static str,
    /// Its former name, which still works and which no help shows.
    pub alias: Option<&'static str>,
    /// Name of its value; `None` for a flag without a value.
    pub value_name: Option<&'static str>,
    /// The first sentence of its help.
    pub about: &'static str,
    /// The rest of its help; may be empty.
    pub remarks: &'static str,
    /// Its default in words; empty without one.
    pub default: &'static str,
    take: Take,
}

impl Flag {
    /// Whether it has this name or this former name.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    const fn remarks(self, remarks: &'static str) -> Self {
        Self { remarks, ..self }
    }
}

/// How a flag uses its value.
#[derive(Debug)]
enum Take {
    Nothing(fn(&mut CommandLine)),
    Number(&'static Number),
    Text(fn(&mut CommandLine, &str) -> Result<(), String>),
    File(fn(&mut CommandLine, PathBuf)),
}

/// Every flag, in the order of the help.
pub fn flags() -> &'static [Flag] {
    FLAGS
}

static FLAGS: &[Flag] = &[
    file("data", "FOLDER", "Data folder of the broker.", |line, path| {
        line.settings.data_dir = path;
    })
    .remarks("It holds logs and metadata. The broker creates it if it does not exist."),
    switch("memory", "Keep everything in memory.", |line| {
        line.settings.memory = true;
    })
    .remarks("The broker writes nothing to a disk."),
    text("listen", "HOST:PORT", "Address to listen on.", "127.0.0.1:9092", |line, given| {
        line.settings.listen = resolve(given)?;
        Ok(())
    })
    .remarks("Port 0 picks a free port."),
    text("advertise", "HOST:PORT", "Address that clients connect to.", "the bound address", |line, given| {
        line.settings.advertised = Some(given.parse()?);
        Ok(())
    })
    .remarks("Port 0 stands for the bound port."),
    text(
        "metrics-listen",
        "HOST:PORT",
        "Address of the metrics pages, or `off`.",
        "127.0.0.1:9644",
        |line, given| {
            line.settings.metrics_listen = metrics_address(given)?;
            Ok(())
        },
    )
    .alias("metrics")
    .remarks("The pages are /metrics, /public_metrics and /ready."),
    switch("open-metrics", "Let other machines read the metrics without TLS or login.", |line| {
        line.settings.open_metrics = true;
    }),
    number(&numbers::THREADS, "Number of reactor threads.", "one per core"),
    number(&numbers::PARTITIONS, "Partitions of a topic that is created without a number.", "1")
        .alias("partitions"),
    switch("no-auto-create", "Do not create unknown topics.", |line| {
        line.settings.auto_create_topics = false
    }),
    text(
        "property",
        "NAME=VALUE",
        "Property of the broker, for example write_caching_default=true; repeat it for several.",
        "",
        |line, given| {
            let (name, value) = pair(given, '=', "NAME=VALUE")?;
            line.settings.properties.insert(name.to_owned(), value.to_owned());
            Ok(())
        },
    )
    .alias("set"),
    switch("list-properties", "List the properties that --property accepts, and stop.", |line| {
        line.list_properties = true;
    }),
    number(&numbers::MAX_REQUEST_BYTES, "Largest request, in bytes.", "33554432")
        .remarks("The broker closes the connection of a longer request."),
    number(&numbers::MAX_MEMORY_BYTES, "Memory that clients can make the broker use, in bytes.", "268435456"),
    number(&numbers::MAX_CONNECTIONS, "Largest number of connected clients.", "20000")
        .remarks("The broker closes further connections at once."),
    switch("authorize", "Check the access control lists.", |line| {
        line.settings.authorize = true;
    })
    .remarks("It needs --superuser and a way to log in."),
    text(
        "superuser",
        "USER",
        "User with all rights, for example User:admin; repeat it for several.",
        "",
        |line, given| {
            line.settings.super_users.push(given.to_owned());
            Ok(())
        },
    ),
    file("tls-cert", "FILE", "Certificate to present (PEM).", |line, path| {
        line.certificate = Some(path);
    })
    .remarks("Clients must then use TLS. It needs --tls-key."),
    file("tls-key", "FILE", "Private key of --tls-cert (PEM).", |line, path| line.key = Some(path)),
    file("tls-client-ca", "FILE", "CA bundle for client certificates (PEM).", |line, path| {
        line.authorities = Some(path);
    })
    .remarks("Clients must then present a certificate."),
    switch("sasl", "Require a login from clients.", |line| {
        line.settings.sasl = true;
    })
    .remarks("The mechanisms are SCRAM-SHA-256 and SCRAM-SHA-512, and PLAIN inside TLS."),
    text(
        "user",
        "NAME:FILE",
        "User and the file with the user's password; repeat it for several.",
        "",
        |line, given| {
            line.settings.users.push(user(given)?);
            Ok(())
        },
    ),
    switch("insecure", "Let other machines connect without TLS or login.", |line| {
        line.settings.insecure = true;
    }),
    text(
        "storage-fault",
        "SPEC",
        "Storage fault for tests, for example fsync-error,topic=t,after=100; repeat it for several.",
        "",
        |line, given| {
            line.settings.faults.add(given.parse()?);
            Ok(())
        },
    )
    .alias("fault"),
    number(&numbers::HOUSEKEEPING_MS, "Time between two rounds of housekeeping, in milliseconds.", "1000")
        .remarks("A round rolls, removes and compacts segments of logs."),
    file(
        "record-fsyncs",
        "FOLDER",
        "Folder for a record of all fsyncs, for tests of power cuts.",
        |line, path| {
            line.settings.fsync_record = Some(path);
        },
    )
    .remarks("It must be on the file system of the data."),
];

const fn switch(name: &'static str, about: &'static str, take: fn(&mut CommandLine)) -> Flag {
    flag(name, None, about, "", Take::Nothing(take))
}

const fn number(number: &'static Number, about: &'static str, default: &'static str) -> Flag {
    flag(number.flag, Some("N"), about, default, Take::Number(number))
}

const fn text(
    name: &'static str,
    value_name: &'static str,
    about: &'static str,
    default: &'static str,
    take: fn(&mut CommandLine, &str) -> Result<(), String>,
) -> Flag {
    flag(name, Some(value_name), about, default, Take::Text(take))
}

const fn file(
    name: &'static str,
    value_name: &'static str,
    about: &'static str,
    take: fn(&mut CommandLine, PathBuf),
) -> Flag {
    flag(name, Some(value_name), about, "", Take::File(take))
}

const fn flag(
    name: &'static str,
    value_name: Option<&'static str>,
    about: &'static str,
    default: &'static str,
    take: Take,
) -> Flag {
    Flag { name, alias: None, value_name, about, remarks: "", default, take }
}

/// The request of a command line.
#[derive(Debug)]
pub enum StartCommand {
    /// Run a broker.
    Run(Box<Settings>),
    /// Print this text and stop.
    Print(String),
}

/// A command line while it is read.
#[derive(Debug)]
pub struct CommandLine {
    settings: Settings,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
    list_properties: bool,
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandLine {
    /// An empty command line.
    pub fn new() -> Self {
        let settings = Settings::new("");
        Self { settings, certificate: None, key: None, authorities: None, list_properties: false }
    }

    /// Takes a flag, by its name without dashes, and its value. If a flag that allows one value is repeated, the last value applies.
    ///
    /// # Errors
    /// When the flag is unknown or its value is invalid.
    pub fn take(&mut self, name: &str, value: Option<OsString>) -> Result<(), SettingsError> {
        let flag = FLAGS.iter().find(|flag| flag.is(name)).ok_or_else(|| unknown(name))?;
        let missing = || {
            let wanted = flag.value_name.unwrap_or_default();
            SettingsError::new(format!("--{name} has no value\n  next: use --{name} {wanted}"))
        };
        match (&flag.take, value) {
            (Take::Nothing(take), None) => take(self),
            (Take::Nothing(_), Some(value)) => {
                let value = value.to_string_lossy();
                return Err(SettingsError::new(format!(
                    "--{name} takes no value, but has `{value}`\n  next: use --{name} alone"
                )));
            }
            (Take::File(take), Some(path)) if !path.is_empty() => take(self, path.into()),
            (_, None) => return Err(missing()),
            (Take::File(_), Some(_)) => return Err(missing()),
            (Take::Number(number), Some(value)) => number.read(&value, &mut self.settings)?,
            (Take::Text(take), Some(value)) => {
                let text = value.to_str().ok_or_else(|| not_text(name, &value))?;
                take(self, text).map_err(|why| SettingsError::new(format!("--{name}: {why}")))?;
            }
        }
        Ok(())
    }

    /// The request of the whole command line. [`crate::Broker::start`] checks whether the settings fit together.
    ///
    /// # Errors
    /// When a flag needs another flag that is missing.
    pub fn finish(mut self) -> Result<StartCommand, SettingsError> {
        if self.list_properties {
            return Ok(StartCommand::Print(properties::broker::page()));
        }
        match (self.settings.data_dir.as_os_str().is_empty(), self.settings.memory) {
            (true, false) => {
                return Err(SettingsError::new(
                    "--data FOLDER is missing\n  next: add --data FOLDER, or --memory to keep everything in memory",
                ));
            }
            (false, true) => {
                return Err(SettingsError::new(
                    "--data and --memory exclude each other\n  next: omit one of them",
                ));
            }
            _ => (),
        }
        self.settings.tls = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate, key, client_authorities: self.authorities })
            }
            (None, None) if self.authorities.is_none() => None,
            _ => {
                return Err(SettingsError::new(
                    "TLS needs both --tls-cert FILE and --tls-key FILE\n  next: add the missing one",
                ));
            }
        };
        Ok(StartCommand::Run(Box::new(self.settings)))
    }
}

fn unknown(name: &str) -> SettingsError {
    let near = properties::definition::nearest(name, FLAGS.iter().map(|flag| flag.name));
    SettingsError::new(match near {
        Some(near) => format!("unknown flag --{name}; did you mean --{near}?"),
        None => format!("unknown flag --{name}\n  next: --help lists all flags"),
    })
}

fn not_text(name: &str, value: &OsStr) -> SettingsError {
    SettingsError::new(format!("--{name} {}: the value is not valid UTF-8", value.to_string_lossy()))
}

fn metrics_address(given: &str) -> Result<Option<SocketAddr>, String> {
    if given == "off" {
        return Ok(None);
    }
    resolve(given).map(Some).map_err(|why| format!("{why}; or `off`"))
}

fn pair<'a>(given: &'a str, sign: char, wanted: &str) -> Result<(&'a str, &'a str), String> {
    given.split_once(sign).ok_or_else(|| format!("use {wanted}, not `{given}`"))
}

fn user(given: &str) -> Result<NewUser, String> {
    let (name, file) = pair(given, ':', "NAME:FILE, with the password in FILE")?;
    if name.is_empty() {
        return Err("the name is missing; use NAME:FILE".to_owned());
    }
    let password = read_password(Path::new(file)).map_err(|error| format!("{error:#}"))?;
    Ok(NewUser { name: name.to_owned(), password })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, Option<&str>)]) -> Result<StartCommand, String> {
        let mut line = CommandLine::new();
        for (name, value) in given {
            line.take(name, value.map(OsString::from)).map_err(|error| error.to_string())?;
        }
        line.finish().map_err(|error| error.to_string())
    }

    fn settings(given: &[(&str, Option<&str>)]) -> Settings {
        match read(&[&[("memory", None)], given].concat()) {
            Ok(StartCommand::Run(settings)) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_flag_says_it_defaults_to_is_the_default() {
        let defaults = format!("{:?}", settings(&[]));
        for flag in FLAGS.iter().filter(|flag| flag.default.contains(|sign: char| sign.is_ascii_digit())) {
            let same = settings(&[(flag.name, Some(flag.default))]);
            assert_eq!(format!("{same:?}"), defaults, "--{} {}", flag.name, flag.default);
        }
    }

    #[test]
    fn every_number_is_held_to_its_range_by_flag_and_by_library() {
        for number in numbers::ALL {
            for good in [number.least, number.most] {
                let mut settings = settings(&[(number.flag, Some(&good.to_string()))]);
                assert_eq!((number.get)(&settings), good, "--{}", number.flag);
                settings.max_memory_bytes = settings.max_memory_bytes.max(settings.max_request_bytes);
                settings.max_request_bytes = settings.max_request_bytes.min(settings.max_memory_bytes);
                assert_eq!(settings.check(), Ok(()));
            }
            let (least, most) = (number.least, number.most);
            let bad =
                [(least - 1).to_string(), (most + 1).to_string(), "9".repeat(30), "-1".into(), "many".into()];
            for bad in bad.iter().map(String::as_str).chain(["", "1.5"]) {
                let error = read(&[(number.flag, Some(bad))]).unwrap_err();
                let wanted =
                    format!("invalid --{} `{bad}`: use a whole number from {least} to {most}", number.flag);
                assert_eq!(error, wanted);
            }
            let mut settings = settings(&[]);
            (number.set)(&mut settings, least - 1);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid --{} `{}`", number.flag, least - 1)), "{error}");
        }
        let mut wrong = settings(&[]);
        wrong.default_partitions = -3;
        assert!(wrong.check().unwrap_err().to_string().contains("--default-partitions"));
        let most = numbers::PARTITIONS.most;
        assert_eq!(
            properties::broker::check("num.partitions", &most.to_string()),
            Ok(()),
            "they are the same"
        );
        assert!(properties::broker::check("num.partitions", &(most + 1).to_string()).is_err());
    }

    #[test]
    fn a_request_must_fit_into_the_memory() {
        let of = |memory: &str| {
            settings(&[("max-memory-bytes", Some(memory)), ("max-request-bytes", Some("2000000"))])
        };
        assert_eq!(of("2000000").check(), Ok(()));
        let error = of("1999999").check().unwrap_err().to_string();
        assert!(
            error.contains("--max-memory-bytes 1999999") && error.contains("--max-request-bytes 2000000"),
            "{error}"
        );
    }

    #[test]
    fn wrong_flags_are_named_with_what_is_wanted() {
        for (name, value, wanted) in [
            ("thread", Some("1"), "unknown flag --thread; did you mean --threads?"),
            ("bootstrap", None, "unknown flag --bootstrap\n  next: --help lists all flags"),
            ("memory", Some("yes"), "--memory takes no value, but has `yes`"),
            ("data", None, "--data has no value\n  next: use --data FOLDER"),
            ("data", Some(""), "--data has no value\n  next: use --data FOLDER"),
            ("listen", Some("9092"), "--listen: use HOST:PORT"),
            ("listen", Some("nowhere.invalid:1"), "--listen: can't look up `nowhere.invalid`"),
            (
                "metrics-listen",
                Some("on"),
                "--metrics-listen: use HOST:PORT (an IPv6 address in brackets), not `on`; or `off`",
            ),
            ("advertise", Some("a b:1"), "--advertise: use HOST:PORT"),
            ("property", Some("x"), "--property: use NAME=VALUE, not `x`"),
            ("set", Some("x"), "--set: use NAME=VALUE, not `x`"),
            ("user", Some("alice"), "--user: use NAME:FILE"),
            ("user", Some(":/none"), "--user: the name is missing"),
            ("user", Some("alice:/none"), "--user: can't read the password in /none"),
            ("storage-fault", Some("fire"), "--storage-fault: fault `fire`: unknown kind `fire`"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(wanted), "--{name} {value:?}: {error}");
        }
    }

    #[test]
    fn former_names_still_work() {
        let of = |names: [&str; 3]| {
            let [metrics, partitions, property] = names;
            let given = [(metrics, Some("off")), (partitions, Some("3")), (property, Some("log.roll.ms=7"))];
            format!("{:?}", settings(&given))
        };
        let former = of(["metrics", "partitions", "set"]);
        assert_eq!(of(["metrics-listen", "default-partitions", "property"]), former);
    }

    #[test]
    fn names_are_taken_for_addresses() {
        let settings = settings(&[("listen", Some("localhost:1")), ("metrics-listen", Some("localhost:2"))]);
        let metrics = settings.metrics_listen.unwrap();
        assert!(settings.listen.ip().is_loopback() && metrics.ip().is_loopback());
        assert_eq!((settings.listen.port(), metrics.port()), (1, 2));
    }
}
