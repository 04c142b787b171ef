//! The place in an answer for the delay of its client. It is filled in after the answer is written, because the size of
//! the answer counts, too.

/// Where the field stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It opens the answer.
    First,
    /// Behind the error code that opens the answer.
    Second,
    /// It ends the answer, in front of the tags.
    Last,
}

/// Whether an API is delayed at all. What a client needs to come in (which versions there are, who it is) is not.
pub(crate) fn is_subject(key: i16) -> bool {
    !matches!(key, 17 | 18 | 36)
}

/// `None` where a version has no such field; its connection is delayed all the same.
fn place(key: i16, version: i16) -> Option<Place> {
    let (first_version, place) = match key {
        0 => (1, Place::Last),
        // Those of delegation tokens.
        38..=41 => (0, Place::Last),
        1 | 10 | 12..=16 | 20 => (1, Place::First),
        2 | 11 | 23 => (2, Place::First),
        3 | 8 | 9 => (3, Place::First),
        // Writing transaction markers is between brokers.
        27 => return None,
        47 => (0, Place::Second),
        _ => (0, Place::First),
    };
    (version >= first_version && is_subject(key)).then_some(place)
}

/// Writes the delay into the answer that ends `output` and whose fields begin at `body_at`.
pub(crate) fn write(
    output: &mut [u8],
    body_at: usize,
    key: i16,
    version: i16,
    flexible: bool,
    throttle_ms: u32,
) {
    let at = match place(key, version) {
        Some(Place::First) => Some(body_at),
        Some(Place::Second) => Some(body_at + 2),
        Some(Place::Last) => output.len().checked_sub(4 + usize::from(flexible)).filter(|at| *at >= body_at),
        None => None,
    };
    if let Some(field) = at.and_then(|at| output.get_mut(at..at + 4)) {
        field.copy_from_slice(&throttle_ms.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_stands_where_the_version_has_it() {
        for (key, version, flexible, wanted) in [
            (0, 7, false, [0, 0, 0, 0, 0, 0, 0, 9]),
            (0, 9, true, [0, 0, 0, 0, 0, 0, 9, 0]),
            (0, 0, false, [0; 8]),
            (1, 4, false, [0, 0, 0, 9, 0, 0, 0, 0]),
            (3, 2, false, [0; 8]),
            (18, 3, true, [0; 8]),
            (32, 1, false, [0, 0, 0, 9, 0, 0, 0, 0]),
            // Offsets of a group that are deleted: what went wrong stands first.
            (47, 0, false, [0, 0, 0, 0, 0, 9, 0, 0]),
        ] {
            let mut output = [0; 8];
            write(&mut output, 0, key, version, flexible, 9);
            assert_eq!(output, wanted, "key {key} v{version}");
        }
    }
}
