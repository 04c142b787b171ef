//! Records in the order of their times.
//!
//! perf copies what the kernel left for each core, one core after the other, and says when a round over all of them is done. Behind two
//! such marks nothing older than the newest record before the first of them can come. That is perf's own rule
//! (`tools/perf/util/ordered-events.c`); with it what is waiting stays small. Samples need no order among each other, since they are
//! added up: they are sorted only where something else happened meanwhile.

use super::record::{Sample, Told};
use super::tally::Tally;

/// Data without rounds may not fill the memory: the older half goes on then, whatever may still come.
const MOST_WAITING: usize = 2_000_000;

#[derive(Default)]
pub(super) struct Queue {
    samples: Vec<(u64, Sample)>,
    told: Vec<(u64, u64, Told)>,
    /// Counts records, for those of one time.
    number: u64,
    newest: u64,
    /// Up to here the next mark lets go.
    safe: u64,
    was_cut: bool,
}

impl Queue {
    pub(super) fn sample(&mut self, sample: Sample, tally: &mut Tally) {
        if sample.time == 0 {
            return tally.sample(&sample);
        }
        self.newest = self.newest.max(sample.time);
        self.number += 1;
        self.samples.push((self.number, sample));
        self.bound(tally);
    }

    /// What has no time was there before: perf says so of what it finds as it begins.
    pub(super) fn told(&mut self, time: u64, told: Told, tally: &mut Tally) {
        if time == 0 || time == u64::MAX {
            return tally.told(told);
        }
        self.newest = self.newest.max(time);
        self.number += 1;
        self.told.push((time, self.number, told));
        self.bound(tally);
    }

    pub(super) fn round(&mut self, tally: &mut Tally) {
        self.let_go(self.safe, tally);
        self.safe = self.newest;
    }

    pub(super) fn end(&mut self, tally: &mut Tally) {
        self.let_go(u64::MAX, tally);
    }

    /// Whether some had to go on before their time.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    fn bound(&mut self, tally: &mut Tally) {
        if self.samples.len() + self.told.len() <= MOST_WAITING {
            return;
        }
        let mut times: Vec<u64> = self.samples.iter().map(|(_, sample)| sample.time).collect();
        times.extend(self.told.iter().map(|(time, ..)| *time));
        let middle = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(middle);
        // Where most have one and the same time, all of them go.
        let up_to = *middle;
        drop(times);
        self.let_go(up_to, tally);
        self.was_cut = true;
    }

    fn let_go(&mut self, up_to: u64, tally: &mut Tally) {
        let waiting = std::mem::take(&mut self.samples);
        let (mut going, staying): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, sample)| sample.time <= up_to);
        self.samples = staying;
        let told = std::mem::take(&mut self.told);
        let (mut told, later): (Vec<_>, Vec<_>) = told.into_iter().partition(|(time, ..)| *time <= up_to);
        self.told = later;
        if !told.is_empty() {
            going.sort_by_key(|(number, sample)| (sample.time, *number));
            told.sort_by_key(|(time, number, _)| (*time, *number));
        }
        let mut told = told.into_iter().peekable();
        for (number, sample) in &going {
            while let Some((.., next)) = told.next_if(|(time, of, _)| (*time, *of) < (sample.time, *number)) {
                tally.told(next);
            }
            tally.sample(sample);
        }
        told.for_each(|(.., next)| tally.told(next));
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Mode;
    use super::*;

    fn sample(time: u64, address: u64) -> Sample {
        Sample { time, address, pid: 7, tid: 7, event: 0, mode: Mode::User }
    }

    fn mapped(path: &str) -> Told {
        let path = path.to_owned();
        Told::Mapped { pid: 7, begin: 0x1000, bytes: 0x1000, offset: 0, path, build_id: None }
    }

    /// Two cores: what the second one did is in the file behind what the first did later.
    #[test]
    fn a_mapping_counts_from_its_time_on_and_not_from_its_place_in_the_file() {
        let (mut queue, mut tally) = (Queue::default(), Tally::default());
        queue.sample(sample(30, 0x1010), &mut tally);
        queue.sample(sample(10, 0x1010), &mut tally);
        queue.told(20, mapped("/b"), &mut tally);
        queue.told(5, mapped("/a"), &mut tally);
        queue.round(&mut tally);
        assert_eq!(tally.samples, 0, "the first mark lets nothing go");
        queue.round(&mut tally);
        assert_eq!(tally.samples, 2);
        let counts = tally.by_path();
        assert_eq!((counts["/a"], counts["/b"]), (1, 1));
    }

    #[test]
    fn what_has_no_time_is_taken_as_it_comes() {
        let (mut queue, mut tally) = (Queue::default(), Tally::default());
        queue.told(0, mapped("/a"), &mut tally);
        queue.sample(sample(0, 0x1010), &mut tally);
        queue.told(0, mapped("/b"), &mut tally);
        queue.sample(sample(0, 0x1010), &mut tally);
        assert_eq!(tally.by_path().len(), 2);
    }

    #[test]
    fn data_without_rounds_does_not_fill_the_memory() {
        let (mut queue, mut tally) = (Queue::default(), Tally::default());
        for time in 1..=MOST_WAITING as u64 + 2 {
            queue.sample(sample(time, 0x1010), &mut tally);
        }
        assert!(queue.was_cut() && queue.samples.len() < MOST_WAITING);
        queue.end(&mut tally);
        assert_eq!(tally.samples, MOST_WAITING as u64 + 2);
    }
}
