//! Pressure stall information: how long some task of the machine waited for a resource. It uses the kernel's totals (microseconds since
//! boot), so that a share belongs to a window and not to the kernel's own averages.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Resources with pressure information.
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// The totals at a moment.
#[derive(Debug, Clone)]
pub struct Pressure {
    at: Instant,
    waited_us: BTreeMap<String, u64>,
}

/// The totals of the machine under `root`; empty on kernels without them (older than 4.20, or built or started without).
pub fn sample(root: &Path) -> Pressure {
    let total = |resource: &&str| {
        let text = std::fs::read_to_string(root.join("proc/pressure").join(resource)).ok()?;
        Some(((*resource).to_owned(), some_total_us(&text)?))
    };
    Pressure { at: Instant::now(), waited_us: RESOURCES.iter().filter_map(total).collect() }
}

/// Share of the time between two samples in which some task waited, 0 to 1, for each resource in both.
pub fn between(before: &Pressure, after: &Pressure) -> BTreeMap<String, f64> {
    shares(&before.waited_us, &after.waited_us, after.at.saturating_duration_since(before.at))
}

fn shares(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    elapsed: Duration,
) -> BTreeMap<String, f64> {
    let share = |(resource, waited): (&String, &u64)| {
        let waited_us = waited.saturating_sub(*before.get(resource)?) as f64;
        let share = waited_us / elapsed.as_micros().max(1) as f64;
        Some((resource.clone(), share.min(1.0)))
    };
    after.iter().filter_map(share).collect()
}

/// `total` of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`.
fn some_total_us(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root(cpu: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/pressure");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cpu"), cpu).unwrap();
        root
    }

    #[test]
    fn the_totals_of_a_recorded_machine_are_read() {
        let text = "some avg10=1.53 avg60=1.11 avg300=0.84 total=30190281\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let found = sample(root(text).path());
        assert_eq!(found.waited_us, BTreeMap::from([("cpu".to_owned(), 30_190_281)]));
        assert!(sample(root("garbage").path()).waited_us.is_empty());
    }

    #[test]
    fn a_share_is_of_the_time_between() {
        let totals = |cpu: u64| BTreeMap::from([("cpu".to_owned(), cpu)]);
        let share = |before, after| shares(&totals(before), &totals(after), Duration::from_secs(2))["cpu"];
        assert!((share(1_000_000, 1_500_000) - 0.25).abs() < 1e-9);
        assert!((share(0, 9_000_000) - 1.0).abs() < 1e-9, "clocks differ a little, a share is a share");
        assert!(share(5, 4).abs() < 1e-9);
        assert!(shares(&BTreeMap::new(), &totals(1), Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn a_busy_machine_is_under_pressure() {
        let root = Path::new("/");
        let before = sample(root);
        if before.waited_us.is_empty() {
            return; // this kernel keeps none
        }
        // More threads than cores: some of them wait all the time.
        let until = Instant::now() + Duration::from_millis(400);
        let threads = std::thread::available_parallelism().map_or(1, usize::from) * 3;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| while Instant::now() < until {});
            }
        });
        // The kernel brings the totals up to date when a task changes its state, and every two seconds.
        let share = between(&before, &sample(root))["cpu"];
        assert!(share > 0.3, "{share}");
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in ".*") {
            let _ = some_total_us(&text);
        }
    }
}
