//! The duration of Produce requests, as the broker measures it, and quantiles from a histogram's buckets.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{Figure, NotExported, WatchedLatency, WatchedPercentile};

use super::figures::missing;
use super::quantity::{Quantity, Rates, Row};
use super::source::Source;

/// The percentiles of every source, in thousandths: 99,999 is p99.999.
const WANTED: [u32; 5] = [50_000, 85_000, 95_000, 99_000, 99_999];

/// Percentiles over all brokers, and by broker if there are several. None if the source exports nothing of the kind.
pub(super) fn produce(rates: &Rates) -> Vec<WatchedLatency> {
    let of: fn(&Rates, Keeps<'_>) -> Vec<WatchedPercentile> = if rates.exported.has(Quantity::ProduceLatency)
    {
        by_buckets
    } else if levels(rates).is_empty() {
        return Vec::new();
    } else {
        by_levels
    };
    let latency = |instance: &str| WatchedLatency {
        instance: instance.to_owned(),
        percentiles: of(rates, &|row: &Row| instance.is_empty() || row.instance == instance),
    };
    let is_latency =
        |row: &&Row| matches!(row.quantity, Quantity::ProduceLatency | Quantity::ProduceLatencyAt(_));
    let brokers: BTreeSet<&str> =
        rates.rows.iter().filter(is_latency).map(|row| row.instance.as_str()).collect();
    let several = (brokers.len() > 1).then_some(brokers).into_iter().flatten();
    std::iter::once("").chain(several).map(latency).collect()
}

/// The part of the latency that a source lacks.
pub(super) fn not_exported(source: Source, rates: &Rates) -> Option<NotExported> {
    let levels = levels(rates);
    if rates.exported.has(Quantity::ProduceLatency) {
        return None;
    }
    if levels.is_empty() {
        return Some(missing(source, "produce latency", Quantity::ProduceLatency));
    }
    let named = |thousandths: u32| format!("p{}", f64::from(thousandths) / 1e3);
    let lacking: Vec<String> =
        WANTED.into_iter().filter(|wanted| !levels.contains(wanted)).map(named).collect();
    let exported: Vec<String> = levels.into_iter().map(named).collect();
    (!lacking.is_empty()).then(|| NotExported {
        what: format!("produce latency at {}", lacking.join(" and ")),
        why: format!(
            "the broker computes its own percentiles ({}), always over about the last five minutes",
            exported.join(", ")
        ),
    })
}

type Keeps<'a> = &'a dyn Fn(&Row) -> bool;

fn by_buckets(rates: &Rates, keeps: Keeps<'_>) -> Vec<WatchedPercentile> {
    let buckets = Buckets::of(rates, Quantity::ProduceLatency, keeps);
    let percentile = |thousandths: u32| {
        let percentile = f64::from(thousandths) / 1e3;
        WatchedPercentile { percentile, ms: buckets.bounded(percentile / 1e2, rates.window_s) }
    };
    WANTED.into_iter().map(percentile).collect()
}

/// The mean of percentiles of several brokers is not a percentile: the slowest broker's stands for all.
fn by_levels(rates: &Rates, keeps: Keeps<'_>) -> Vec<WatchedPercentile> {
    let mut found: BTreeMap<u32, Figure> = WANTED.map(|wanted| (wanted, Figure::NotExported)).into();
    for row in rates.rows.iter().filter(|row| keeps(row)) {
        if let Quantity::ProduceLatencyAt(tenths) = row.quantity {
            let figure = found.entry(thousandths(tenths)).or_default();
            *figure = Figure::Known(figure.known().unwrap_or(0.0).max(row.value));
        }
    }
    let percentile = |(of, ms)| WatchedPercentile { percentile: f64::from(of) / 1e3, ms };
    found.into_iter().map(percentile).collect()
}

/// The percentiles that brokers export, in thousandths.
fn levels(rates: &Rates) -> BTreeSet<u32> {
    let level = |row: &Row| match row.quantity {
        Quantity::ProduceLatencyAt(tenths) => Some(thousandths(tenths)),
        _ => None,
    };
    rates.rows.iter().filter_map(level).collect()
}

/// A percentile in tenths, as [`Quantity::ProduceLatencyAt`] has it.
fn thousandths(tenths: u16) -> u32 {
    100 * u32::from(tenths)
}

/// A quantile of all rows of a histogram, as Prometheus's `histogram_quantile` computes it.
pub(super) fn quantile(rates: &Rates, quantity: Quantity, quantile: f64) -> Figure {
    if !rates.exported.has(quantity) {
        return Figure::NotExported;
    }
    let place = Buckets::of(rates, quantity, &|_| true).place(quantile);
    place.map_or(Figure::Nothing, |place| Figure::Known(place.inside))
}

/// Upper bounds, and the count per second up to them.
struct Buckets(Vec<(f64, f64)>);

/// The position of a quantile.
struct Place {
    /// Linear within its bucket; the last finite bound for a value beyond it.
    inside: f64,
    /// The upper bound of its bucket.
    high: f64,
}

impl Buckets {
    fn of(rates: &Rates, quantity: Quantity, keeps: Keeps<'_>) -> Self {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        let rows = rates.rows.iter().filter(|row| row.quantity == quantity && !row.bound.is_nan());
        for row in rows.filter(|row| keeps(row)) {
            match sums.iter_mut().find(|(bound, _)| *bound == row.bound) {
                Some((_, sum)) => *sum += row.value,
                None => sums.push((row.bound, row.value)),
            }
        }
        sums.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self(sums)
    }

    fn place(&self, quantile: f64) -> Option<Place> {
        let rank = quantile * self.all()?;
        let (mut low, mut below) = (0.0, 0.0);
        for &(high, sum) in &self.0 {
            if sum >= rank && sum > below {
                let inside =
                    if high.is_finite() { low + (high - low) * (rank - below) / (sum - below) } else { low };
                return Some(Place { inside, high });
            }
            (low, below) = (high, sum);
        }
        None
    }

    /// The total count per second; `None` if it is zero.
    fn all(&self) -> Option<f64> {
        self.0.last().map(|(_, all)| *all).filter(|all| *all > 0.0)
    }

    /// Like [`Self::place`]. If less than one request is beyond the quantile, only the upper bound of the slowest one's bucket is known.
    fn bounded(&self, quantile: f64, window_s: f64) -> Figure {
        let Some((place, all)) = self.place(quantile).zip(self.all()) else { return Figure::Nothing };
        let beyond = all * window_s * (1.0 - quantile);
        if beyond < 1.0 && place.high.is_finite() {
            Figure::AtMost(place.high)
        } else {
            Figure::Known(place.inside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantity::Exported;
    use super::*;

    fn rates(rows: Vec<Row>, window_s: f64) -> Rates {
        Rates { exported: Exported::of(&rows), rows, window_s, ..Rates::default() }
    }

    fn buckets(instance: &str, quantity: Quantity, buckets: &[(f64, f64)]) -> Vec<Row> {
        let row = |(bound, value): &(f64, f64)| Row {
            instance: instance.to_owned(),
            bound: *bound,
            ..Row::of(quantity, *value)
        };
        buckets.iter().map(row).collect()
    }

    fn figures(latency: &WatchedLatency) -> Vec<(f64, Figure)> {
        latency.percentiles.iter().map(|one| (one.percentile, one.ms)).collect()
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let of = |all: &[(f64, f64)], wanted| {
            quantile(&rates(buckets("", Quantity::BatchSizes, all), 1.0), Quantity::BatchSizes, wanted)
        };
        let some = [(100.0, 1.0), (200.0, 3.0), (f64::INFINITY, 4.0)];
        assert_eq!(of(&some, 0.5), Figure::Known(150.0));
        assert_eq!(of(&some, 0.99), Figure::Known(200.0));
        assert_eq!(of(&[(100.0, 0.0)], 0.5), Figure::Nothing);
        assert_eq!(quantile(&Rates::default(), Quantity::BatchSizes, 0.5), Figure::NotExported);
    }

    /// 1,000 requests in 10 s: 1 % of them are enough for p99; too few for p99.999.
    #[test]
    fn a_percentile_that_the_requests_do_not_reach_is_a_bound() {
        let rows = buckets(
            "a",
            Quantity::ProduceLatency,
            &[(1.0, 50.0), (2.0, 90.0), (4.0, 99.9), (8.0, 100.0), (f64::INFINITY, 100.0)],
        );
        let found = produce(&rates(rows.clone(), 10.0));
        assert_eq!(found.len(), 1, "one broker is all of them");
        let [p50, p85, p95, p99, p99999] = figures(&found[0]).try_into().unwrap();
        assert_eq!((p50, p85), ((50.0, Figure::Known(1.0)), (85.0, Figure::Known(1.875))));
        assert!((p95.1.known().unwrap() - (2.0 + 2.0 * 5.0 / 9.9)).abs() < 1e-9, "{p95:?}");
        assert!((p99.1.known().unwrap() - (2.0 + 2.0 * 9.0 / 9.9)).abs() < 1e-9, "{p99:?}");
        assert_eq!(p99999, (99.999, Figure::AtMost(8.0)));
        // A hundred times the duration is 100,000 requests, which are enough.
        let long = produce(&rates(rows, 1_001.0));
        let p99999 = long[0].percentiles[4].ms.known().unwrap();
        assert!((p99999 - (4.0 + 4.0 * 0.099 / 0.1)).abs() < 1e-6, "{p99999}");
    }

    #[test]
    fn brokers_are_told_apart_and_together() {
        let rows = [
            buckets("fast", Quantity::ProduceLatency, &[(1.0, 90.0), (16.0, 90.0), (32.0, 90.0)]),
            buckets("slow", Quantity::ProduceLatency, &[(1.0, 0.0), (16.0, 0.0), (32.0, 10.0)]),
        ];
        let found = produce(&rates(rows.concat(), 60.0));
        let p95: Vec<(&str, f64)> = found
            .iter()
            .map(|one| (one.instance.as_str(), (1e6 * one.percentiles[2].ms.known().unwrap()).round()))
            .collect();
        assert_eq!(p95, [("", 24e6), ("fast", 0.95e6), ("slow", 31.2e6)]);
    }

    #[test]
    fn percentiles_of_the_broker_are_taken_as_they_are_and_the_others_are_named() {
        let row = |instance: &str, tenths, ms| Row {
            instance: instance.to_owned(),
            ..Row::of(Quantity::ProduceLatencyAt(tenths), ms)
        };
        let rows = vec![row("a", 500, 2.0), row("a", 999, 80.0), row("b", 500, 3.0), row("b", 999, 70.0)];
        let rates = rates(rows, 60.0);
        let found = produce(&rates);
        let names: Vec<&str> = found.iter().map(|one| one.instance.as_str()).collect();
        assert_eq!(names, ["", "a", "b"]);
        let lacking = |percentile| (percentile, Figure::NotExported);
        let expected = |p50, p999| {
            let known = [(50.0, Figure::Known(p50)), (99.9, Figure::Known(p999))];
            [known[0], lacking(85.0), lacking(95.0), lacking(99.0), known[1], lacking(99.999)]
        };
        assert_eq!(figures(&found[0]), expected(3.0, 80.0), "the slowest stands for all");
        assert_eq!(figures(&found[2]), expected(3.0, 70.0));
        let told = not_exported(Source::KafkaJmx, &rates).unwrap();
        assert_eq!(told.what, "produce latency at p85 and p95 and p99 and p99.999");
        assert!(told.why.contains("(p50, p99.9)"), "{told:?}");
    }

    #[test]
    fn what_nobody_exports_is_no_latency() {
        let nothing = Rates::default();
        assert!(produce(&nothing).is_empty());
        let told = not_exported(Source::KafkaJmx, &nothing).unwrap();
        assert!(told.what == "produce latency" && told.why.contains("RequestMetrics"), "{told:?}");
    }
}
