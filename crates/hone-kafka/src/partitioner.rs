//! The partition of a keyed record, as the Java client's default partitioner and librdkafka's `murmur2` choose it.

/// Kafka's murmur2 of a key: 32 bits, a seed of its own, little-endian words.
pub fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = SEED ^ key.len() as u32;
    for word in words {
        let mut mixed = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(FACTOR);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(FACTOR) ^ mixed.wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let left = tail.iter().rev().fold(0, |left, byte| left << 8 | u32::from(*byte));
        hash = (hash ^ left).wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 15
}

/// The partition of a key in a topic with this many partitions (at least one).
pub fn partition_of_key(key: &[u8], partitions: u32) -> u32 {
    // Kafka makes a hash positive by clearing the sign bit, not by negating the number.
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by `org.apache.kafka.common.utils.Utils.murmur2` of kafka-clients 4.3.1, and `toPositive(hash) % 7`.
    const OF_KAFKA: [(&str, i32, u32); 12] = [
        ("", 275646681, 2),
        ("a", -1563381124, 5),
        ("ab", 316155434, 0),
        ("abc", 479470107, 4),
        ("21", -973932308, 3),
        ("foobar", -790332482, 0),
        ("a-little-bit-long-string", -985981536, 1),
        ("a-little-bit-longer-string", -1486304829, 0),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 3),
        ("k00000000", -105250561, 6),
        ("k0000002a", -254039526, 3),
        ("ключ", 2122343024, 4),
    ];

    #[test]
    fn hashes_and_partitions_are_kafkas() {
        for (key, hash, partition) in OF_KAFKA {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
            assert_eq!(partition_of_key(key.as_bytes(), 7), partition, "{key}");
        }
    }
}
