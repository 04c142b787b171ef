//! Consumers of a load: those that read what the window sends, and those that catch up with what was there before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hone_record::{GroupProtocol, Outcome, Processing, ReadFrom, Window, Workload};

use super::Prepared;
use crate::admin::TopicLayout;
use crate::cluster::At;
use crate::consumer::{Consumed, Consumers};
use crate::engine::End;
use crate::engine::Look;
use crate::error::LoadError;
use crate::live::Progress;
use crate::outage::Acknowledged;
use crate::readback;
use crate::recorder::Recorder;
use crate::schedule::MOST_REQUESTS_PER_S;
use crate::security::Access;
use crate::sender::Due;
use crate::warm::Target;

/// Each of these has a connection to every leader.
const MOST_CONSUMERS: u32 = 1_000;
/// Interval of the looks at consumers that only read.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Shortest interval of planted rebalances.
const LEAST_REBALANCE_S: f64 = 3.0;
/// Longest transaction: a coordinator aborts those that are open for a minute.
const LONGEST_TRANSACTION_S: f64 = 30.0;
/// Longest wait of a Fetch: a window ends only after it.
const MOST_FETCH_WAIT_MS: u32 = 30_000;

/// The consumers that read from the beginning of the load on.
pub(super) fn readers(
    address: &str,
    access: &Access,
    workload: &Workload,
    layouts: (&TopicLayout, Option<&TopicLayout>),
) -> Result<Option<Consumers>, LoadError> {
    if workload.catches_up() {
        return Ok(None);
    }
    consumers(address, access, workload, layouts, None)
}

/// The workload's consumers, which also read the warm-up, and its processors, which write to the output. They begin at these offsets, or at the end of the topic.
fn consumers(
    address: &str,
    access: &Access,
    workload: &Workload,
    (layout, output): (&TopicLayout, Option<&TopicLayout>),
    begins: Option<&BTreeMap<i32, i64>>,
) -> Result<Option<Consumers>, LoadError> {
    if workload.consumers == 0 {
        return Ok(None);
    }
    let (layout, ends) = readback::ends(access, layout, readback::BEFORE)?;
    let from = begins.cloned().unwrap_or(ends);
    let Some(output) = output else {
        return Consumers::start(workload, address, access, &layout, &from).map(Some);
    };
    let (output, ends) = readback::ends(access, output, readback::BEFORE)?;
    let mut consumers = Consumers::start(workload, address, access, &output, &ends)?;
    consumers.process(workload, (address, access), (&layout, &output), &from)?;
    Ok(Some(consumers))
}

/// Without requests, consumers need records from before the window.
pub(super) fn check_rate(workload: &Workload) -> Result<(), LoadError> {
    let rate = workload.requests_per_s;
    if rate == 0.0 && workload.catches_up() {
        return Ok(());
    }
    if !(rate > 0.0 && rate <= MOST_REQUESTS_PER_S) {
        let problem = match rate == 0.0 {
            true => "0 sends nothing, so it needs `consumers`, and `read_from` or `backlog`".to_owned(),
            false => format!("must be above 0 and at most {MOST_REQUESTS_PER_S}, got {rate}"),
        };
        return Err(LoadError::Setting { name: "requests_per_s", problem });
    }
    Ok(())
}

/// Checks the consumers by themselves.
pub(super) fn check_consumers(workload: &Workload) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "consumers", problem });
    let readers = workload.consumers.saturating_mul(workload.consumer_groups);
    if workload.consumer_groups == 0 || readers > MOST_CONSUMERS {
        return wrong(format!("must be at most {MOST_CONSUMERS} over all groups, got {readers}"));
    }
    if workload.rebalance_every_s != 0.0 {
        let problem = match workload.group_protocol {
            GroupProtocol::Assigned => {
                Some("needs members that the broker knows: set group_protocol".to_owned())
            }
            // A member stays away for a second, and a group needs time to settle.
            _ if workload.rebalance_every_s < LEAST_REBALANCE_S => {
                Some(format!("must be at least {LEAST_REBALANCE_S} s, got {} s", workload.rebalance_every_s))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(LoadError::Setting { name: "rebalance_every", problem });
        }
    }
    if workload.group_protocol == GroupProtocol::Share && workload.processing.processors > 0 {
        return Err(LoadError::Setting {
            name: "group_protocol",
            problem: "`share` reads records of open transactions too, so it can't follow processors"
                .to_owned(),
        });
    }
    if workload.fetch.fetch_max_wait_ms > MOST_FETCH_WAIT_MS {
        return Err(LoadError::Setting {
            name: "fetch_max_wait_ms",
            problem: format!(
                "must be at most {MOST_FETCH_WAIT_MS}, got {}",
                workload.fetch.fetch_max_wait_ms
            ),
        });
    }
    if workload.consumers == 0 && (workload.backlog_bytes > 0 || workload.read_from != ReadFrom::End) {
        return wrong("must be at least 1: `read_from` and `backlog` are for consumers".to_owned());
    }
    if workload.consumers > 0 && workload.acks == 0 {
        return wrong(
            "need acks 1 or all: with acks 0 no answer states the offset of a record, so a consumed record \
             can't be matched with its request"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks the processors by themselves.
pub(super) fn check_processing(workload: &Workload) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "processors", problem });
    let Processing { processors, transaction_s, .. } = workload.processing;
    if processors == 0 {
        return Ok(());
    }
    if processors > workload.all_partitions() {
        let partitions = workload.all_partitions();
        return wrong(format!("must be at most {partitions}, one for each partition, got {processors}"));
    }
    if workload.consumers == 0 {
        return wrong("need `consumers`, which read what they write".to_owned());
    }
    if workload.catches_up() {
        return wrong("do not go with `read_from` and `backlog`".to_owned());
    }
    if !(transaction_s > 0.0 && transaction_s <= LONGEST_TRANSACTION_S) {
        let problem = format!("must be above 0 and at most {LONGEST_TRANSACTION_S} s, got {transaction_s} s");
        return Err(LoadError::Setting { name: "transaction_s", problem });
    }
    Ok(())
}

