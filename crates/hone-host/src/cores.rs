//! Use of each core while a window is open.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use hone_record::CoreUse;

use crate::kernel_text::{self, CpuTicks};
use crate::repeated::Repeated;

/// Length of a slice. A second has 100 ticks on every common system, so a share is exact to one percent.
const EVERY: Duration = Duration::from_secs(1);
/// A shorter last slice has too few ticks for a share.
const SHORTEST_S: f64 = 0.25;
/// With more samples, every second one is dropped. So a day has no more slices than twenty minutes.
const MOST_SAMPLES: usize = 1_200;

/// Samples the use of each core until the result is requested, or it is dropped.
#[derive(Debug)]
pub struct CoreWatch(Repeated<CoreSamples>);

impl CoreWatch {
    /// Starts to sample. `None` if no thread can be started.
    pub fn start() -> Option<Self> {
        let begun = Instant::now();
        let look = move |samples: &mut CoreSamples| {
            if let Ok(stat) = fs::read_to_string("/proc/stat") {
                samples.add(begun.elapsed().as_secs_f64(), kernel_text::core_ticks(&stat));
            }
        };
        Repeated::start("cores", EVERY, CoreSamples::default(), look).map(Self)
    }

    /// Ends the sampling; `None` if nothing could be read, or the window was too short for a slice.
    pub fn stop(self) -> Option<CoreUse> {
        self.0.stop()?.core_use()
    }
}

/// Counters of each core at one moment.
type Sample = (f64, BTreeMap<u32, CpuTicks>);

/// Results of the samples.
#[derive(Debug)]
struct CoreSamples {
    samples: Vec<Sample>,
    /// The newest sample, if it is not one of the kept ones.
    last: Option<Sample>,
    looks: u32,
    /// One of this many samples is kept.
    stride: u32,
}

impl Default for CoreSamples {
    fn default() -> Self {
        Self { samples: Vec::new(), last: None, looks: 0, stride: 1 }
    }
}

impl CoreSamples {
    fn add(&mut self, at_s: f64, ticks: BTreeMap<u32, CpuTicks>) {
        self.last = Some((at_s, ticks));
        if self.looks.is_multiple_of(self.stride) {
            self.samples.extend(self.last.take());
        }
        self.looks += 1;
        if self.samples.len() > MOST_SAMPLES {
            // Counters only grow, so the slice without its middle sample is the sum of both halves.
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride = self.stride.saturating_mul(2);
        }
    }

    fn core_use(mut self) -> Option<CoreUse> {
        self.samples.extend(self.last.take());
        if let [.., before, last] = self.samples.as_slice()
            && last.0 - before.0 < SHORTEST_S
        {
            self.samples.pop();
        }
        let (begun_s, first) = self.samples.first()?;
        let mut found = CoreUse {
            ends_s: self.samples.iter().skip(1).map(|(at_s, _)| rounded(at_s - begun_s)).collect(),
            busy_percent: first.keys().map(|core| (*core, Vec::new())).collect(),
        };
        for (before, after) in self.samples.iter().zip(self.samples.iter().skip(1)) {
            for (core, percent) in &mut found.busy_percent {
                percent.push(busy_percent(before.1.get(core), after.1.get(core)));
            }
        }
        (!found.ends_s.is_empty() && !found.busy_percent.is_empty()).then_some(found)
    }
}

/// Milliseconds are enough.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// A core that went offline is not busy.
fn busy_percent(before: Option<&CpuTicks>, after: Option<&CpuTicks>) -> u8 {
    let Some((before, after)) = before.zip(after) else { return 0 };
    let busy = after.busy.saturating_sub(before.busy) as f64;
    let rest = after.idle.saturating_sub(before.idle) + after.steal.saturating_sub(before.steal);
    (100.0 * busy / (busy + rest as f64).max(1.0)).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(busy: u64, idle: u64) -> CpuTicks {
        CpuTicks { busy, idle, steal: 0 }
    }

    #[test]
    fn slices_are_differences_and_a_stub_at_the_end_is_none() {
        let mut samples = CoreSamples::default();
        for (at_s, busy, idle) in [(5.0, 100, 0), (6.0, 150, 50), (7.0, 150, 150), (7.1, 160, 150)] {
            let all = if at_s < 7.0 { vec![0, 1] } else { vec![0] };
            samples.add(at_s, all.into_iter().map(|core| (core, ticks(busy, idle))).collect());
        }
        let found = samples.core_use().unwrap();
        assert_eq!(found.ends_s, [1.0, 2.0]);
        assert_eq!(found.busy_percent, BTreeMap::from([(0, vec![50, 0]), (1, vec![50, 0])]));
        assert_eq!(CoreSamples::default().core_use(), None);
    }

    #[test]
    fn a_long_window_has_longer_slices_and_loses_no_time() {
        let mut samples = CoreSamples::default();
        (0..5_000_u32).for_each(|second| {
            let at = u64::from(second);
            samples.add(at as f64, BTreeMap::from([(0, ticks(30 * at, 70 * at))]));
        });
        let found = samples.core_use().unwrap();
        assert!((600..=1_201).contains(&found.ends_s.len()), "{}", found.ends_s.len());
        assert_eq!(found.ends_s.last(), Some(&4_999.0));
        assert!(found.busy_percent[&0].iter().all(|percent| *percent == 30));
    }

    #[test]
    fn this_machine_has_cores() {
        let watch = CoreWatch::start().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let found = watch.stop().unwrap();
        assert!(!found.busy_percent.is_empty() && found.ends_s.len() == 1, "{found:?}");
    }
}
