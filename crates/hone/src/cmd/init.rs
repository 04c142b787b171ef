//! `hone init FOLDER`: from a source tree to a first experiment file. `hone init HOST:PORT` is in [`super::init_cluster`].

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::init_cluster::{self, ClusterOptions};
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::init::write_for_tree;
use hone_tune::starter::Load;

/// Write a first file for a source tree, program or running cluster.
///
/// For HOST:PORT of a running cluster it writes tune.toml for `hone tune`, whose load replicates a topic's own producers: their number,
/// rates, sizes, partitions, linger, batch size and codec. It reads the cluster and writes nothing to it.
///
/// For a source tree or a program it writes hone.toml. It knows Cargo, Go modules, CMake, Meson, make with and without a configure script,
/// and linked programs. For what speaks Kafka's protocol (--load kafka) it writes a second file, tune.toml, for `hone tune`. Nothing is built.
///
/// The files have comments. They mark what only you can know. A file that is there is never written over.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone init
  hone init ../leveldb --program db_bench --load run
  hone init ../service --load kafka --output service.toml
  hone init /usr/local/bin/server
  hone init broker-1:9092,broker-2:9092                      a running cluster
  hone init broker-1:9092 --topic orders --output orders.toml")]
pub(crate) struct Arguments {
    /// A source tree, a linked program, or HOST:PORT of a running cluster (several with commas).
    #[arg(default_value = ".", value_name = "FOLDER|BROKER")]
    folder: PathBuf,
    /// The program to optimise; unless named, the likeliest of those that the tree makes.
    #[arg(short, long, value_name = "NAME")]
    program: Option<String>,
    /// What makes it work; unless named, by what its sources say.
    #[arg(short, long, value_enum)]
    load: Option<Load>,
    /// The file to write; unless named, hone.toml in the folder (for a linked program in the current one), and tune.toml for a cluster.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let brokers = arguments.folder.to_str().filter(|text| init_cluster::are_brokers(text));
    check(arguments, brokers.is_some(), cli)?;
    if let Some(brokers) = brokers {
        return init_cluster::run(brokers, &arguments.cluster, arguments.output.as_deref(), cli);
    }
    let Arguments { folder, program, load, output, .. } = arguments;
    let written = write_for_tree(folder, program.as_deref(), *load, output.as_deref())?;
    cli.show_found("init", &written, hone_tune::init_text::text)
}

/// Options of a tree say nothing of a cluster, and the other way round.
fn check(arguments: &Arguments, is_cluster: bool, cli: &CliContext) -> Result<()> {
    let of_tree = ["program", "load"].map(str::to_owned).into_iter();
    let foreign: Vec<String> = if is_cluster { of_tree.collect() } else { init_cluster::names().collect() };
    let Some(name) = foreign.iter().find(|name| cli.is_given(name)) else { return Ok(()) };
    let (name, place) = (name.replace('_', "-"), arguments.folder.display());
    let (what, other) = match is_cluster {
        true => ("a cluster", "a source tree or a program"),
        false => ("no cluster", "a running cluster: name HOST:PORT"),
    };
    bail!(Usage(format!("{place} is {what}, and --{name} is for {other}")))
}
