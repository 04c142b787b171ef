//! The command line of the broker, defined once: `hone-broker` and `hone broker` take the same flags in the same words.
//!
//! A [`Flag`] says how it is called, what it takes and what it is for; the two programs show that each in its own way and
//! hand what was given to a [`CommandLine`], which makes [`Settings`] of it.

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
    /// What it takes, in a word; `None` for a flag that takes nothing.
    pub value_name: Option<&'static str>,
    /// What it is for.
    pub about: &'static str,
    /// What holds without it, in words; empty when there is nothing to say.
    pub default: &'static str,
    take: Take,
}

/// What a flag does with what it is given.
#[derive(Debug)]
enum Take {
    Nothing(fn(&mut CommandLine)),
    Number(&'static Number),
    Text(fn(&mut CommandLine, &str) -> Result<(), String>),
    File(fn(&mut CommandLine, PathBuf)),
}

/// Every flag, in the order in which they are shown.
pub fn flags() -> &'static [Flag] {
    FLAGS
}

static FLAGS: &[Flag] = &[
    file("data", "DIR", "folder of logs and metadata; made when missing", |line, path| {
        line.settings.data_dir = path;
    }),
    switch("memory", "keep everything in memory; nothing touches the disk", |line| {
        line.settings.memory = true;
    }),
    text(
        "listen",
        "HOST:PORT",
        "where to serve clients; port 0 picks a free one",
        "127.0.0.1:9092",
        |line, given| {
            line.settings.listen = resolve(given)?;
            Ok(())
        },
    ),
    text(
        "advertise",
        "HOST:PORT",
        "where clients are told to connect; port 0 stands for the one bound",
        "the one bound",
        |line, given| {
            line.settings.advertised = Some(given.parse()?);
            Ok(())
        },
    ),
    text(
        "metrics",
        "HOST:PORT",
        "/metrics, /public_metrics, /ready; or `off`",
        "127.0.0.1:9644",
        |line, given| {
            line.settings.metrics_listen = metrics_address(given)?;
            Ok(())
        },
    ),
    switch(
        "open-metrics",
        "other machines may read the metrics, which know neither TLS nor a login",
        |line| {
            line.settings.open_metrics = true;
        },
    ),
    number(&numbers::THREADS, "reactors, a thread each", "one for each core"),
    number(&numbers::PARTITIONS, "partitions of a topic that is made without a number", "1"),
    switch("no-auto-create", "unknown topics stay unknown", |line| line.settings.auto_create_topics = false),
    text(
        "set",
        "NAME=VALUE",
        "a property of the broker, such as write_caching_default=true; may be repeated",
        "",
        |line, given| {
            let (name, value) = pair(given, '=', "NAME=VALUE")?;
            line.settings.properties.insert(name.to_owned(), value.to_owned());
            Ok(())
        },
    ),
    switch("list-properties", "show the properties that --set takes, and end", |line| {
        line.list_properties = true;
    }),
    number(&numbers::MAX_REQUEST_BYTES, "a longer request closes its connection", "33554432"),
    number(&numbers::MAX_MEMORY_BYTES, "what clients may make it hold in memory", "268435456"),
    number(&numbers::MAX_CONNECTIONS, "clients at a time; one more is closed at once", "20000"),
    switch("authorize", "ask the access control lists; needs --superuser and a way to log in", |line| {
        line.settings.authorize = true;
    }),
    text("superuser", "USER", "may do everything, such as User:admin; may be repeated", "", |line, given| {
        line.settings.super_users.push(given.to_owned());
        Ok(())
    }),
    file("tls-cert", "FILE", "clients talk inside TLS; with --tls-key, both in PEM", |line, path| {
        line.certificate = Some(path);
    }),
    file("tls-key", "FILE", "the key of that certificate", |line, path| line.key = Some(path)),
    file("tls-client-ca", "FILE", "clients need a certificate from these authorities", |line, path| {
        line.authorities = Some(path);
    }),
    switch("sasl", "clients must log in: SCRAM-SHA-256, SCRAM-SHA-512; PLAIN inside TLS", |line| {
        line.settings.sasl = true;
    }),
    text("user", "NAME:FILE", "give a user the password in FILE; may be repeated", "", |line, given| {
        line.settings.users.push(user(given)?);
        Ok(())
    }),
    switch("insecure", "other machines may come without TLS or login", |line| line.settings.insecure = true),
    text(
        "fault",
        "SPEC",
        "make the storage fail, for tests: fsync-error,topic=t,after=100; may be repeated",
        "",
        |line, given| {
            line.settings.faults.add(given.parse()?);
            Ok(())
        },
    ),
    number(&numbers::HOUSEKEEPING_MS, "how often logs are rolled, trimmed and compacted", "1000"),
    file(
        "record-fsyncs",
        "DIR",
        "note what is durable, for tests of power cuts; on the file system of the data",
        |line, path| line.settings.fsync_record = Some(path),
    ),
];

const fn switch(name: &'static str, about: &'static str, take: fn(&mut CommandLine)) -> Flag {
    Flag { name, value_name: None, about, default: "", take: Take::Nothing(take) }
}

const fn number(number: &'static Number, about: &'static str, default: &'static str) -> Flag {
    Flag { name: number.flag, value_name: Some("N"), about, default, take: Take::Number(number) }
}

const fn text(
    name: &'static str,
    value_name: &'static str,
    about: &'static str,
    default: &'static str,
    take: fn(&mut CommandLine, &str) -> Result<(), String>,
) -> Flag {
    Flag { name, value_name: Some(value_name), about, default, take: Take::Text(take) }
}

