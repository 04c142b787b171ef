//! `hone init FOLDER`: writes a first experiment file for a source tree. `hone init HOST:PORT` is in [`super::init_cluster`].

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::init_cluster::{self, ClusterOptions};
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::init::write_for_tree;
use hone_tune::init_jvm;
use hone_tune::starter::Load;

/// Write a first file for a source tree, program or running cluster.
///
/// For a running cluster (HOST:PORT), Hone writes tune.toml for `hone tune`, with a load that replicates the producers of a topic. It only
/// reads the cluster.
///
/// For a source tree or a program, Hone writes hone.toml. It supports Cargo, Go modules, CMake, Meson, make, linked programs, jars, and a running
/// Java service (--pid). With --load
/// kafka, it also writes tune.toml. It builds nothing.
///
/// Comments in the files mark the values that only you know. Hone never overwrites an existing file.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone init
  hone init ../leveldb --bin db_bench --load run
  hone init ../service --load kafka --output service.toml
  hone init /usr/local/bin/server
  hone init --pid \"$(pgrep -f kafka.Kafka)\"    # a running Java service
  hone init broker-1:9092,broker-2:9092        # a running cluster
  hone init broker-1:9092 --topic orders --output orders.toml")]
pub(crate) struct Arguments {
    /// Source tree, linked program, jar, or HOST:PORT of a running cluster. Separate several brokers with commas.
    #[arg(default_value = ".", value_name = "FOLDER|BROKER")]
    folder: PathBuf,
    /// Process id. Hone reads the command line of this running Java service, and changes nothing.
    #[arg(long, value_name = "PID", conflicts_with_all = ["folder", "program", "load"])]
    pid: Option<u32>,
    /// Name of the program to optimise. [default: the likeliest program of the tree]
    #[arg(short = 'p', long = "bin", alias = "program", value_name = "NAME")]
    program: Option<String>,
    /// Kind of load for the program. [default: detected from the sources]
    #[arg(short, long, value_enum)]
    load: Option<Load>,
    /// Where to write the result. [default: hone.toml in FOLDER (for a linked program in the current folder), tune.toml for a cluster]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let named = arguments.folder.to_str().filter(|text| init_cluster::are_brokers(text)).map(str::to_owned);
    // A variable of the environment does not turn `hone init` of a source tree into that of a cluster.
    let names_a_cluster =
        !cli.is_given("folder") && ["bootstrap", "connection"].iter().any(|id| cli.is_given(id));
    let brokers = if names_a_cluster { arguments.cluster.brokers.bootstrap()? } else { named };
    check(arguments, brokers.is_some(), cli)?;
    if let Some(brokers) = &brokers {
        return init_cluster::run(brokers, &arguments.cluster, arguments.output.as_deref(), cli);
    }
    let Arguments { folder, program, load, output, pid, .. } = arguments;
    let of_java = match pid {
        Some(pid) => Some(init_jvm::write_for_process(*pid, output.as_deref())?),
        None if init_jvm::is_jar(folder) => Some(init_jvm::write_for_jar(folder, output.as_deref())?),
        None => None,
    };
    if let Some(written) = of_java {
        return cli.show_found("init", &written, hone_tune::init_text::text);
    }
    let written = write_for_tree(folder, program.as_deref(), *load, output.as_deref())?;
    cli.show_found("init", &written, hone_tune::init_text::text)
}

/// Rejects options of a source tree for a cluster, and options of a cluster for a source tree.
fn check(arguments: &Arguments, is_cluster: bool, cli: &CliContext) -> Result<()> {
    let of_tree = ["program", "load"].map(str::to_owned).into_iter();
    let foreign: Vec<String> = if is_cluster { of_tree.collect() } else { init_cluster::names().collect() };
    let Some(name) = foreign.iter().find(|name| cli.is_given(name)) else { return Ok(()) };
    // The names are clap's ids. Only this option has another name on the command line.
    let name = if name == "program" { "bin".to_owned() } else { name.replace('_', "-") };
    let place = arguments.folder.display();
    bail!(Usage(match is_cluster {
        true => format!(
            "{place} is a cluster, but --{name} is for a source tree or a program\n  next: omit --{name}"
        ),
        false => format!(
            "{place} is not a cluster, but --{name} is for a running cluster\n  next: name HOST:PORT \
             instead of {place}"
        ),
    }))
}