/// Adds the consumers' measurements to the window.
pub(super) fn add_consumed(window: &mut Window, consumed: Consumed) {
    for (point, lag) in window.series.iter_mut().zip(&consumed.lag) {
        point.consumer_lag_records = Some(*lag);
    }
    if window.workload.is_read_only() && consumed.end_to_end.fetched_records == 0 {
        window.outcome = Outcome::Failed { reason: "the consumers found no records".to_owned() };
    }
    window.end_to_end = Some(consumed.end_to_end);
    if let Some(outage) = &mut window.outage {
        outage.reads = consumed.longest_gap;
    }
    window.events.extend(consumed.events);
    window.events.sort_by(|left, right| left.at_s.total_cmp(&right.at_s));
}

impl Prepared {
    /// The window itself: requests at their times, or only reading.
    pub(super) fn sent_or_read(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        if let Some(faults) = &mut self.faults {
            recorder.acknowledged = Some(Acknowledged::default());
            faults.begin(start);
        }
        let end = match &self.consumers {
            Some(consumers) if self.workload.is_read_only() => only_read(consumers, start, recorder, look),
            _ => self.engine.run(start, arrivals, true, recorder, look),
        };
        if let Some(faults) = &mut self.faults {
            self.disturbed = faults.end();
        }
        end
    }

    /// Stores the backlog, and lets the consumers connect where they begin.
    pub(super) fn store_backlog(
        &mut self,
        target: &mut dyn Target,
        progress: &mut dyn Progress,
    ) -> Result<(), LoadError> {
        if !self.workload.catches_up() {
            return Ok(());
        }
        let at = match self.workload.read_from {
            ReadFrom::Earliest => At::Earliest,
            ReadFrom::AgeS(age_s) => At::TimeMs(unix_ms().saturating_sub((age_s * 1e3) as u64) as i64),
            ReadFrom::End => At::Latest,
        };
        let offsets = |at| readback::offsets(&self.access, &self.layout, at, readback::BEFORE);
        let (mut begins, ends) = (offsets(at)?.1, offsets(At::Latest)?.1);
        // No record is as young as that.
        for (partition, offset) in begins.iter_mut().filter(|(_, offset)| **offset < 0) {
            *offset = ends.get(partition).copied().unwrap_or(0);
        }
        let per_request = u64::from(self.workload.record_bytes.max(1))
            * u64::from(self.workload.records_per_batch)
            * u64::from(self.workload.partitions_per_request);
        let requests = self.workload.backlog_bytes.div_ceil(per_request.max(1));
        if requests > 0 {
            self.slice(requests, 0, target, &mut |share| progress.at("backlog", share))?;
        }
        self.consumers = consumers(
            &self.settings.address,
            &self.access,
            &self.workload,
            (&self.layout, None),
            Some(&begins),
        )?;
        self.begins = Some(begins);
        Ok(())
    }
}

/// Waits until all consumers have caught up, or the window is over. Nothing is sent.
fn only_read(
    consumers: &Consumers,
    start: Instant,
    recorder: &mut Recorder,
    look: Look<'_>,
) -> Result<End, LoadError> {
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        if !look(now_ns, recorder) {
            recorder.cut(now_ns);
            return Ok(End::Interrupted);
        }
        if consumers.have_caught_up() {
            recorder.cut(now_ns);
        }
        if now_ns >= recorder.duration_ns() {
            return Ok(End::Complete);
        }
        std::thread::sleep(LOOK_EVERY.min(Duration::from_nanos(recorder.duration_ns() - now_ns)));
    }
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
