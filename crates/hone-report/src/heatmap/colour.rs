//! The viridis colour scale. Colour-blind readers and grey copies see it in the same order.

/// Colours from cold to hot, evenly spaced.
const STOPS: [[u8; 3]; 10] = [
    [0x44, 0x01, 0x54],
    [0x48, 0x28, 0x78],
    [0x3e, 0x4a, 0x89],
    [0x31, 0x68, 0x8e],
    [0x26, 0x82, 0x8e],
    [0x1f, 0x9e, 0x89],
    [0x35, 0xb7, 0x79],
    [0x6e, 0xce, 0x58],
    [0xb5, 0xde, 0x2b],
    [0xfd, 0xe7, 0x25],
];

/// Steps of the scale in pictures.
pub(super) const STEPS: usize = STOPS.len();

/// The step of a heat from 0 to 1.
pub(super) fn step(heat: f64) -> usize {
    ((heat.clamp(0.0, 1.0) * STEPS as f64) as usize).min(STEPS - 1)
}

/// The colour of a step on a dark background, where the hottest is the brightest.
pub(super) fn on_dark(step: usize) -> [u8; 3] {
    STOPS[step.min(STEPS - 1)]
}

/// The colour of a step on a white background, where the hottest is the darkest.
pub(super) fn on_paper(step: usize) -> [u8; 3] {
    on_dark(STEPS - 1 - step.min(STEPS - 1))
}

/// As CSS writes it.
pub(super) fn css([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
