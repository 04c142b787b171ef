//! Scales and the marks of their axes. This module creates no markup.

/// Maps values to positions in a drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    kind: Kind,
    domain: (f64, f64),
    range: (f64, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
}

impl Scale {
    /// Equal steps for equal differences.
    pub(crate) fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { kind: Kind::Linear, domain, range }
    }

    /// Equal steps for equal ratios; the domain must lie above zero.
    pub(crate) fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { kind: Kind::Log, domain, range }
    }

    /// Position of a value. Values outside the domain go to its ends. A domain without width puts everything in the middle.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.domain.0) / (self.domain.1 - self.domain.0),
            Kind::Log => (value / self.domain.0).ln() / (self.domain.1 / self.domain.0).ln(),
        };
        let share = if share.is_nan() { 0.5 } else { share.clamp(0.0, 1.0) };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// Whether a value lies in the domain.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value >= self.domain.0 && value <= self.domain.1
    }
}

/// Smallest and largest of the finite positive values, with room around them, for a logarithmic axis. `None` without
/// such a value.
pub(crate) fn log_domain(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = extent(values.filter(|value| *value > 0.0))?;
    // The margin is a tenth of the span on each side, and at least a tenth of the value, because a flat line
    // needs room, too.
    let room = (high / low).powf(0.1).max(1.1);
    Some((low / room, high * room))
}

/// Smallest and largest of the finite values.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |extent, value| {
        let (low, high) = extent.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// Marks of a logarithmic axis: powers of ten if these alone are `at_least` many, else 1, 2, 5, 10 ..., and equal steps on an
/// axis too short for two of these.
pub(crate) fn log_ticks((low, high): (f64, f64), at_least: usize) -> Vec<f64> {
    let decades = log_marks(low, high, &[1.0]);
    if decades.len() >= at_least {
        return decades;
    }
    let finer = log_marks(low, high, &[1.0, 2.0, 5.0]);
    if finer.len() >= 2 { finer } else { equal_steps(low, high, 3) }
}

/// Like [`log_ticks`], with marks in between on an axis that would have fewer than four.
pub(crate) fn fine_log_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let coarse = log_ticks((low, high), 4);
    if coarse.len() >= 4 { coarse } else { log_marks(low, high, &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]) }
}

/// Round marks between two positive values, about `wanted` of them.
fn equal_steps(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if !(low > 0.0 && high.is_finite() && low < high) {
        return Vec::new();
    }
    let step = round_step((high - low) / wanted as f64);
    let first = (low / step).ceil() as u64;
    (first..first + 2 * wanted as u64).map(|n| n as f64 * step).filter(|mark| *mark <= high).collect()
}

/// The smallest of 1, 2, 5, 10 times a power of ten that is at least `raw`.
fn round_step(raw: f64) -> f64 {
    let decade = 10f64.powf(raw.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * decade);
    steps.into_iter().find(|step| *step >= raw * (1.0 - 1e-9)).unwrap_or(raw)
}

fn log_marks(low: f64, high: f64, steps: &[f64]) -> Vec<f64> {
    if !(low > 0.0 && high.is_finite() && low < high) {
        return Vec::new();
    }
    let decades = low.log10().floor() as i32..=high.log10().floor() as i32;
    let marks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    // Powers such as 10^-3 are not exact: a mark on the edge must not be lost to the last bit.
    marks.filter(|mark| *mark >= low * (1.0 - 1e-9) && *mark <= high * (1.0 + 1e-9)).collect()
}

