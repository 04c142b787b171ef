//! `hone broker`: the embedded broker.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_broker::{
    Broker, Endpoint, Fault, NewUser, Notices, Settings, TlsFiles, raise_open_files, read_password, resolve,
};
use hone_tool::interrupt;

use super::{Desk, print};
use crate::Ending;

/// Serve a single-node Kafka-API broker over an on-disk log, until SIGTERM or Ctrl-C.
///
/// Other machines are let in only inside TLS and by a login or a client certificate, unless --insecure says otherwise.
///
/// With acks=all acknowledged means fsynced, unless the topic says write.caching=true. It prints one line on stdout
/// when it serves: `ready kafka=ADDRESS metrics=ADDRESS data=FOLDER pid=N`. The same broker is the program hone-broker.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone broker --data /var/tmp/broker
  hone broker --memory --listen 127.0.0.1:0 --metrics off
  hone broker --data /var/tmp/broker --listen 127.0.0.1:0 --metrics off
  hone broker --data /var/tmp/broker --listen 0.0.0.0:9093 --advertise broker.example.org:9093 \
      --tls-cert cert.pem --tls-key key.pem --sasl --user alice:alice.password
  kcat -b 127.0.0.1:9092 -L")]
pub(crate) struct Arguments {
    /// Folder of logs and metadata; made when missing.
    #[arg(long, value_name = "FOLDER", required_unless_present = "memory", conflicts_with = "memory")]
    data: Option<PathBuf>,
    /// Keep everything in memory; nothing touches the disk.
    #[arg(long)]
    memory: bool,
    /// A property of the broker, such as write_caching_default=true; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = property)]
    set: Vec<(String, String)>,
    /// What clients may make it hold in memory, in bytes.
    #[arg(long, value_name = "N")]
    max_memory_bytes: Option<usize>,
    /// Clients at a time; one more is closed at once.
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Make the storage fail, for tests, as in fsync-error,topic=t,after=100; may be repeated.
    #[arg(long, value_name = "SPEC")]
    fault: Vec<Fault>,
    /// Where to serve clients, HOST:PORT; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:9092", value_name = "ADDRESS", value_parser = resolve)]
    listen: SocketAddr,
    /// Where clients are told to connect, HOST:PORT, when it is not the address that was bound.
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<Endpoint>,
    /// Clients talk inside TLS; this certificate (PEM) is the broker's.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Clients need a certificate from the authorities in this file (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Clients must log in: SCRAM-SHA-256, SCRAM-SHA-512, or PLAIN inside TLS.
    #[arg(long)]
    sasl: bool,
    /// Give a user the password in a file; may be repeated.
    #[arg(long, value_name = "NAME:FILE", value_parser = user)]
    user: Vec<NewUser>,
    /// Let other machines in without TLS or without a login.
    #[arg(long)]
    insecure: bool,
    /// Address of /metrics and /ready, or `off`.
    #[arg(long, default_value = "127.0.0.1:9644", value_name = "ADDRESS", value_parser = metrics)]
    metrics: Metrics,
    /// Reactors, a thread each; one for each core unless told otherwise.
    #[arg(long)]
    threads: Option<usize>,
    /// Partitions of a topic that is made without a number.
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    /// Unknown topics stay unknown.
    #[arg(long)]
    no_auto_create: bool,
    /// Ask the access control lists who may do what; needs --superuser.
    #[arg(long, requires = "superuser")]
    authorize: bool,
    /// A principal that may do everything, such as User:admin; can be repeated.
    #[arg(long, value_name = "USER")]
    superuser: Vec<String>,
}

/// Where metrics are served, if anywhere.
#[derive(Debug, Clone, Copy)]
struct Metrics(Option<SocketAddr>);

fn metrics(text: &str) -> Result<Metrics, String> {
    if text == "off" {
        return Ok(Metrics(None));
    }
    text.parse().map(|address| Metrics(Some(address))).map_err(|_| "wanted ADDRESS:PORT, or off".to_owned())
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn user(text: &str) -> Result<NewUser, String> {
    let (name, file) = text.split_once(':').ok_or("wanted NAME:FILE, with the password in the file")?;
    let password = read_password(Path::new(file)).map_err(|error| format!("{error:#}"))?;
    Ok(NewUser { name: name.to_owned(), password })
}

/// How often the wait for the end looks at the flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    let progress = desk.progress.clone();
    let data = arguments.data.unwrap_or_default();
    let mut settings = Settings { memory: arguments.memory, ..Settings::new(&data) };
    settings.properties = arguments.set.into_iter().collect();
    settings.max_memory_bytes = arguments.max_memory_bytes.unwrap_or(settings.max_memory_bytes);
    settings.max_connections = arguments.max_connections.unwrap_or(settings.max_connections);
    arguments.fault.into_iter().for_each(|fault| settings.faults.add(fault));
    settings.listen = arguments.listen;
    settings.advertised = arguments.advertise;
    settings.tls = arguments.tls_cert.zip(arguments.tls_key).map(|(certificate, key)| TlsFiles {
        certificate,
        key,
        client_authorities: arguments.tls_client_ca,
    });
    settings.sasl = arguments.sasl;
    settings.users = arguments.user;
    settings.insecure = arguments.insecure;
    settings.metrics_listen = arguments.metrics.0;
    settings.threads = arguments.threads.unwrap_or(settings.threads).max(1);
    settings.default_partitions = arguments.partitions.max(1);
    settings.auto_create_topics = !arguments.no_auto_create;
    settings.authorize = arguments.authorize;
    settings.super_users.clone_from(&arguments.superuser);
    settings.notices = Notices::to(move |notice| progress.line(notice));
    raise_open_files();
    let broker = Broker::start(settings)?;
    let metrics = broker.metrics_addr().map_or("off".to_owned(), |address| address.to_string());
    print(&format!(
        "ready kafka={} metrics={metrics} data={} pid={}\n",
        broker.kafka_addr(),
        if arguments.memory { "memory".to_owned() } else { data.display().to_string() },
        std::process::id()
    ))?;
    while !interrupt::requested() {
        std::thread::sleep(LOOK_EVERY);
    }
    broker.stop()?;
    Ok(Ending::Done)
}
