//! A diagnosis as text, with the evidence first.

use hone_format::{count, measured};
use hone_record::{
    Category, CodeLayout, CounterMisses, Diagnosed, Diagnosis, Evidence, Expectation, Foretelling,
    LayoutVerdict, Missed, Shift, Slots,
};

use crate::table::table;

/// Each category of level 1 with its parts.
const ROWS: [(Category, &[Category]); 5] = [
    (Category::FrontendBound, &[Category::FetchLatency, Category::FetchBandwidth]),
    (Category::BadSpeculation, &[Category::BranchMispredicts, Category::MachineClears]),
    (Category::BackendBound, &[Category::MemoryBound, Category::CoreBound]),
    (Category::Retiring, &[Category::LightOperations, Category::HeavyOperations]),
    (Category::SmtContention, &[]),
];

/// The complete text, part by part.
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut out = format!("Evidence: {}\nFrom {}\n", diagnosis.evidence.label(), diagnosis.source);
    if let Some(watched) = &diagnosis.watched {
        out.push_str(&crate::watched::text(watched, diagnosis));
    }
    out.push_str(&layouts(&diagnosis.parts));
    diagnosis.shifts.iter().for_each(|shift| out.push_str(&format!("\n{}", shifted(shift))));
    for part in diagnosis.parts.iter().filter(|part| !is_all_in_columns(part)) {
        out.push('\n');
        out.push_str(&of_part(part, diagnosis));
    }
    if !diagnosis.notes.is_empty() {
        out.push('\n');
    }
    diagnosis.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    out
}

/// The busiest part with a verdict, in a line.
pub fn sentence(diagnosis: &Diagnosis) -> String {
    let judged = diagnosis.parts.iter().find_map(|part| Some((&part.scope, part.verdict.as_ref()?)));
    let Some((scope, verdict)) = judged else {
        return format!("no verdict, {}", diagnosis.evidence.label());
    };
    let scope = scope.as_ref().map(|scope| format!("{scope}: ")).unwrap_or_default();
    let ceiling = verdict
        .ceiling_words()
        .map(|ceiling| format!(", and can save at most {ceiling} of the CPU"))
        .unwrap_or_default();
    format!("{scope}will a better layout help? {}{ceiling}; {}", verdict.likelihood, verdict.rule)
}

/// The prediction for a layout, compared with the layout that ran.
pub fn foretelling(found: &Foretelling) -> String {
    let column = |name: &str, layout: &CodeLayout| Diagnosed {
        layout: Some(layout.clone()),
        ..Diagnosed::empty(Some(name.to_owned()))
    };
    let columns = [column("original layout", &found.before), column("predicted layout", &found.now)];
    format!(
        "Evidence: {}\n\
         From {}; {} instructions of its order, replayed\n\
         {}\n  Predicted effect  {}\n  rule  {}\n",
        Evidence::Simulated.label(),
        found.source,
        count(found.replayed),
        layouts(&columns),
        expectation(found.expected),
        found.rule
    )
}

fn expectation(expected: Expectation) -> &'static str {
    match expected {
        Expectation::Gain => "a gain",
        Expectation::Harm => "harm",
        Expectation::Nothing => "no measurable effect",
        Expectation::Open => "open: some figures improve, others get worse; measure to decide",
    }
}

fn of_part(part: &Diagnosed, diagnosis: &Diagnosis) -> String {
    let mut out = part.scope.as_ref().map(|scope| format!("{scope}\n")).unwrap_or_default();
    if let Some(slots) = &part.slots {
        out.push_str(&shares(slots));
    }
    if let Some(counted) = &part.counted {
        out.push_str(&misses(counted));
    }
    if let Some(verdict) = &part.verdict {
        out.push_str(&of_verdict(verdict, diagnosis));
    }
    if let Some(refused) = &part.refused {
        out.push_str(&format!("  refused: {refused}\n"));
    }
    out
}

/// The slots by category.
fn shifted(shift: &Shift) -> String {
    let head = vec![["", "before", "after", "points"].map(str::to_owned).to_vec()];
    let rows = by_category(head, |category| {
        let [before, after] = *shift.percent.get(&category)?;
        Some(vec![format!("{before:.1} %"), format!("{after:.1} %"), format!("{:+.1}", after - before)])
    });
    let scopes = match (&shift.before, &shift.after) {
        (Some(before), Some(after)) if before == after => format!("{before}\n"),
        (Some(before), Some(after)) => format!("{before}, and {after}\n"),
        _ => String::new(),
    };
    let words =
        shift.sentence().unwrap_or_else(|| "no category changed by half a percentage point".to_owned());
    format!(
        "{scopes}{}\n  {words}\n  These are shares of slots. To see whether the program became faster, compare its CPU per record: hone compare.\n",
        table(&rows)
    )
}

/// A row for each category with cells. Its parts are indented below it.
fn by_category(
    mut rows: Vec<Vec<String>>,
    cells: impl Fn(Category) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let row = |category: Category, indent: &str| {
        Some([vec![format!("{indent}{category}")], cells(category)?].concat())
    };
    for (category, parts) in ROWS {
        rows.extend(row(category, ""));
        rows.extend(parts.iter().filter_map(|part| row(*part, "  ")));
    }
    rows
}

fn shares(slots: &Slots) -> String {
    let rows = by_category(Vec::new(), |category| Some(vec![format!("{:.1} %", slots.share(category)?)]));
    let notes = slots.notes.iter().map(|note| format!("  note: {note}\n"));
    table(&rows) + &notes.collect::<String>()
}

