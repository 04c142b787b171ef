//! Related records of a run: heatmaps, before and after, and the curves of capacities and sweeps.

use hone_record::{Capacity, Curve, CurveOver, Heatmap, Story};

use super::{paragraph, rates, section};
use crate::heatmap;
use crate::tree::Element;

/// A section for each.
pub(crate) fn of(story: &Story) -> Vec<Element> {
    let heatmaps = story.heatmaps.iter().enumerate().map(|(index, map)| of_heatmap(index + 1, map));
    let capacities = story.capacities.iter().enumerate().map(|(index, found)| of_capacity(index + 1, found));
    let curves = story.curves.iter().enumerate().map(|(index, found)| of_curve(index + 1, found));
    heatmaps.chain(capacities).chain(curves).collect()
}

fn of_heatmap(number: usize, map: &Heatmap) -> Element {
    let id = format!("heatmap-{number}");
    let title = format!("Layout of the executed code: {}", heatmap::title(map));
    section(&id, &title).children(heatmap::inside(&id, map))
}

fn of_capacity(number: usize, found: &Capacity) -> Element {
    let id = format!("capacity-{number}");
    let title = format!("Capacity of {} under {}", found.variant, found.workload.name);
    let said = rates::knee_sentence(found);
    section(&id, &title).child(paragraph(&said)).children(rates::inside_of_capacity(&id, found))
}

fn of_curve(number: usize, found: &Curve) -> Element {
    let id = format!("curve-{number}");
    let over = match found.over {
        CurveOver::Rate => "at many rates",
        CurveOver::RecordsPerBatch => "with batches of many sizes",
    };
    let title = format!("{} {over}, under {}", found.variant, found.workload.name);
    let said = rates::batch_sentence(found).map(|said| paragraph(&said));
    section(&id, &title).children(said).children(rates::inside_of_curve(&id, found))
}
