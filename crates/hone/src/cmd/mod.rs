//! The verbs, one file each: the arguments, their conversion into settings, the call and the output.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, Parser, Subcommand};

use self::context::{CliContext, Common};
use hone_experiment::ending::Ending;

mod batch;
mod broker;
pub(crate) mod compare;
mod completions;
mod connection;
pub(crate) mod context;
mod cost;
mod diagnose;
pub(crate) mod doctor;
mod fetch;
pub(crate) mod fleet;
mod gate;
mod heatmap;
mod history;
pub(crate) mod host;
pub(crate) mod init;
pub(crate) mod init_cluster;
pub(crate) mod ledger;
pub(crate) mod ledgers;
mod load;
mod man;
mod merge;
mod optimize;
pub(crate) mod profile;
mod rates;
mod reference;
pub(crate) mod report;
mod sample;
mod saved;
mod serve;
mod shard;
mod tune;
pub(crate) mod version;

/// Makes streaming services faster, and proves it.
#[derive(Debug, Parser)]
#[command(
    name = "hone",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 measured and the answer is no."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process creates one of them")]
enum Verb {
    Doctor(doctor::Arguments),
    Broker(broker::Arguments),
    Load(load::Arguments),
    Merge(merge::Arguments),
    Compare(Box<compare::Arguments>),
    Init(init::Arguments),
    Optimize(optimize::Arguments),
    Gate(gate::Arguments),
    Profile(profile::Arguments),
    Diagnose(diagnose::Arguments),
    Heatmap(heatmap::Arguments),
    Batch(batch::Arguments),
    Fetch(fetch::Arguments),
    Cost(cost::Arguments),
    Host(host::Arguments),
    Ledger(ledger::Arguments),
    History(history::Arguments),
    Tune(tune::Arguments),
    Report(report::Arguments),
    Serve(serve::Arguments),
    Connection(connection::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    #[command(hide = true)]
    Reference(reference::Arguments),
    Version(version::Arguments),
}

/// The arguments of the verb that stand on the command line: their ids (field names) and the names that the user typed. All other arguments
/// have their defaults.
pub(crate) fn given(program: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let Some((name, mut verb)) = matches.subcommand() else { return BTreeMap::new() };
    let mut command = program.find_subcommand(name);
    // A verb can have subcommands.
    while let Some((name, step)) = verb.subcommand() {
        (command, verb) = (command.and_then(|command| command.find_subcommand(name)), step);
    }
    let shown = |id: &str| {
        let mut all = command.into_iter().flat_map(Command::get_arguments);
        let option = all.find(|argument| argument.get_id() == id).and_then(clap::Arg::get_long);
        option.map_or_else(|| id.to_uppercase(), |long| format!("--{long}"))
    };
    let said = |id: &&str| verb.value_source(id) == Some(ValueSource::CommandLine);
    // clap makes a group of flattened options, and a group has no source.
    let arguments = verb.ids().map(clap::Id::as_str).filter(|id| verb.try_contains_id(id).is_ok());
    arguments.filter(said).map(|id| (id.to_owned(), shown(id))).collect()
}

pub(crate) fn run(cli: Cli, given: BTreeMap<String, String>) -> Result<Ending> {
    let context = CliContext::new(&cli.common, given);
    let ending = match cli.verb {
        Verb::Doctor(arguments) => doctor::run(arguments, &context),
        Verb::Broker(arguments) => broker::run(arguments, &context),
        Verb::Load(arguments) => load::run(arguments, &context),
        Verb::Merge(arguments) => merge::run(arguments, &context),
        Verb::Compare(arguments) => compare::run(&arguments, &context),
        Verb::Init(arguments) => init::run(&arguments, &context),
        Verb::Optimize(arguments) => optimize::run(arguments, &context),
        Verb::Gate(arguments) => gate::run(&arguments, &context),
        Verb::Profile(arguments) => profile::run(arguments, &context),
        Verb::Diagnose(arguments) => diagnose::run(&arguments, &context),
        Verb::Heatmap(arguments) => heatmap::run(&arguments, &context),
        Verb::Batch(arguments) => batch::run(&arguments, &context),
        Verb::Fetch(arguments) => fetch::run(&arguments, &context),
        Verb::Cost(arguments) => cost::run(&arguments, &context),
        Verb::Host(arguments) => host::run(&arguments, &context),
        Verb::Ledger(arguments) => ledger::run(&arguments, &context),
        Verb::History(arguments) => history::run(arguments, &context),
        Verb::Tune(arguments) => tune::run(&arguments, &context),
        Verb::Report(arguments) => report::run(arguments, &context),
        Verb::Serve(arguments) => serve::run(&arguments, &context),
        Verb::Connection(arguments) => connection::run(arguments, &context),
        Verb::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Verb::Man(arguments) => man::run(&arguments, Cli::command(), &context),
        Verb::Reference(arguments) => reference::run(&arguments, Cli::command()),
        Verb::Version(arguments) => version::run(arguments, &context),
    };
    context.progress.clear();
    ending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
