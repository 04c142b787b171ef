//! Numbers in the notation of any locale.

/// A decimal number with a point or a comma, with or without digit groups; `nan` is not one.
///
/// The numbers are percentages, so a single comma is the decimal sign.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let digits: String = text.chars().filter(|sign| !is_blank(*sign)).collect();
    let plain = match (digits.rfind(','), digits.rfind('.')) {
        (Some(comma), Some(point)) if comma > point => digits.replace('.', "").replace(',', "."),
        (Some(_), Some(_)) => digits.replace(',', ""),
        (Some(_), None) => digits.replace(',', "."),
        _ => digits,
    };
    // Rust would accept `inf`, `nan` and exponents as numbers.
    let is_plain = plain.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte));
    plain.parse().ok().filter(|value: &f64| is_plain && value.is_finite())
}

/// Spaces between digit groups, narrow and no-break ones included.
pub(super) fn is_blank(sign: char) -> bool {
    matches!(sign, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_points_and_blanks_of_any_locale() {
        assert_eq!(decimal("18,6"), Some(18.6));
        assert_eq!(decimal(" 18.6 "), Some(18.6));
        assert_eq!(decimal("13,273.4"), Some(13_273.4));
        assert_eq!(decimal("13.273,4"), Some(13_273.4));
        assert_eq!(decimal("5\u{202f}460,5"), Some(5_460.5));
        for none in ["nan", "-nan", "inf", "", "<not counted>", "1e3", "%", "1,2,3"] {
            assert_eq!(decimal(none), None, "{none}");
        }
    }
}
