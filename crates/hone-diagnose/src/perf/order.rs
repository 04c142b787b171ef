//! Sorts records by time.
//!
//! perf copies the kernel's records core by core, and marks the end of a round over all of them. After two such marks, no record can come
//! that is older than the newest record before the first mark. That is perf's own rule (`tools/perf/util/ordered-events.c`), and it keeps
//! the number of waiting records small. Samples need no order among each other, since they are summed. They are sorted only if another
//! event happened between them.

use super::counts::Counts;
use super::record::{ProcessEvent, Sample};

/// Data without rounds must not fill the memory. The older half then continues, whatever may still come.
const MOST_WAITING: usize = 2_000_000;

#[derive(Default)]
pub(super) struct Queue {
    samples: Vec<(u64, Sample)>,
    process_events: Vec<(u64, u64, ProcessEvent)>,
    /// Counts records, to keep the order of those with the same time.
    number: u64,
    newest: u64,
    /// The next mark releases records up to here.
    safe: u64,
    was_cut: bool,
}

impl Queue {
    pub(super) fn sample(&mut self, sample: Sample, counts: &mut Counts) {
        if sample.time == 0 {
            return counts.sample(&sample);
        }
        self.newest = self.newest.max(sample.time);
        self.number += 1;
        self.samples.push((self.number, sample));
        self.bound(counts);
    }

    /// Records without time come first: perf writes them for the state at its start.
    pub(super) fn process_event(&mut self, time: u64, event: ProcessEvent, counts: &mut Counts) {
        if time == 0 || time == u64::MAX {
            return counts.process_event(event);
        }
        self.newest = self.newest.max(time);
        self.number += 1;
        self.process_events.push((time, self.number, event));
        self.bound(counts);
    }

    pub(super) fn round(&mut self, counts: &mut Counts) {
        self.let_go(self.safe, counts);
        self.safe = self.newest;
    }

    pub(super) fn end(&mut self, counts: &mut Counts) {
        self.let_go(u64::MAX, counts);
    }

    /// Whether some records had to continue before their time.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    fn bound(&mut self, counts: &mut Counts) {
        if self.samples.len() + self.process_events.len() <= MOST_WAITING {
            return;
        }
        let mut times: Vec<u64> = self.samples.iter().map(|(_, sample)| sample.time).collect();
        times.extend(self.process_events.iter().map(|(time, ..)| *time));
        let middle = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(middle);
        // If most records have the same time, all of them continue.
        let up_to = *middle;
        drop(times);
        self.let_go(up_to, counts);
        self.was_cut = true;
    }

    fn let_go(&mut self, up_to: u64, counts: &mut Counts) {
        let waiting = std::mem::take(&mut self.samples);
        let (mut going, staying): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, sample)| sample.time <= up_to);
        self.samples = staying;
        let events = std::mem::take(&mut self.process_events);
        let (mut events, later): (Vec<_>, Vec<_>) = events.into_iter().partition(|(time, ..)| *time <= up_to);
        self.process_events = later;
        if !events.is_empty() {
            going.sort_by_key(|(number, sample)| (sample.time, *number));
            events.sort_by_key(|(time, number, _)| (*time, *number));
        }
        let mut events = events.into_iter().peekable();
        for (number, sample) in &going {
            while let Some((.., next)) = events.next_if(|(time, of, _)| (*time, *of) < (sample.time, *number))
            {
                counts.process_event(next);
            }
            counts.sample(sample);
        }
        events.for_each(|(.., next)| counts.process_event(next));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Mode;
    use super::*;

    fn sample(time: u64, address: u64) -> Sample {
        Sample { time, address, pid: 7, tid: 7, event: 0, mode: Mode::User }
    }

    fn mapped(path: &str) -> ProcessEvent {
        let path = path.to_owned();
        ProcessEvent::Mapped { pid: 7, begin: 0x1000, bytes: 0x1000, offset: 0, path, build_id: None }
    }

    /// Two cores: what the second one did is in the file behind what the first did later.
    #[test]
    fn a_mapping_counts_from_its_time_on_and_not_from_its_place_in_the_file() {
        let (mut queue, mut counts) = (Queue::default(), Counts::default());
        queue.sample(sample(30, 0x1010), &mut counts);
        queue.sample(sample(10, 0x1010), &mut counts);
        queue.process_event(20, mapped("/b"), &mut counts);
        queue.process_event(5, mapped("/a"), &mut counts);
        queue.round(&mut counts);
        assert_eq!(counts.samples, 0, "the first mark lets nothing go");
        queue.round(&mut counts);
        assert_eq!(counts.samples, 2);
        let counts = counts.by_path();
        assert_eq!((counts["/a"], counts["/b"]), (1, 1));
    }

    #[test]
    fn what_has_no_time_is_taken_as_it_comes() {
        let (mut queue, mut counts) = (Queue::default(), Counts::default());
        queue.process_event(0, mapped("/a"), &mut counts);
        queue.sample(sample(0, 0x1010), &mut counts);
        queue.process_event(0, mapped("/b"), &mut counts);
        queue.sample(sample(0, 0x1010), &mut counts);
        assert_eq!(counts.by_path().len(), 2);
    }

    #[test]
    fn data_without_rounds_does_not_fill_the_memory() {
        let (mut queue, mut counts) = (Queue::default(), Counts::default());
        for time in 1..=MOST_WAITING as u64 + 2 {
            queue.sample(sample(time, 0x1010), &mut counts);
        }
        assert!(queue.was_cut() && queue.samples.len() < MOST_WAITING);
        queue.end(&mut counts);
        assert_eq!(counts.samples, MOST_WAITING as u64 + 2);
    }
}
