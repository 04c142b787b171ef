//! What traffic between zones costs, as text.

use hone_batch::zones::{Bill, Saving, Traffic};
use hone_format::{bytes, counted, measured};

use crate::table::table;
use crate::wrapped;

/// The complete text.
pub fn text(bill: &Bill) -> String {
    let mut out = format!(
        "{} on {} in {} zones ({}), each byte read {} times\n\n",
        counted(bill.topics as u64, "topic", "topics"),
        counted(bill.brokers as u64, "broker", "brokers"),
        bill.zones.len(),
        bill.zones.join(", "),
        measured(bill.fan_out),
    );
    let prices = &bill.prices;
    let price = |per_s: f64| measured(prices.crossing_per_month(per_s));
    let row = |name: &str, traffic: Traffic| {
        let rates =
            [traffic.bytes_per_s, traffic.crossing_per_s].map(|per_s| format!("{}/s", bytes(per_s as u64)));
        let [all, crossing] = rates;
        vec![name.to_owned(), all, crossing, price(traffic.crossing_per_s)]
    };
    let month = format!("{} a month", prices.currency);
    let head = ["", "all", "across zones", &month].map(str::to_owned).to_vec();
    let flows = &bill.flows;
    let mut rows = vec![head];
    rows.extend([
        row("from producers", flows.produce),
        row("to followers", flows.replicate),
        row("to consumers", flows.fetch),
    ]);
    rows.push(vec![
        "together".to_owned(),
        String::new(),
        format!("{}/s", bytes(flows.crossing_per_s() as u64)),
        measured(bill.per_month),
    ]);
    out.push_str(&table(&rows));
    if !bill.saved.is_empty() {
        let head = vec!["alone, this saves".to_owned(), month.clone()];
        let saved = bill.saved.iter().map(|saved| vec![saving(saved.what), measured(saved.per_month)]);
        out.push_str(&format!("\n{}", table(&std::iter::once(head).chain(saved).collect::<Vec<_>>())));
    }
    let remark = format!(
        "  Prices: {}, {}. Hone assumes that producers and consumers are spread evenly over the zones.",
        prices.source, prices.dated
    );
    out.push_str(&format!("\n{}\n", wrapped(&remark)));
    bill.notes.iter().for_each(|note| out.push_str(&format!("{}\n", wrapped(&format!("note: {note}")))));
    out
}

fn saving(what: Saving) -> String {
    match what {
        Saving::FollowerFetching => {
            "consumers read from a replica in their own zone (client.rack)".to_owned()
        }
        Saving::SmallerBatches(ratio) => {
            format!("batches have {} of their bytes", hone_format::percent(ratio))
        }
        Saving::Cores(cores) => format!("brokers need {} fewer cores", measured(cores)),
    }
}
