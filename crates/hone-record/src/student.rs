//! Student's t distribution.

/// Quantile of Student's t with `freedom` degrees, by bisection of the distribution function.
///
/// `probability` must be strictly between 0 and 1; the answer is accurate to 1e-9.
pub fn t_quantile(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (-1e3, 1e3);
    while high - low > 1e-9 {
        let middle = f64::midpoint(low, high);
        if t_distribution(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(T <= t), from the regularised incomplete beta function (Abramowitz & Stegun 26.7.1).
fn t_distribution(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Regularised incomplete beta function I_x(a, b), by its continued fraction (Abramowitz & Stegun 26.5.8).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast only below the mean; the symmetry I_x(a,b) = 1 - I_{1-x}(b,a) covers the rest.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of [`incomplete_beta`], evaluated forwards by the modified Lentz method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// ln Γ(x) for x > 0, by Stirling's series after the argument is raised to at least 8.
pub fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 8.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse_square = 1.0 / (x * x);
    let series = (1.0 / 12.0
        - inverse_square * (1.0 / 360.0 - inverse_square * (1.0 / 1260.0 - inverse_square / 1680.0)))
        / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of printed tables of Student's t.
    #[test]
    fn quantiles_match_the_printed_tables() {
        for (probability, freedom, expected) in [
            (0.975, 1.0, 12.706),
            (0.975, 4.0, 2.776),
            (0.975, 13.0, 2.160),
            (0.975, 19.0, 2.093),
            (0.975, 1000.0, 1.962),
            (0.95, 9.0, 1.833),
            (0.8, 13.0, 0.870),
            (0.995, 5.0, 4.032),
            (0.5, 7.0, 0.0),
            (0.025, 4.0, -2.776),
        ] {
            let found = t_quantile(probability, freedom);
            assert!(
                (found - expected).abs() < 6e-4,
                "t({probability}, {freedom}) = {found}, table {expected}"
            );
        }
    }
}
