//! Reads a target's own counters of busy time over HTTP, before and after a window.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_batch::metrics::busy::{self, Reading, Selector};
use hone_record::{Metric, TargetBusy};
use hone_store::web::{Web, shown};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

use crate::arm;
use crate::ending::Usage;
use crate::metered::{completed, token_of};

/// Options that name a target's own counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Metrics page of a broker; repeat it for each broker. HOST:PORT means http://HOST:PORT/metrics. For a command, Hone fills in {port} and
    /// {port2}. The busy time on these pages becomes the metric busy-per-record.
    #[arg(help_heading = "Target metrics", long = "metrics", value_name = "URL")]
    #[serde(rename = "metrics")]
    pub urls: Vec<String>,
    /// Counter of busy time on the metrics pages: NAME or NAME{label="value"}. Append :s, :ms, :us or :ns if the name does not state the unit.
    #[arg(help_heading = "Target metrics", long, value_name = "NAME", requires = "urls")]
    pub busy_metric: Option<String>,
    /// File with the bearer token for the metrics. The address can contain a user and a password instead.
    #[arg(help_heading = "Target metrics", long, value_name = "FILE", requires = "urls")]
    pub metrics_token_file: Option<PathBuf>,
}

impl Metrics {
    /// Whether the user named a metrics page.
    pub fn are_read(&self) -> bool {
        !self.urls.is_empty()
    }

    /// The default of the primary metric: busy time if Hone reads it, otherwise CPU.
    pub fn decides(&self) -> Metric {
        if self.are_read() { Metric::BusyPerRecord } else { Metric::CpuPerRecord }
    }

    /// Checks the options before anything starts.
    ///
    /// # Errors
    /// With the first wrong option and the reason.
    pub fn check(&self) -> Result<()> {
        self.selector()?;
        if let Some(name) = self.busy_metric.as_ref().filter(|_| self.urls.is_empty()) {
            return Err(Usage(format!(
                "busy metric `{name}`: no metrics page is named\n  next: add --metrics URL"
            ))
            .into());
        }
        if let Some(word) = self.urls.iter().find_map(|url| arm::unknown_placeholder(url)) {
            return Err(Usage(format!("unknown placeholder {{{word}}} in a metrics address")).into());
        }
        self.token().map(|_| ())
    }

    /// Reads the counters of a running target once, so that an unreadable page fails before the first window.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub fn check_readable(&self) -> Result<()> {
        self.check()?;
        let Some(meter) = self.filled(str::to_owned).begin()? else { return Ok(()) };
        meter.before.map(|_| ()).map_err(|why| Usage(why).into())
    }

    fn selector(&self) -> Result<Option<Selector>> {
        let parsed = self.busy_metric.as_deref().map(Selector::parse).transpose();
        parsed.map_err(|error| Usage(format!("busy metric: {error}")).into())
    }

    fn token(&self) -> Result<Option<String>> {
        self.metrics_token_file.as_deref().map(token_of).transpose()
    }

    /// The same options with the ports of a running target filled in.
    pub fn filled(&self, fill: impl Fn(&str) -> String) -> Self {
        Self { urls: self.urls.iter().map(|url| completed(&fill(url))).collect(), ..self.clone() }
    }

    /// Reads the counters right before a window. The answer is `None` without --metrics. The window reports a page that cannot be read.
    ///
    /// # Errors
    /// If no request is possible: the token or the HTTP client is missing.
    pub fn begin(&self) -> Result<Option<Meter>> {
        if self.urls.is_empty() {
            return Ok(None);
        }
        let web = Web::open(self.token()?.as_deref()).context("cannot request the metrics")?;
        let mut meter =
            Meter { web, urls: self.urls.clone(), counter: self.selector()?, before: Err(String::new()) };
        meter.before = meter.at_the_beginning();
        Ok(Some(meter))
    }
}

/// The counters at the start of a window.
#[derive(Debug)]
pub struct Meter {
    web: Web,
    urls: Vec<String>,
    counter: Option<Selector>,
    before: Result<Before, String>,
}

#[derive(Debug)]
struct Before {
    look: Look,
    /// The busy time that one reading costs the target, in seconds.
    look_s: f64,
}

/// One reading of all pages.
#[derive(Debug)]
struct Look {
    at: Instant,
    readings: Vec<Reading>,
}

impl Meter {
    fn look(&self) -> Result<Look, String> {
        let begun = Instant::now();
        let read = |url: &String| {
            let page = self.web.get(url, &[], &interrupt::requested).map_err(|error| error.to_string())?;
            busy::read(&page, self.counter.as_ref()).map_err(|error| format!("{}: {error}", shown(url)))
        };
        let readings = self.urls.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        // The target takes its counters at some time between request and answer.
        Ok(Look { at: begun + begun.elapsed() / 2, readings })
    }

    /// To serve a page is work for the target, and its counters include it. Two readings in a row measure that work. The first reading of all
    /// costs more, because nothing is cached, so this function discards it.
    fn at_the_beginning(&self) -> Result<Before, String> {
        self.look()?;
        let (first, second) = (self.look()?, self.look()?);
        let look_s = busy_between(&first, &second)?.0;
        Ok(Before { look: second, look_s })
    }

    /// The busy time since the start.
    ///
    /// # Errors
    /// With the reason why it is not known.
    pub fn end(self) -> Result<TargetBusy, String> {
        let after = self.look();
        let Before { look: before, look_s } = self.before?;
        let after = after?;
        let (busy_s, series, idle_s) = busy_between(&before, &after)?;
        let over_s = after.at.duration_since(before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let mut counters: Vec<String> = after.readings.into_iter().map(|reading| reading.counter).collect();
        counters.dedup();
        Ok(TargetBusy {
            busy_s: (busy_s - look_s).max(0.0),
            over_s,
            counter: counters.join(", "),
            series,
            reading_s: look_s,
            handlers_idle_share: idle_s.map(|idle_s| (idle_s / over_s).clamp(0.0, 1.0)),
            endpoints: self.urls.iter().map(|url| shown(url)).collect(),
        })
    }
}

/// Busy seconds over all pages, their series, and how long Kafka's request handlers were idle on average of all brokers.
fn busy_between(before: &Look, after: &Look) -> Result<(f64, u32, Option<f64>), String> {
    let each =
        before.readings.iter().zip(&after.readings).map(|(before, after)| busy::between(before, after));
    let each = each.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let idle_s: Option<f64> = each.iter().map(|busy| busy.handlers_idle_s).sum();
    Ok((
        each.iter().map(|busy| busy.busy_s).sum(),
        each.iter().fold(0, |sum: u32, busy| sum.saturating_add(busy.series)),
        idle_s.map(|idle_s| idle_s / each.len().max(1) as f64),
    ))
}
