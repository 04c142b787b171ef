//! Values over time as a row of block letters, for a terminal.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The row spans at least this ratio. On a narrower scale, noise would look like stalls.
const LEAST_SPAN: f64 = 4.0;

/// One letter for each value, on a logarithmic scale from the smallest value to the largest. A missing value is a blank.
pub(crate) fn sparkline(values: &[Option<f64>]) -> String {
    let sound = |value: &Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let low = values.iter().filter_map(sound).fold(f64::INFINITY, f64::min);
    let high = values.iter().filter_map(sound).fold(low * LEAST_SPAN, f64::max);
    let top = (LEVELS.len() - 1) as f64;
    let letter = |value: &Option<f64>| {
        let share = (sound(value)? / low).ln() / (high / low).ln();
        LEVELS.get((share * top).round() as usize).copied()
    };
    values.iter().map(|value| letter(value).unwrap_or(' ')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_values(values: &[f64]) -> String {
        sparkline(&values.iter().copied().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn a_stall_is_high_and_noise_is_not() {
        assert_eq!(of_values(&[100.0, 2_000.0, 10_000.0]), "▁▆█");
        assert_eq!(of_values(&[100.0, 110.0, 100.0]), "▁▁▁");
        assert_eq!(of_values(&[100.0, 250.0, 400.0]), "▁▆█");
    }

    #[test]
    fn a_missing_value_is_a_blank() {
        assert_eq!(sparkline(&[Some(5.0), None, Some(f64::NAN), Some(0.0), Some(5.0)]), "▁   ▁");
        assert_eq!(sparkline(&[None]), " ");
        assert_eq!(sparkline(&[]), "");
    }
}
