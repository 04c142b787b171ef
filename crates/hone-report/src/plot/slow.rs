//! Slow requests over the window, with the stalls that explain them as bands behind them.

use hone_record::TailAccount;

use super::frame::{Anchor, Drawing, Pane, Size, both_sizes, label, legend_of_shapes, rectangle, rectangles};
use super::mark::circle;
use super::scale::Scale;
use super::series::{log_axis, time_axis};
use crate::quantity;
use crate::tree::{Element, Markup};

/// Causes with a band.
const BANDS: [&str; 3] = ["stall-band a", "stall-band c", "stall-band d"];
/// Marks in the picture: the slowest.
const MOST_MARKS: usize = 600;
/// A band is at least this wide.
const LEAST_WIDTH: f64 = 1.5;
const HEIGHT: f64 = 220.0;

/// The picture. `None` without slow requests.
pub(crate) fn plot(id: &str, title: &str, account: &TailAccount) -> Option<Markup> {
    let slowest = account.slow.iter().map(|slow| slow.latency_us).fold(0.0, f64::max);
    let description = format!(
        "{} beyond {} over {}; the slowest took {}.",
        quantity::counted(account.slow_count, "request", "requests"),
        quantity::time_us(account.threshold_us),
        quantity::duration(account.duration_s),
        quantity::time_us(slowest),
    );
    (!account.slow.is_empty()).then(|| both_sizes(id, title, &description, |size| draw(size, account)))
}

/// The key. `None` without a band.
pub(crate) fn legend(account: &TailAccount) -> Option<Element> {
    let entry = |(cause, class): (&hone_record::TailCause, &'static str)| {
        (Markup::from(rectangle((4.0, 0.0), (32.0, 10.0), class)), cause.name.clone())
    };
    let entries: Vec<(Markup, String)> = account.named().into_iter().zip(BANDS).map(entry).collect();
    (!entries.is_empty()).then(|| legend_of_shapes(entries))
}

fn draw(size: Size, account: &TailAccount) -> Drawing {
    let pane =
        Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top: 24.0, bottom: 24.0 + HEIGHT };
    let domain = (0.0, account.duration_s.max(0.001));
    let x = Scale::linear(domain, (pane.left, pane.right));
    let mut body = Markup::default();
    for (cause, class) in account.named().into_iter().zip(BANDS) {
        let inside = cause.stalls.iter().filter(|[begin, _]| *begin < domain.1);
        let bands = inside.map(|[begin, end]| {
            let from = x.at(begin.max(0.0));
            ((from, pane.top), (x.at(end.min(domain.1)).max(from + LEAST_WIDTH), pane.bottom))
        });
        body.push(rectangles(bands, class));
    }
    let values = account.slow.iter().map(|slow| slow.latency_us).chain([account.threshold_us]);
    if let Some((y, ticks)) = log_axis(values, &pane) {
        body.push(pane.y_axis(&ticks));
        let mut slowest: Vec<_> = account.slow.iter().collect();
        slowest.sort_by(|a, b| b.latency_us.total_cmp(&a.latency_us));
        for slow in slowest.into_iter().take(MOST_MARKS) {
            let class = if slow.cause.is_some() { "stall b" } else { "hollow" };
            body.push(circle(x.at(slow.at_s.min(domain.1)), y.at(slow.latency_us), 3.0, class));
        }
    }
    body.push(pane.floor());
    body.push(time_axis(&pane, &x, domain, size));
    body.push(label(0.0, 13.0, Anchor::Start, "latency from the due time (log)"));
    Drawing { height: pane.bottom + 46.0, body }
}

#[cfg(test)]
mod tests {
    use hone_record::{SlowRequest, StallKind, TailCause};

    use super::*;

    #[test]
    fn bands_stay_inside_and_nothing_is_no_picture() {
        assert!(plot("s", "t", &TailAccount::default()).is_none());
        let slow = |at_s, cause| SlowRequest { at_s, latency_us: 200_000.0, cause };
        let account = TailAccount {
            duration_s: 10.0,
            slow: vec![slow(1.0, Some(0)), slow(12.0, None)],
            slow_count: 2,
            threshold_us: 3_000.0,
            causes: vec![TailCause {
                kind: StallKind::Pause,
                name: "Pause <Full>".to_owned(),
                stalls: vec![[0.9, 1.1], [9.9, 10.4], [11.0, 12.0]],
                explained: 2,
                is_beyond_chance: true,
                detail: None,
            }],
            ..TailAccount::default()
        };
        let svg = plot("s", "t", &account).unwrap().into_string();
        assert!(!svg.contains("NaN") && svg.contains("stall-band a"), "{svg}");
        // Two of three bands, in two sizes; 866 is the right end of the wide one.
        assert!(svg.contains("H866V244"), "{svg}");
        assert!(legend(&account).is_some());
    }
}