fn misses(counted: &CounterMisses) -> String {
    let title = vec![format!("misses per 1,000 of {} instructions", count(counted.instructions))];
    let row = |missed: &Missed| vec![format!("  {}", missed.structure), measured(missed.per_1000)];
    let rows: Vec<Vec<String>> = std::iter::once(title).chain(counted.misses.iter().map(row)).collect();
    table(&rows) + &counted.notes.iter().map(|note| format!("  note: {note}\n")).collect::<String>()
}

/// Files with a smaller share of the execution are omitted.
const SMALL_SHARE: f64 = 0.005;
/// Number of files in the output.
const MOST_OBJECTS: usize = 4;

/// Whether the columns hold everything, so that nothing follows them.
fn is_all_in_columns(part: &Diagnosed) -> bool {
    part.layout.is_some() && part.verdict.is_none() && part.refused.is_none()
}

/// Layouts in columns. Empty if there are none.
fn layouts(parts: &[Diagnosed]) -> String {
    let told: Vec<(&Option<String>, &CodeLayout)> =
        parts.iter().filter_map(|part| Some((&part.scope, part.layout.as_ref()?))).collect();
    let Some((_, widest)) = told.last() else { return String::new() };
    let row = |name: &str, of: &dyn Fn(&CodeLayout) -> Option<String>| {
        let cells: Vec<Option<String>> = told.iter().map(|(_, layout)| of(layout)).collect();
        let any = cells.iter().any(Option::is_some);
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        any.then(|| std::iter::once(name.to_owned()).chain(cells).collect::<Vec<String>>())
    };
    let mut rows = Vec::new();
    if told.len() > 1 {
        let scopes = told.iter().map(|(scope, _)| (*scope).clone().unwrap_or_default());
        rows.push(std::iter::once(String::new()).chain(scopes).collect());
    }
    let title = |rows: &mut Vec<Vec<String>>, text: &str| rows.push(vec![text.to_owned()]);
    if !widest.misses.is_empty() {
        title(&mut rows, "misses per 1,000 instructions");
    }
    for missed in &widest.misses {
        let name = format!("  {}", missed.structure);
        rows.extend(row(&name, &|layout| layout.missed(&missed.structure).map(measured)));
    }
    rows.extend(row("lines fetched per 1,000", &|layout| layout.lines_fetched_per_1000.map(measured)));
    rows.extend(row("branches taken per 1,000", &|layout| layout.taken_per_1000.map(measured)));
    for (index, footprint) in widest.footprints.iter().enumerate() {
        title(&mut rows, &format!("{} that hold this share of the execution", unit(footprint.unit_bytes)));
        for (at, share) in ["50 %", "90 %", "99 %", "99.9 %"].iter().enumerate() {
            let units =
                |layout: &CodeLayout| layout.footprints.get(index).map(|found| count(found.units[at]));
            rows.extend(row(&format!("  {share}"), &units));
        }
    }
    rows.extend(row("bytes used per touched line", &|layout| {
        Some(format!("{:.1}", layout.bytes_used_of_a_line))
    }));
    rows.extend(row("crowded sets, of 64", &|layout| Some(layout.crowded_sets.to_string())));
    rows.extend(row("ext-TSP score, of 1.05", &|layout| layout.ext_tsp.map(|score| format!("{score:.3}"))));
    if widest.repeated_share >= SMALL_SHARE {
        rows.extend(row("repetitions (rep)", &|layout| Some(hone_format::percent(layout.repeated_share))));
    }
    for object in widest.objects.iter().filter(|object| object.share >= SMALL_SHARE).take(MOST_OBJECTS) {
        let name = object
            .path
            .as_deref()
            .map_or("code without a file", |path| path.rsplit('/').next().unwrap_or(path));
        let share = |layout: &CodeLayout| {
            let found = layout.objects.iter().find(|found| found.path == object.path);
            Some(hone_format::percent(found.map_or(0.0, |found| found.share)))
        };
        rows.extend(row(&format!("in {name}"), &share));
    }
    format!("\n{}", table(&rows))
}

/// A name for pages of this size.
pub fn unit(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("pages of {} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("pages of {} KiB", bytes >> 10),
        bytes => format!("lines of {bytes} B"),
    }
}

fn of_verdict(verdict: &LayoutVerdict, diagnosis: &Diagnosis) -> String {
    let ceiling = match (verdict.ceiling_words(), diagnosis.user_share) {
        (Some(ceiling), Some(user)) if diagnosis.evidence >= Evidence::Measured => format!(
            "at most {ceiling} of the CPU: the frontend's share times the {:.0} % in user code of the \
             program",
            100.0 * user
        ),
        (Some(ceiling), _) => format!(
            "at most {ceiling} of the CPU, the whole user code of the program; only hardware counters show \
             the frontend's share"
        ),
        _ if diagnosis.evidence >= Evidence::MeasuredPartial => {
            "unknown without the share of the CPU in user code of the program (--user-share)".to_owned()
        }
        _ => "unknown: the run was too short to separate user code and kernel".to_owned(),
    };
    format!(
        "\n  Will a better layout help?  {}\n  rule     {}\n  source   {}\n  ceiling  {ceiling}\n  next     {}\n",
        verdict.likelihood,
        verdict.rule,
        verdict.source,
        verdict.next.advice()
    )
}