const fn file(
    name: &'static str,
    value_name: &'static str,
    about: &'static str,
    take: fn(&mut CommandLine, PathBuf),
) -> Flag {
    Flag { name, value_name: Some(value_name), about, default: "", take: Take::File(take) }
}

/// What a command line asks for.
#[derive(Debug)]
pub enum StartCommand {
    /// A broker.
    Run(Box<Settings>),
    /// Nothing but this text.
    Print(String),
}

/// A command line that is being read.
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
    /// One that nothing was given on yet.
    pub fn new() -> Self {
        let settings = Settings::new("");
        Self { settings, certificate: None, key: None, authorities: None, list_properties: false }
    }

    /// Takes a flag, by its name without dashes, and its value if it has one. What can be given once only counts as it
    /// was given last.
    ///
    /// # Errors
    /// When there is no such flag, or the value is none of those that it may be.
    pub fn take(&mut self, name: &str, value: Option<OsString>) -> Result<(), SettingsError> {
        let flag = FLAGS.iter().find(|flag| flag.name == name).ok_or_else(|| unknown(name))?;
        let missing = || {
            let wanted = flag.value_name.unwrap_or_default();
            SettingsError::new(format!("--{name} is given without its {wanted}"))
        };
        match (&flag.take, value) {
            (Take::Nothing(take), None) => take(self),
            (Take::Nothing(_), Some(value)) => {
                let value = value.to_string_lossy();
                return Err(SettingsError::new(format!("--{name} takes no value, and was given `{value}`")));
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

    /// What all of it asks for. [`crate::Broker::start`] looks at whether the settings fit each other.
    ///
    /// # Errors
    /// When a flag is missing that belongs to another one.
    pub fn finish(mut self) -> Result<StartCommand, SettingsError> {
        if self.list_properties {
            return Ok(StartCommand::Print(properties::broker::page()));
        }
        match (self.settings.data_dir.as_os_str().is_empty(), self.settings.memory) {
            (true, false) => {
                return Err(SettingsError::new(
                    "--data DIR is missing, or --memory, which keeps nothing on a disk; --help shows every flag",
                ));
            }
            (false, true) => return Err(SettingsError::new("--data and --memory exclude each other")),
            _ => (),
        }
        self.settings.tls = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate, key, client_authorities: self.authorities })
            }
            (None, None) if self.authorities.is_none() => None,
            _ => return Err(SettingsError::new("TLS needs both --tls-cert FILE and --tls-key FILE")),
        };
        Ok(StartCommand::Run(Box::new(self.settings)))
    }
}

fn unknown(name: &str) -> SettingsError {
    let near = properties::definition::nearest(name, FLAGS.iter().map(|flag| flag.name));
    SettingsError::new(match near {
        Some(near) => format!("there is no --{name}; did you mean --{near}?"),
        None => format!("there is no --{name}; --help shows what there is"),
    })
}

fn not_text(name: &str, value: &OsStr) -> SettingsError {
    SettingsError::new(format!("--{name} {}: this is no UTF-8 text", value.to_string_lossy()))
}

fn metrics_address(given: &str) -> Result<Option<SocketAddr>, String> {
    if given == "off" {
        return Ok(None);
    }
    resolve(given).map(Some).map_err(|why| format!("{why}; or `off`"))
}

fn pair<'a>(given: &'a str, sign: char, wanted: &str) -> Result<(&'a str, &'a str), String> {
    given.split_once(sign).ok_or_else(|| format!("wanted {wanted}, not `{given}`"))
}

fn user(given: &str) -> Result<NewUser, String> {
    let (name, file) = pair(given, ':', "NAME:FILE, with the password in the file")?;
    if name.is_empty() {
        return Err("the name is missing; wanted NAME:FILE".to_owned());
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
                    format!("--{} is `{bad}`, wanted a whole number from {least} to {most}", number.flag);
                assert_eq!(error, wanted);
            }
            let mut settings = settings(&[]);
            (number.set)(&mut settings, least - 1);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("--{} is `{}`", number.flag, least - 1)), "{error}");
        }
        let mut wrong = settings(&[]);
        wrong.default_partitions = -3;
        assert!(wrong.check().unwrap_err().to_string().contains("--partitions"));
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
            ("thread", Some("1"), "there is no --thread; did you mean --threads?"),
            ("bootstrap", None, "there is no --bootstrap; --help shows what there is"),
            ("memory", Some("yes"), "--memory takes no value, and was given `yes`"),
            ("data", None, "--data is given without its DIR"),
            ("data", Some(""), "--data is given without its DIR"),
            ("listen", Some("9092"), "--listen: wanted HOST:PORT"),
            ("listen", Some("nowhere.invalid:1"), "--listen: can't look up `nowhere.invalid`"),
            (
                "metrics",
                Some("on"),
                "--metrics: wanted HOST:PORT, an IPv6 address in brackets, not `on`; or `off`",
            ),
            ("advertise", Some("a b:1"), "--advertise: wanted HOST:PORT"),
            ("set", Some("x"), "--set: wanted NAME=VALUE, not `x`"),
            ("user", Some("alice"), "--user: wanted NAME:FILE"),
            ("user", Some(":/none"), "--user: the name is missing"),
            ("user", Some("alice:/none"), "--user: can't read the password in /none"),
            ("fault", Some("fire"), "--fault: fault `fire`: unknown kind `fire`"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(wanted), "--{name} {value:?}: {error}");
        }
    }

    #[test]
    fn names_are_taken_for_addresses() {
        let settings = settings(&[("listen", Some("localhost:1")), ("metrics", Some("localhost:2"))]);
        let metrics = settings.metrics_listen.unwrap();
        assert!(settings.listen.ip().is_loopback() && metrics.ip().is_loopback());
        assert_eq!((settings.listen.port(), metrics.port()), (1, 2));
    }
}
