//! `hone connection`: how to reach clusters, kept once under names.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use hone_experiment::connection::check::{Answer, check};
use hone_experiment::connection::{self, Connection, import};
use hone_experiment::ending::{Ending, Usage};
use serde::Serialize;

use super::context::CliContext;
use hone_cli::connection::{LoginOptions, PASSWORD_VARIABLE};

/// Keep, list and test connections to clusters
///
/// A connection holds bootstrap addresses, TLS files, the login, metrics pages and a store. You name it with --connection in every verb that
/// talks to a cluster. Hone keeps it in `~/.config/hone/connections` (mode 0600).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone connection add prod ~/.config/rpk/rpk.yaml
  hone connection test prod
  hone batch xray --connection prod
  hone connection add staging client.properties
  hone connection add lab --bootstrap 127.0.0.1:9092 \\
    --metrics http://127.0.0.1:9644/metrics
  hone connection list
  hone connection remove lab")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    Add(Box<Add>),
    List(List),
    Test(Test),
    Remove(Remove),
}

/// Keep a connection under a name
///
/// Hone imports FILE. Options win over FILE.
#[derive(Debug, Args)]
struct Add {
    /// Name of the connection.
    name: String,
    /// File to import: a TOML connection file, an rpk profile (.yaml) or client properties.
    file: Option<PathBuf>,
    /// Brokers to connect to first: HOST:PORT, separated by commas.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    bootstrap: Vec<String>,
    /// Metrics page of a broker; repeat it for each broker.
    #[arg(long = "metrics", value_name = "URL")]
    metrics: Vec<String>,
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Overwrite what someone else has changed. Here: a connection of the same name.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    login: LoginOptions,
}

/// List the connections that are kept
#[derive(Debug, Args)]
struct List {}

/// Ask each address of a connection once
///
/// Hone writes nothing. Exit code 1: an address does not answer as it should.
#[derive(Debug, Args)]
struct Test {
    /// Name or file of the connection.
    #[arg(value_name = "CONNECTION")]
    connection: String,
}

/// Delete a connection that is kept
#[derive(Debug, Args)]
struct Remove {
    /// Name of the connection.
    name: String,
}

/// A kept connection, as `--json` prints it: without its password.
#[derive(Debug, Serialize)]
struct NamedConnection {
    name: String,
    #[serde(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    match arguments.step {
        Step::Add(add) => self::add(*add, cli),
        Step::List(List {}) => list(cli),
        Step::Test(Test { connection }) => test(&connection, cli),
        Step::Remove(Remove { name }) => {
            connection::remove(&name)?;
            cli.progress.line(&format!("removed {name}"));
            Ok(Ending::Done)
        }
    }
}

fn add(add: Add, cli: &CliContext) -> Result<Ending> {
    let imported = add.file.as_deref().map(import::read).transpose()?;
    let ignored = imported.as_ref().map_or(Vec::new(), |imported| imported.ignored.clone());
    let given = Connection {
        bootstrap: add.bootstrap,
        metrics: add.metrics,
        store: add.store,
        ..add.login.connection()?
    };
    let connection = given.over(imported.map(|imported| imported.connection).unwrap_or_default());
    if connection.bootstrap.is_empty() {
        return Err(Usage(format!(
            "connection `{}` names no broker\n  next: add --bootstrap HOST:PORT, or name a file to import",
            add.name
        ))
        .into());
    }
    let name = add.name;
    let file = connection.save(&name, add.force)?;
    if !ignored.is_empty() {
        cli.progress.line(&format!("not used: {}", ignored.join(", ")));
    }
    cli.show_found("connection", &file, |file| {
        format!("Connection: {}\nnext: hone connection test {name}\n", file.display())
    })
}

fn list(cli: &CliContext) -> Result<Ending> {
    let kept = |name: String| Ok(NamedConnection { connection: Connection::open(&name)?, name });
    let all: Vec<NamedConnection> = connection::names()?.into_iter().map(kept).collect::<Result<_>>()?;
    cli.show_found("connections", &all, |all| hone_document::connection::list(all.iter().map(line)))
}

/// Name, addresses and protection of a connection.
fn line(kept: &NamedConnection) -> [String; 3] {
    let protection = match (&kept.connection.tls, &kept.connection.sasl) {
        (None, None) => "plaintext".to_owned(),
        (tls, login) => {
            let login = login.as_ref().map(|login| format!("{} as {}", login.mechanism, login.user));
            tls.as_ref().map(|_| "TLS".to_owned()).into_iter().chain(login).collect::<Vec<_>>().join(", ")
        }
    };
    [kept.name.clone(), kept.connection.bootstrap.join(","), protection]
}

fn test(name: &str, cli: &CliContext) -> Result<Ending> {
    let connection = Connection::open(name)?;
    let security = connection.security(PASSWORD_VARIABLE)?;
    cli.progress.doing("connection test");
    let answers = check(&connection, &security);
    let is_fine = answers.iter().all(|answer| answer.found.is_some());
    cli.show_found("connection-test", &answers, |answers: &Vec<Answer>| {
        hone_document::connection::answers(answers)
    })?;
    Ok(if is_fine { Ending::Done } else { Ending::CouldNot })
}
