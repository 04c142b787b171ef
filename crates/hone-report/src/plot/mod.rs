//! Plots as inline SVG. Each one is drawn twice, for a wide and for a narrow page, because a phone can't show a drawing that is
//! only scaled down. The style sheet shows one of them.

pub(crate) mod cores;
pub(crate) mod flame;
pub(crate) mod forest;
mod frame;
pub(crate) mod interval_bar;
pub(crate) mod mark;
pub(crate) mod over;
pub(crate) mod pairs;
pub(crate) mod running;
mod scale;
pub(crate) mod series;
pub(crate) mod sizes;
pub(crate) mod slots;
pub(crate) mod slow;
pub(crate) mod spark;
pub(crate) mod spectrum;
pub(crate) mod states;
pub(crate) mod timeline;
pub(crate) mod top_down;
pub(crate) mod two_forests;
pub(crate) mod xy;

pub(crate) use frame::{Stroke, legend, legend_of_shapes, scrolling, stroke_sample};
pub(crate) use scale::extent;

/// Whether a ratio and the ends of its interval are positive and finite, so that a logarithmic axis can show them.
pub(crate) fn is_sound_ratio(ratio: &[f64; 3]) -> bool {
    ratio.iter().all(|value| value.is_finite() && *value > 0.0)
}
