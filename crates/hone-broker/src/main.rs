//! `hone-broker`: the broker as a program of its own, so that it can be built, optimised and killed like any other.
//!
//! It prints one line on stdout when it serves, notices and errors on stderr, and ends normally on SIGTERM and SIGINT, so
//! that an instrumented build writes its profile.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use hone_broker::{
    Broker, NewUser, Notices, Settings, TlsFiles, raise_open_files, read_password, record_fsyncs, resolve,
};
use lexopt::prelude::*;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "\
hone-broker: a single-node Kafka-API broker over an on-disk log (acks=all: fsynced)

usage: hone-broker --data DIR [options]
       hone-broker --memory [options]

  --data DIR              folder of logs and metadata; made when missing
  --memory                keep everything in memory; nothing touches the disk
  --listen HOST:PORT      for clients; port 0 picks a free one        [127.0.0.1:9092]
  --advertise HOST:PORT   where clients are told to connect           [the one bound]
  --metrics ADDR:PORT     /metrics, /public_metrics, /ready; or `off` [127.0.0.1:9644]
  --threads N             reactors                                    [one for each core]
  --partitions N          of a topic made without a number            [1]
  --no-auto-create        unknown topics stay unknown
  --set NAME=VALUE        a property of the broker, such as write_caching_default=true; may be repeated
  --max-request-bytes N   a longer request closes its connection      [33554432]
  --max-memory-bytes N    what clients may make it hold               [268435456]
  --max-connections N     one client more is closed at once           [20000]
  --authorize             ask the access control lists; needs --superuser
  --superuser USER        may do everything, such as User:admin; can be repeated
  --tls-cert FILE         clients talk inside TLS; with --tls-key, both in PEM
  --tls-key FILE
  --tls-client-ca FILE    clients need a certificate from these authorities
  --sasl                  clients must log in: SCRAM-SHA-256, SCRAM-SHA-512; PLAIN inside TLS
  --user NAME:FILE        give a user the password in FILE; may be repeated
  --insecure              other machines may come without TLS or login
  --fault SPEC            make the storage fail, for tests: fsync-error,topic=t,after=100; may be repeated
  --housekeeping-ms N     how often logs are looked after                   [1000]
  --record-fsyncs DIR     note what is durable, for tests of power cuts; on the file system of the data
  --help, --version

Other machines are let in only inside TLS and by a login (or a client certificate), unless --insecure says otherwise.

It prints `ready kafka=ADDR metrics=ADDR data=DIR pid=N` on stdout once it serves, and ends on SIGTERM or SIGINT.
Exit codes: 0 stopped, 1 could not, 2 wrong usage.
";

/// What the command line asks for.
enum Wanted {
    Run(Box<Settings>),
    Print(String),
}

fn main() -> ExitCode {
    let settings = match parse(lexopt::Parser::from_env()) {
        Ok(Wanted::Run(settings)) => *settings,
        Ok(Wanted::Print(text)) => {
            say(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(&format!("{error}; see hone-broker --help"));
            return ExitCode::from(2);
        }
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    // Before the ready line: whoever reads it may send a signal at once.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("can't wait for signals")?;
    let data = settings.place();
    // Every partition and every client is an open file.
    raise_open_files();
    let broker = Broker::start(settings)?;
    let metrics = broker.metrics_addr().map_or("off".to_owned(), |address| address.to_string());
    say(&format!(
        "ready kafka={} metrics={metrics} data={data} pid={}",
        broker.kafka_addr(),
        std::process::id()
    ));
    signals.forever().next();
    broker.stop()
}

fn parse(mut parser: lexopt::Parser) -> Result<Wanted, lexopt::Error> {
    let mut settings = Settings::new("");
    let (mut certificate, mut key, mut authorities) = (None::<PathBuf>, None::<PathBuf>, None::<PathBuf>);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("memory") => settings.memory = true,
            Long("set") => settings.properties.extend([parser.value()?.parse_with(property)?]),
            Long("fault") => settings.faults.add(parser.value()?.parse()?),
            Long("max-memory-bytes") => {
                settings.max_memory_bytes = parser.value()?.parse_with(at_least_one)? as usize;
            }
            Long("max-connections") => {
                settings.max_connections = parser.value()?.parse_with(at_least_one)? as usize;
            }
            Long("data") => settings.data_dir = parser.value()?.into(),
            Long("listen") => settings.listen = parser.value()?.parse_with(resolve)?,
            Long("advertise") => settings.advertised = Some(parser.value()?.parse()?),
            Long("metrics") => settings.metrics_listen = parser.value()?.parse_with(metrics_address)?,
            Long("threads") => settings.threads = parser.value()?.parse_with(at_least_one)? as usize,
            Long("partitions") => settings.default_partitions = parser.value()?.parse_with(at_least_one)?,
            Long("no-auto-create") => settings.auto_create_topics = false,
            Long("max-request-bytes") => {
                settings.max_request_bytes = parser.value()?.parse_with(at_least_one)? as usize;
            }
            Long("authorize") => settings.authorize = true,
            Long("superuser") => settings.super_users.push(parser.value()?.string()?),
            Long("tls-cert") => certificate = Some(parser.value()?.into()),
            Long("tls-key") => key = Some(parser.value()?.into()),
            Long("tls-client-ca") => authorities = Some(parser.value()?.into()),
            Long("sasl") => settings.sasl = true,
            Long("user") => settings.users.push(parser.value()?.parse_with(user)?),
            Long("housekeeping-ms") => {
                settings.housekeeping_ms = parser.value()?.parse_with(at_least_one)? as u64;
            }
            Long("record-fsyncs") => {
                let folder = PathBuf::from(parser.value()?);
                record_fsyncs(&folder)
                    .map_err(|error| format!("can't record fsyncs in {}: {error}", folder.display()))?;
            }
            Long("insecure") => settings.insecure = true,
            Long("help") | Short('h') => return Ok(Wanted::Print(USAGE.to_owned())),
            Long("version") => {
                return Ok(Wanted::Print(concat!("hone-broker ", env!("CARGO_PKG_VERSION")).to_owned()));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    match (settings.data_dir.as_os_str().is_empty(), settings.memory) {
        (true, false) => return Err("--data DIR is missing, or --memory".into()),
        (false, true) => return Err("--data and --memory exclude each other".into()),
        _ => (),
    }
    if settings.authorize && settings.super_users.is_empty() {
        return Err("--authorize needs a --superuser, or nobody could ever be allowed anything".into());
    }
    settings.tls = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate, key, client_authorities: authorities })
        }
        (None, None) if authorities.is_none() => None,
        _ => return Err("TLS needs both --tls-cert FILE and --tls-key FILE".into()),
    };
    settings.notices = Notices::to(complain);
    Ok(Wanted::Run(Box::new(settings)))
}

fn metrics_address(text: &str) -> Result<Option<SocketAddr>, std::net::AddrParseError> {
    if text == "off" { Ok(None) } else { text.parse().map(Some) }
}

fn user(text: &str) -> Result<NewUser, String> {
    let (name, file) = text.split_once(':').ok_or("wanted NAME:FILE, with the password in the file")?;
    let password = read_password(Path::new(file)).map_err(|error| format!("{error:#}"))?;
    Ok(NewUser { name: name.to_owned(), password })
}

fn property(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn at_least_one(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err("wanted a number from 1 on".to_owned()),
    }
}

/// A program of its own, so it prints: its ready line is for whoever started it. Not by `println!`, which panics when
/// the reader has gone; nothing can be told to a reader that has gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Notices, and the one error line.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "hone-broker: {line}");
}
