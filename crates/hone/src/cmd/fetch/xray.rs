//! `hone fetch xray`: watches consumer groups and says what is wrong with them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_batch::fetch::counters::Counts;
use hone_batch::fetch::xray::{COMMIT_EVERY_S, FetchXray, GroupXray, Look, UnknownGroup, xray};
use hone_cli::connection::BrokerOptions;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::{completed, wait_until};
use hone_format::read_duration_s;
use hone_load::Topics;
use hone_store::web::Web;
use hone_tool::interrupt;

use crate::cmd::context::CliContext;

/// Pause between two looks at the groups.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Shorter than this, commits hide every trend.
const LEAST_S: f64 = 2.0 * COMMIT_EVERY_S;
const MOST_S: f64 = 3_600.0;

/// Watch consumer groups, and say what is wrong with them.
///
/// Hone reads members, committed offsets and the ends of the partitions every 2 s. It names groups that fall behind, slow members, stuck and
/// skewed partitions, rebalances, and records that retention deleted unread. It changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone fetch xray broker-1:9092
  hone fetch xray broker-1:9092 billing audit --duration 5m
  hone fetch xray broker-1:9092 --metrics broker-1:9644 \\
    --metrics broker-2:9644")]
pub(crate) struct Arguments {
    /// Any broker of the cluster: HOST:PORT, or several, separated by commas.
    #[arg(value_name = "BROKER")]
    broker: Option<String>,
    /// Groups to watch. [default: all consumer groups]
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
    /// How long to measure. Clients commit every 5 s, so a longer time shows smaller trends.
    #[arg(long = "duration", value_name = "TIME", default_value = "1m", value_parser = read_duration_s)]
    length: f64,
    /// Metrics page of a broker; repeat it for each broker. Hone then shows the Fetch requests, too. `HOST:PORT` means http://HOST:PORT/metrics.
    #[arg(long = "metrics", value_name = "URL")]
    pages: Vec<String>,
    #[command(flatten)]
    connection: BrokerOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if !(LEAST_S..=MOST_S).contains(&arguments.length) {
        bail!(Usage(format!(
            "--duration must lie between {LEAST_S} s and {MOST_S} s: clients commit every {COMMIT_EVERY_S} s"
        )));
    }
    let (brokers, groups) = arguments.connection.split(arguments.broker.as_deref(), &arguments.groups)?;
    let mut cluster = Topics::enter(&brokers, &arguments.connection.security.security()?)?;
    let (groups, mut unknown) = match groups.is_empty() {
        true => all_groups(&mut cluster)?,
        false => (groups, Vec::new()),
    };
    let pages = Pages::at(&arguments.pages)?;
    let before = pages.read()?;
    let looks = watch(&mut cluster, &groups, arguments.length, cli)?;
    let after = pages.read()?;
    let mut found = Vec::new();
    for (group, seen) in looks {
        match seen {
            Ok(looks) if looks.last().is_some_and(is_none) => {
                unknown.push(UnknownGroup { group, why: "the cluster has no such group".to_owned() });
            }
            Ok(looks) => match xray(&looks) {
                Some(group) => found.push(group),
                None => unknown.push(UnknownGroup { group, why: "it was seen only once".to_owned() }),
            },
            Err(why) => unknown.push(UnknownGroup { group, why }),
        }
    }
    found.sort_by_key(|group: &GroupXray| std::cmp::Reverse(group.findings.len()));
    let fetches = before.zip(after).and_then(|((begun, before), (ended, after))| {
        before.until(after, ended.duration_since(begun).as_secs_f64())
    });
    let source = brokers.split(',').next().unwrap_or_default().to_owned();
    let found = FetchXray { source, groups: found, unknown, fetches };
    cli.show_found("fetch-xray", &found, hone_document::fetch_xray::text)
}

/// Brokers describe every name, and call a group dead that they do not know.
fn is_none(look: &Look) -> bool {
    look.group.state == "Dead" && look.group.partitions.is_empty()
}

/// All groups of consumers, and those of another kind.
fn all_groups(cluster: &mut Topics) -> Result<(Vec<String>, Vec<UnknownGroup>)> {
    let listed = cluster.groups()?;
    let (known, others): (Vec<_>, Vec<_>) =
        listed.into_iter().partition(|group| matches!(group.kind.as_str(), "consumer" | ""));
    let other = |group: hone_record::ListedGroup| {
        let why = format!("groups of the kind {} have no partitions and offsets of this kind", group.kind);
        UnknownGroup { group: group.group, why }
    };
    Ok((known.into_iter().map(|group| group.group).collect(), others.into_iter().map(other).collect()))
}

/// What was seen of each group, or why it can't be seen.
type LooksByGroup = BTreeMap<String, Result<Vec<Look>, String>>;

/// Looks at every group until the time is over, or the user has seen enough.
fn watch(cluster: &mut Topics, groups: &[String], length_s: f64, cli: &CliContext) -> Result<LooksByGroup> {
    let mut seen: LooksByGroup = groups.iter().map(|group| (group.clone(), Ok(Vec::new()))).collect();
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(length_s);
    loop {
        let planned = Instant::now() + LOOK_EVERY;
        for (group, looks) in &mut seen {
            let Ok(kept) = looks else { continue };
            match cluster.group_now(group) {
                Ok(now) => kept.push(Look { at_s: begun.elapsed().as_secs_f64(), group: now }),
                // A broker may be away for a moment; what was seen before stays.
                Err(error) if kept.is_empty() => *looks = Err(error.to_string()),
                Err(_) => {}
            }
        }
        let share = begun.elapsed().as_secs_f64() / length_s;
        cli.progress.doing(&format!("watching {} groups: {:.0} %", groups.len(), 100.0 * share.min(1.0)));
        if seen.values().all(Result::is_err) || Instant::now() >= end || !wait_until(planned.min(end)) {
            return Ok(seen);
        }
    }
}

/// Metrics pages of the brokers.
struct Pages {
    web: Option<Web>,
    urls: Vec<String>,
}

impl Pages {
    fn at(urls: &[String]) -> Result<Self> {
        let web =
            (!urls.is_empty()).then(|| Web::open(None).context("cannot request the metrics")).transpose()?;
        Ok(Self { web, urls: urls.iter().map(|url| completed(url)).collect() })
    }

    /// The sum of all pages, and its time. `None` without pages.
    fn read(&self) -> Result<Option<(Instant, Counts)>> {
        let Some(web) = &self.web else { return Ok(None) };
        let mut sum = None;
        for url in &self.urls {
            let page = web.get(url, &[], &interrupt::requested)?;
            let Some(counts) = Counts::of_page(&page) else {
                bail!(
                    "{url} has no counter of Fetch requests\n  next: name the page of Redpanda, of hone-broker, or of Kafka's JMX exporter with RequestMetrics"
                );
            };
            sum = Some(sum.map_or(counts, |sum: Counts| sum + counts));
        }
        Ok(sum.map(|sum| (Instant::now(), sum)))
    }
}
