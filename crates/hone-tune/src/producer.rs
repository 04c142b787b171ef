//! Client-neutral settings of a producer: `linger=5ms`, `batch-size=64KiB`.

use hone_batch::settings::Change;
use hone_format::{did_you_mean, nearest, read_bytes, read_duration_s};
use hone_kafka::Codec;

use hone_experiment::spec::Acks;

/// The settings' names, with the values that they take.
pub(crate) const WORDS: [&str; 8] =
    ["linger", "batch-size", "codec", "partitioner", "acks", "in-flight", "idempotence", "buffer-memory"];

/// Applies one setting to a change.
///
/// # Errors
/// When the setting is unknown, or its value is invalid.
pub fn set(change: &mut Change, word: &str, value: &str) -> Result<(), String> {
    match word {
        "linger" => change.linger_us = Some(linger_us(value)?),
        "batch-size" => {
            let size = read_bytes(value)?;
            change.batch_bytes = Some(
                u32::try_from(size).map_err(|_| format!("invalid batch size `{value}`: it is too large"))?,
            );
        }
        "codec" => change.codec = Some(codec(value)?),
        "partitioner" => change.partitioner = Some(value.parse()?),
        "acks" => change.acks = Some(value.parse::<Acks>()?.0),
        "in-flight" => {
            change.in_flight = Some(value.parse().map_err(|_| {
                format!(
                    "invalid number of requests `{value}`: \
                 use a whole number"
                )
            })?)
        }
        "idempotence" => {
            change.idempotent =
                Some(value.parse().map_err(|_| format!("invalid value `{value}`: use true or false"))?);
        }
        "buffer-memory" => change.buffer_bytes = Some(read_bytes(value)?),
        _ => {
            let near = did_you_mean(nearest(word, WORDS.into_iter()));
            return Err(format!("unknown setting `{word}`{near}; the settings are {}", WORDS.join(", ")));
        }
    }
    Ok(())
}

/// `5ms`, `500us`, `0`.
pub fn linger_us(text: &str) -> Result<u64, String> {
    if text.trim() == "0" {
        return Ok(0);
    }
    let found = read_duration_s(text)?;
    if !(0.0..=86_400.0).contains(&found) {
        return Err(format!("invalid linger `{text}`: use a time from 0 to a day"));
    }
    Ok((found * 1e6).round() as u64)
}

/// Parses the name of a codec.
pub fn codec(text: &str) -> Result<Codec, String> {
    let found = Codec::ALL.into_iter().find(|codec| codec.name() == text);
    found.ok_or_else(|| {
        format!("unknown codec `{text}`; the codecs are {}", Codec::ALL.map(Codec::name).join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lingers_are_exact() {
        for (text, expected) in [("5ms", 5_000), ("500us", 500), ("0", 0), ("0.5ms", 500), ("1s", 1_000_000)]
        {
            assert_eq!(linger_us(text), Ok(expected), "{text}");
        }
        assert!(linger_us("5").is_err(), "a unit must be said: clients have three");
    }

    #[test]
    fn words_that_are_none_are_named() {
        let mut change = Change::default();
        let problem = set(&mut change, "lingr", "5ms").unwrap_err();
        assert!(problem.contains("did you mean `linger`"), "{problem}");
        assert!(set(&mut change, "codec", "brotli").unwrap_err().contains("zstd"));
        assert_eq!(change, Change::default());
        for word in WORDS {
            let value = match word {
                "linger" => "5ms",
                "codec" => "lz4",
                "partitioner" => "sticky",
                "idempotence" => "false",
                _ => "1",
            };
            set(&mut change, word, value).unwrap();
        }
        assert!(change.batch_bytes == Some(1) && change.buffer_bytes == Some(1) && change.acks == Some(1));
    }
}
