//! The little of a classic consumer's subscription that a coordinator may read: which topics.

use crate::protocol::Fields;

/// The topics of a `ConsumerProtocolSubscription`; `None` when it is none.
pub(super) fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let mut fields = Fields::new(metadata, false);
    fields.i16("version").ok().filter(|version| *version >= 0)?;
    let count = fields.array("topics").ok()?;
    (0..count).map(|_| fields.string("topic").ok().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_damage_is_none() {
        let bytes = [&[0, 1, 0, 0, 0, 2, 0, 1][..], b"a", &[0, 2], b"bc", &[0xff; 8]].concat();
        assert_eq!(topics(&bytes), Some(vec!["a".to_owned(), "bc".to_owned()]));
        for length in 0..13 {
            assert_eq!(topics(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(topics(&[0, 1, 0x7f, 0xff, 0xff, 0xff]), None);
    }
}
