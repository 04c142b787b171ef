//! One file for each verb: its arguments, their conversion into a room's settings, the call, the show.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Parser, Subcommand};
use hone_record::{Body, Envelope, FORMAT_VERSION};
use serde::Serialize;
use serde_json::json;

use self::security::SecurityOptions;
use crate::progress::Progress;
use crate::{Ending, Usage};

mod batch;
mod broker;
pub(crate) mod client;
pub(crate) mod compare;
mod completions;
mod diagnose;
pub(crate) mod doctor;
pub(crate) mod fleet;
mod gate;
mod heatmap;
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
mod security;
mod serve;
mod shard;
mod tune;
pub(crate) mod version;
mod workload;

/// Makes streaming services faster, and proves it.
#[derive(Debug, Parser)]
#[command(
    name = "hone",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 could not, 2 wrong usage, 3 measured, and the answer is no."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Print the result as a record (JSON) on stdout instead of text.
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Show no progress.
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one is made in the life of the process")]
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
    Host(host::Arguments),
    Ledger(ledger::Arguments),
    Tune(tune::Arguments),
    Report(report::Arguments),
    Serve(serve::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    #[command(hide = true)]
    Reference(reference::Arguments),
    Version(version::Arguments),
}

/// What every verb may need of the command line and the terminal.
pub(crate) struct Desk {
    json: bool,
    pub(crate) progress: Progress,
    given: BTreeMap<String, String>,
}

/// The arguments of the verb that stand on the command line, by their names in the code, each with its name for people; the others have
/// their defaults.
pub(crate) fn given(program: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let Some((name, mut verb)) = matches.subcommand() else { return BTreeMap::new() };
    let mut command = program.find_subcommand(name);
    // A verb may have steps of its own.
    while let Some((name, step)) = verb.subcommand() {
        (command, verb) = (command.and_then(|command| command.find_subcommand(name)), step);
    }
    let shown = |id: &str| {
        let mut all = command.into_iter().flat_map(Command::get_arguments);
        let option = all.find(|argument| argument.get_id() == id).and_then(clap::Arg::get_long);
        option.map_or_else(|| id.to_uppercase(), |long| format!("--{long}"))
    };
    let said = |id: &&str| verb.value_source(id) == Some(ValueSource::CommandLine);
    // Groups, which flattened options are to clap, have no source.
    let arguments = verb.ids().map(clap::Id::as_str).filter(|id| verb.try_contains_id(id).is_ok());
    arguments.filter(said).map(|id| (id.to_owned(), shown(id))).collect()
}

pub(crate) fn run(cli: Cli, given: BTreeMap<String, String>) -> Result<Ending> {
    let desk = Desk { json: cli.common.json, progress: Progress::new(cli.common.quiet), given };
    let ending = match cli.verb {
        Verb::Doctor(arguments) => doctor::run(arguments, &desk),
        Verb::Broker(arguments) => broker::run(arguments, &desk),
        Verb::Load(arguments) => load::run(arguments, &desk),
        Verb::Merge(arguments) => merge::run(arguments, &desk),
        Verb::Compare(arguments) => compare::run(&arguments, &desk),
        Verb::Init(arguments) => init::run(&arguments, &desk),
        Verb::Optimize(arguments) => optimize::run(arguments, &desk),
        Verb::Gate(arguments) => gate::run(&arguments, &desk),
        Verb::Profile(arguments) => profile::run(arguments, &desk),
        Verb::Diagnose(arguments) => diagnose::run(&arguments, &desk),
        Verb::Heatmap(arguments) => heatmap::run(&arguments, &desk),
        Verb::Batch(arguments) => batch::run(&arguments, &desk),
        Verb::Host(arguments) => host::run(&arguments, &desk),
        Verb::Ledger(arguments) => ledger::run(&arguments, &desk),
        Verb::Tune(arguments) => tune::run(&arguments, &desk),
        Verb::Report(arguments) => report::run(arguments, &desk),
        Verb::Serve(arguments) => serve::run(&arguments, &desk),
        Verb::Completions(arguments) => completions::run(&arguments, &desk),
        Verb::Man(arguments) => man::run(&arguments, &desk),
        Verb::Reference(arguments) => reference::run(&arguments, &desk),
        Verb::Version(arguments) => version::run(arguments, &desk),
    };
    desk.progress.clear();
    ending
}

impl Desk {
    /// Whether an argument stands on the command line.
    pub(crate) fn is_given(&self, argument: &str) -> bool {
        self.given.contains_key(argument)
    }

    /// A run that goes on is as it was begun: whoever names something of it anew would believe that it counts. `besides` are arguments that do.
    ///
    /// # Errors
    /// With the first one that does not.
    pub(crate) fn goes_on(&self, besides: &[&str]) -> Result<()> {
        let any_run = ["resume", "json", "quiet"];
        let counts = |id: &str| {
            any_run.contains(&id) || besides.contains(&id) || SecurityOptions::names().any(|name| name == id)
        };
        match self.given.iter().find(|(id, _)| !counts(id)) {
            None => Ok(()),
            Some((_, shown)) => Err(Usage(format!(
                "{shown} and --resume contradict each other: a run goes on as it was begun\n  next: leave {shown} away, or begin a new run with it"
            ))
            .into()),
        }
    }

    /// The result of a verb, as text or as a record.
    pub(crate) fn show<T: Body>(&self, record: T, text: impl FnOnce(&T) -> String) -> Result<()> {
        self.progress.clear();
        if self.json { print(&Envelope::new(record).to_text()?) } else { print(&text(&record)) }
    }

    /// As [`Desk::show`], for findings that are told and not read again.
    pub(crate) fn show_found<T: Serialize>(
        &self,
        kind: &str,
        found: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        self.progress.clear();
        if self.json {
            let record = json!({"hone_record": FORMAT_VERSION, "kind": kind, "body": found});
            print(&format!("{record:#}\n"))
        } else {
            print(&text(found))
        }
    }
}

/// Set once a reader of stdout has gone away.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// The one place that writes to stdout. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            READER_IS_GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written.context("the result can't be written to stdout"),
    }
}

/// Whether nobody reads what is printed any more, so that work for stdout alone can end.
pub(crate) fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// One on each line.
fn paths(written: &[PathBuf]) -> String {
    written.iter().map(|path| format!("{}\n", path.display())).collect()
}

/// Where runs are kept unless told otherwise.
pub(crate) fn default_runs() -> PathBuf {
    PathBuf::from("runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
