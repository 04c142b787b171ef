//! The slots of two records, as one bar for each.

use hone_record::Slots;

use super::top_down::{self, Bar};
use crate::tree::Markup;

/// The plot. `None` when neither record has a share.
pub(crate) fn plot(id: &str, title: &str, names: [&str; 2], slots: [&Slots; 2]) -> Option<Markup> {
    let bar = |(name, slots): (&str, &Slots)| Bar { label: name.to_owned(), percent: slots.percent.clone() };
    let bars: Vec<Bar> = names.into_iter().zip(slots).map(bar).collect();
    top_down::plot(id, title, &bars, true)
}