/// Round marks from 0 on (1, 2 or 5 times a power of ten apart), at most `at_most` steps.
pub(crate) fn linear_ticks(high: f64, at_most: usize) -> Vec<f64> {
    if !(high.is_finite() && high > 0.0) || at_most == 0 {
        return vec![0.0];
    }
    let step = round_step(high / at_most as f64);
    let steps = (high / step * (1.0 + 1e-9)).floor() as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

/// Marks of a ratio axis from 1/`reach` to `reach`, few enough to be readable, those nearest to 1 first.
pub(crate) fn ratio_ticks(reach: f64) -> Vec<f64> {
    let marks: &[f64] = match reach {
        tiny if tiny <= 1.06 => &[1.0, 0.99, 1.01, 0.98, 1.02, 0.95, 1.05],
        small if small <= 1.13 => &[1.0, 0.98, 1.02, 0.95, 1.05, 0.9, 1.1],
        middle if middle <= 1.4 => &[1.0, 0.95, 1.05, 0.9, 1.1, 0.8, 1.2, 1.3],
        wide if wide <= 2.3 => &[1.0, 0.9, 1.1, 0.8, 1.25, 0.6, 1.5, 0.5, 2.0],
        wider if wider <= 4.5 => &[1.0, 0.7, 1.5, 0.5, 2.0, 0.25, 4.0],
        _ => &[1.0, 0.5, 2.0, 0.1, 10.0, 0.01, 100.0, 0.001, 1_000.0],
    };
    let inside = |mark: &f64| *mark <= reach * (1.0 + 1e-9) && *mark >= (1.0 - 1e-9) / reach;
    marks.iter().copied().filter(inside).collect()
}

/// Keeps those labels `(centre, width)`, in order of importance, that overlap no kept one. Returns their indices.
pub(crate) fn without_overlap(labels: &[(f64, f64)], gap: f64) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for (index, (centre, width)) in labels.iter().enumerate() {
        let free = |other: &usize| {
            labels.get(*other).is_none_or(|(c, w)| (centre - c).abs() >= (width + w) / 2.0 + gap)
        };
        if kept.iter().all(free) {
            kept.push(index);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9 * (1.0 + right.abs())
    }

    #[test]
    fn scales_hit_both_ends_and_the_middle() {
        let linear = Scale::linear((0.0, 10.0), (100.0, 200.0));
        assert!(near(linear.at(0.0), 100.0) && near(linear.at(10.0), 200.0) && near(linear.at(5.0), 150.0));
        let log = Scale::log((1.0, 100.0), (300.0, 0.0));
        assert!(near(log.at(1.0), 300.0) && near(log.at(100.0), 0.0) && near(log.at(10.0), 150.0));
    }

    #[test]
    fn nothing_leaves_the_drawing() {
        let log = Scale::log((1.0, 100.0), (0.0, 300.0));
        for value in [0.0, -1.0, 0.5, 1e9, f64::NAN, f64::INFINITY] {
            let position = log.at(value);
            assert!((0.0..=300.0).contains(&position), "{value} at {position}");
        }
        let flat = Scale::linear((5.0, 5.0), (0.0, 10.0));
        assert!(near(flat.at(5.0), 5.0));
        assert!(log.holds(1.0) && !log.holds(0.99));
    }

    #[test]
    fn domains_leave_room() {
        let (low, high) = log_domain([10.0, 1_000.0, f64::NAN, 0.0].into_iter()).unwrap();
        assert!(low < 10.0 && low > 5.0 && high > 1_000.0 && high < 2_000.0);
        let (low, high) = log_domain([7.0].into_iter()).unwrap();
        assert!(low < 7.0 && high > 7.0);
        assert_eq!(log_domain([0.0, f64::INFINITY].into_iter()), None);
    }

    #[test]
    fn log_marks_are_round() {
        assert_eq!(log_ticks((90.0, 1_100.0), 3), [100.0, 200.0, 500.0, 1_000.0]);
        let decades = log_ticks((0.9, 12_000.0), 4);
        assert!([1.0, 10.0, 100.0, 1_000.0, 10_000.0].iter().zip(&decades).all(|(a, b)| near(*a, *b)));
        assert_eq!(decades.len(), 5);
        assert!(log_ticks((0.0, 1.0), 3).is_empty());
        assert_eq!(log_ticks((0.001, 0.01), 9).len(), 4);
    }

    #[test]
    fn linear_marks_are_round_and_few() {
        assert_eq!(linear_ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(9_412.0, 4), [0.0, 5_000.0]);
        assert_eq!(linear_ticks(0.0, 4), [0.0]);
        assert_eq!(linear_ticks(f64::NAN, 4), [0.0]);
        for high in [0.3, 1.0, 7.0, 61.0, 999.0, 1e7] {
            let ticks = linear_ticks(high, 5);
            assert!(
                ticks.len() <= 6 && ticks.len() >= 2 && *ticks.last().unwrap() <= high * 1.001,
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn ratio_marks_surround_one_and_stay_inside() {
        for reach in [1.05, 1.06, 1.1, 1.2, 2.0, 4.0, 50.0, 1e5] {
            let ticks = ratio_ticks(reach);
            assert_eq!(ticks[0], 1.0, "the most important first");
            assert!(ticks.iter().any(|tick| *tick < 1.0) && ticks.iter().any(|tick| *tick > 1.0), "{reach}");
            assert!(ticks.iter().all(|tick| tick.max(1.0 / tick) <= reach * 1.001), "{reach}: {ticks:?}");
        }
    }

    #[test]
    fn a_short_log_axis_still_has_marks() {
        assert_eq!(log_ticks((160.0, 190.0), 4), [160.0, 170.0, 180.0, 190.0]);
        assert_eq!(log_ticks((205.0, 310.0), 4), [250.0, 300.0]);
    }

    #[test]
    fn crowded_labels_are_thinned_by_importance() {
        assert_eq!(without_overlap(&[(50.0, 20.0), (60.0, 20.0), (80.0, 20.0)], 4.0), [0, 2]);
        assert_eq!(without_overlap(&[(0.0, 10.0), (20.0, 10.0)], 4.0), [0, 1]);
    }
}
