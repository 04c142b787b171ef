//! The brokers' own metrics pages.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};
use hone_batch::metrics::derive;
use hone_batch::metrics::quantity::{By, Rates};
use hone_batch::metrics::snapshot::Snapshot;
use hone_batch::metrics::source::Source;
use hone_store::web::{Web, shown};
use hone_tool::interrupt;

/// Brokers by their endpoints.
#[derive(Debug)]
pub struct Brokers {
    web: Web,
    /// Addresses by `host:port`: one broker may have several pages.
    urls: BTreeMap<String, Vec<String>>,
    begun: Instant,
    before: BTreeMap<String, Snapshot>,
}

impl Brokers {
    /// Sends no request yet.
    ///
    /// # Errors
    /// When the client can't be created.
    pub fn at(endpoints: &[String], token: Option<&str>) -> Result<Self> {
        let mut urls: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for endpoint in endpoints {
            let url = completed(endpoint);
            urls.entry(instance(&url).to_owned()).or_default().push(url);
        }
        Ok(Self { web: Web::open(token)?, urls, begun: Instant::now(), before: BTreeMap::new() })
    }

    /// The addresses, without passwords.
    pub fn endpoints(&self) -> Vec<String> {
        self.urls.values().flatten().map(|url| shown(url)).collect()
    }

    /// Rates since the last sample; `None` for the first one.
    pub(super) fn look(&mut self, by: By) -> Result<Option<(Source, Rates)>> {
        let (mut rates, mut notes, mut sources, mut after) =
            (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        for (instance, urls) in &self.urls {
            let snapshot = match self.snapshot(instance, urls) {
                Ok(snapshot) => snapshot,
                // If one of several brokers is missing, it is reported, and the others still count.
                Err(error) if self.urls.len() > 1 && !interrupt::requested() => {
                    notes.push(format!("{instance} is missing: {error:#}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            sources.push(snapshot.source);
            if let Some(before) = self.before.get(instance) {
                match derive::rates(before, &snapshot, by) {
                    Ok(found) => rates.push(found),
                    Err(error) => notes.push(error.to_string()),
                }
            }
            after.insert(instance.clone(), snapshot);
        }
        self.before = after;
        let Some(source) = sources.first().copied() else {
            bail!("no broker answers:\n  {}", notes.join("\n  "));
        };
        if sources.iter().any(|other| *other != source) {
            let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
            notes.push(format!(
                "the brokers are of several kinds ({}), which count differently; sums over them are not \
                 exact",
                names.join(", ")
            ));
        }
        if rates.is_empty() {
            return Ok(None);
        }
        let mut all = derive::together(rates);
        all.notes.extend(notes);
        Ok(Some((source, all)))
    }

    fn snapshot(&self, instance: &str, urls: &[String]) -> Result<Snapshot> {
        let begun = self.begun.elapsed();
        let mut pages = Vec::new();
        for url in urls {
            pages.push(self.web.get(url, &[], &interrupt::requested)?);
        }
        // The broker reads its counters some time between request and answer.
        let at_s = (begun + self.begun.elapsed()).as_secs_f64() / 2.0;
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        Snapshot::read(instance, at_s, &pages)
            .map_err(|error| anyhow::anyhow!("the page of {instance} has {error}"))
    }
}

/// A short address: `host:9644` becomes `http://host:9644/metrics`.
pub fn completed(endpoint: &str) -> String {
    let url = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
    let behind_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    match behind_scheme.split_once('/') {
        None => format!("{url}/metrics"),
        Some((_, "")) => format!("{url}metrics"),
        Some(_) => url,
    }
}

/// `host:port` of an address.
fn instance(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_short() {
        for (endpoint, url, name) in [
            ("h:9644", "http://h:9644/metrics", "h:9644"),
            ("http://h:9644", "http://h:9644/metrics", "h:9644"),
            ("https://me:p@h/", "https://me:p@h/metrics", "h"),
            ("http://h:1/public_metrics?x=1", "http://h:1/public_metrics?x=1", "h:1"),
        ] {
            assert_eq!(completed(endpoint), url);
            assert_eq!(instance(url), name);
        }
        let brokers = Brokers::at(&["https://me:secret@h/metrics".to_owned()], None).unwrap();
        assert_eq!(brokers.endpoints(), ["https://h/metrics"]);
    }
}
