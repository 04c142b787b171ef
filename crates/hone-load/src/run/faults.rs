//! Faults within a window, and what they did to its records.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use hone_record::{Event, EventKind, Fault, Outage};

use super::Prepared;
use crate::error::LoadError;
use crate::live::Progress;
use crate::readback;
use crate::recorder::Recorder;
use crate::settings::Topic;

/// Carries out faults at their times.
pub trait Faults: fmt::Debug + Send {
    /// The window opens at `start`. Returns at once.
    fn begin(&mut self, start: Instant);
    /// The window is over: nothing more is carried out, and what was stopped goes on. A command may be the broker itself, so those that still run
    /// end when this is dropped, after the topic was read.
    fn end(&mut self) -> Vec<Fault>;
}

impl Prepared {
    /// Disturbs the window.
    ///
    /// # Errors
    /// When the load can't show what a fault did: without acknowledgements, or without requests.
    pub fn disturb(&mut self, faults: Box<dyn Faults>) -> Result<(), LoadError> {
        if self.workload.acks == 0 || self.workload.is_read_only() {
            return Err(LoadError::Setting {
                name: "fault",
                problem:
                    "needs requests with acks 1 or all: without acknowledgements, no gap and no loss is seen"
                        .to_owned(),
            });
        }
        self.faults = Some(faults);
        Ok(())
    }

    /// `host:port` of the leader of a partition.
    pub fn leader_of(&self, partition: i32) -> Option<&str> {
        let leads = |(_, led): &&(String, Vec<i32>)| led.contains(&partition);
        self.layout.leaders.iter().find(leads).map(|(address, _)| address.as_str())
    }

    /// What the faults did, once every answer is there. `from` has the ends of the partitions before the window.
    pub(super) fn outage(
        &mut self,
        recorder: &mut Recorder,
        from: Option<&BTreeMap<i32, i64>>,
        progress: &mut dyn Progress,
    ) -> Option<Outage> {
        let acknowledged = recorder.acknowledged.take()?;
        let faults = std::mem::take(&mut self.disturbed);
        let ends = readback::ends(&self.access, &self.layout, readback::AFTER_FAULTS);
        let ends = ends.inspect_err(|error| {
            progress
                .note(&format!("the ends of the partitions can't be read, so losses are not known: {error}"));
        });
        let ends = ends.ok().map(|(_, ends)| ends);
        let account = acknowledged.finish(recorder.duration_ns(), from.zip(ends.as_ref()));
        // Others may write to a topic that is not the load's own.
        let is_own = matches!(self.settings.topic, Topic::Fresh | Topic::Named { .. });
        let without_offset = recorder.acked_cargo.records.saturating_sub(account.acked);
        let mut outage = Outage {
            faults,
            acks: None,
            reads: None,
            acked_records: account.acked,
            lost_records: account.lost,
            unacked_records: account
                .unacked
                .filter(|_| is_own)
                .map(|records| records.saturating_sub(without_offset)),
        };
        let gave_up = recorder.acked < recorder.due;
        outage.assign(&account.gaps, &recorder.stalls, (recorder.duration_ns() as f64 / 1e9, gave_up));
        Some(outage)
    }
}

/// The faults as events of the window.
pub(super) fn events(outage: Option<&Outage>) -> Vec<Event> {
    let event = |fault: &Fault| {
        let kind = EventKind::FaultInjected;
        Some(Event { at_s: fault.at_s?, kind, what: fault.what.clone() })
    };
    outage.into_iter().flat_map(|outage| outage.faults.iter().filter_map(event)).collect()
}
