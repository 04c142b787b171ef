//! Flags for a link with random placement of functions.

/// Padding that lld from version 20 on puts between functions. A profile orders the hot ones for any seed, and padding moves them, too.
pub(crate) const PADDING: &str = "--randomize-section-padding";

/// Flags for a link with random placement of functions. lld takes 0 for "random" and the largest number for "reversed"; all others are
/// seeds. `pads` says whether the linker supports [`PADDING`].
pub(crate) fn layout_flags(link_seed: u64, pads: bool) -> Vec<String> {
    let seed = 1 + link_seed % u64::from(u32::MAX - 1);
    let padding = pads.then(|| format!("-Wl,{PADDING}={seed}"));
    std::iter::once(format!("-Wl,--shuffle-sections=.text*={seed}")).chain(padding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_such_that_the_linker_takes_them_for_seeds() {
        let check = |seed, expected: &str| {
            let order = format!("-Wl,--shuffle-sections=.text*={expected}");
            let padding = format!("-Wl,--randomize-section-padding={expected}");
            assert_eq!(layout_flags(seed, false).join(" "), order);
            assert_eq!(layout_flags(seed, true), [order, padding]);
        };
        check(0, "1");
        check(u64::from(u32::MAX) - 2, "4294967294");
        check(u64::from(u32::MAX) - 1, "1");
    }
}
