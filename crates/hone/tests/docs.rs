//! The pages for readers: their links lead somewhere, the commands that they name exist, the reference is that of this program, and the site
//! of all of it can be built and walked.

#![expect(clippy::disallowed_methods, reason = "the site's script is started as its users do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

mod book;
use book::{page, pages, root};

mod stage;
use stage::hone_in;

/// A page without its code: what a browser would show as text.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.starts_with("```");
        let hides = is_code || is_fence;
        is_code ^= is_fence;
        if hides { "" } else { line }
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Targets of the links of a page: `[words](target)`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = prose.match_indices("](").map(|(place, mark)| place + mark.len());
    ends.filter_map(|start| prose[start..].split_once(')'))
        .map(|(target, _)| target.trim().to_owned())
        .collect()
}

/// The anchors of a page, as GitHub and mdBook make them out of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let plain = heading.to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path with its `..` gone through; none where it leaves the repository.
fn within(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => found.pop().then_some(())?,
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    Some(found)
}

/// What is wrong with a link of a page at this path.
fn fault(path: &Path, target: &str) -> Option<String> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let place = match file {
        "" => path.to_owned(),
        file => match within(&path.parent()?.join(file)) {
            Some(place) => place,
            None => return Some("it leaves the repository".to_owned()),
        },
    };
    if !root().join(&place).exists() {
        return Some(format!("there is no {}", place.display()));
    }
    let anchor = anchor?;
    (!anchors(&page(&place)).contains(anchor))
        .then(|| format!("{} has no heading for #{anchor}", place.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    let mut faults = Vec::new();
    let mut all = pages();
    // Its links are seen from the root, where script/site puts it.
    all.push(PathBuf::from("SUMMARY.md"));
    for path in all {
        let text = if path == Path::new("SUMMARY.md") { page("site/SUMMARY.md") } else { page(&path) };
        for target in links(&text) {
            seen += 1;
            if let Some(why) = fault(&path, &target) {
                faults.push(format!("{}: {target}: {why}", path.display()));
            }
        }
    }
    assert!(seen > 150, "the links were not found: {seen}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let path = Path::new("docs/method.md");
    assert_eq!(fault(path, "bias.md"), None);
    assert_eq!(fault(path, "#the-load"), None);
    assert_eq!(fault(path, "../README.md#install"), None);
    assert!(fault(path, "biases.md").unwrap().contains("there is no docs/biases.md"));
    assert!(fault(path, "bias.md#no-such-heading").unwrap().contains("no heading"));
    assert!(fault(path, "../../outside.md").unwrap().contains("leaves"));
    let text = "[a](b.md) and `[c](d.md)`\n```\n[e](f.md)\n```\n![g](h.png)";
    assert_eq!(links(text), ["b.md", "h.png"]);
}

/// A page that is in no chapter is in no site.
#[test]
fn every_page_is_a_chapter() {
    let chapters: BTreeSet<String> = links(&page("site/SUMMARY.md")).into_iter().collect();
    for path in pages() {
        let path = path.display().to_string();
        // They are reached through their index.
        let is_reached = chapters.contains(&path) || path.starts_with("docs/reference/");
        assert!(is_reached, "site/SUMMARY.md has no chapter {path}");
    }
}

/// `HONE_GOLDEN=write cargo test -p hone --test docs` writes them anew.
#[test]
fn the_reference_is_that_of_this_program() {
    let made = tempfile::tempdir().unwrap();
    hone_in(made.path(), &["reference", "--output", "."]).expect_code(0);
    let kept = root().join("docs/reference");
    let texts = |folder: &Path| -> BTreeMap<String, String> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
            .collect()
    };
    if std::env::var_os("HONE_GOLDEN").is_some_and(|value| value == "write") {
        let _ = fs::remove_dir_all(&kept);
        hone_in(made.path(), &["reference", "--output", kept.to_str().unwrap()]).expect_code(0);
    }
    let (made, kept) = (texts(made.path()), texts(&kept));
    assert!(made.len() > 15, "{:?}", made.keys());
    let names: BTreeSet<&String> = made.keys().chain(kept.keys()).collect();
    let stale: Vec<&&String> = names.iter().filter(|name| made.get(**name) != kept.get(**name)).collect();
    assert!(
        stale.is_empty(),
        "docs/reference is stale: {stale:?}; HONE_GOLDEN=write cargo test -p hone --test docs"
    );
}

/// Where script/bootstrap puts mdBook, or wherever it is found.
fn mdbook() -> Option<PathBuf> {
    let own = root().join(".hone/mdbook/bin/mdbook");
    let named = std::env::var_os("MDBOOK").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("mdbook"));
    let found = named.into_iter().chain([own]).chain(found).find(|path| path.exists());
    if found.is_none() {
        stage::tools::skip("no mdBook; script/bootstrap --test installs it");
    }
    found
}

/// Pages of a site, by their paths from its root.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(place) = waiting.pop() {
        for entry in fs::read_dir(place).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found
}

/// Values of an attribute in a page of HTML.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let mark = format!(" {attribute}=\"");
    let starts = html.match_indices(&mark).map(|(place, mark)| place + mark.len());
    starts.filter_map(|start| html[start..].split_once('"')).map(|(value, _)| value).collect()
}

#[test]
fn the_site_is_built_and_its_links_lead_somewhere() {
    let Some(mdbook) = mdbook() else { return };
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let ran = Command::new(root().join("script/site")).arg(&site).env("MDBOOK", mdbook).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let files: BTreeSet<PathBuf> = files_below(&site).into_iter().collect();
    let html: Vec<&PathBuf> =
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "html")).collect();
    assert!(html.len() > 40, "{html:?}");
    let mut faults = Vec::new();
    for path in html {
        let text = fs::read_to_string(site.join(path)).unwrap();
        // The one for what is not there is shown at any address.
        if path == Path::new("404.html") {
            continue;
        }
        for target in values(&text, "href").into_iter().chain(values(&text, "src")) {
            let file = target.split(['#', '?']).next().unwrap_or_default();
            if file.is_empty() || target.contains("://") || target.starts_with("data:") {
                continue;
            }
            let place = within(&path.parent().unwrap().join(file));
            if !place.is_some_and(|place| files.contains(&place)) {
                faults.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A line of `script/results --list`.
struct Figure {
    name: String,
    page: String,
    heading: String,
    command: String,
}

fn figures() -> Vec<Figure> {
    let listed = Command::new(root().join("script/results")).arg("--list").output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).unwrap();
    let of = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, minutes, place, command] = fields[..] else { panic!("{line}") };
        assert!(minutes.parse::<u32>().is_ok_and(|minutes| minutes > 0), "{line}");
        let (page, heading) = place.split_once('#').unwrap_or_else(|| panic!("{line}"));
        let [name, page, heading, command] = [name, page, heading, command].map(str::to_owned);
        Figure { name, page, heading, command }
    };
    text.lines().map(of).collect()
}

/// A page in parts: the anchor of each heading, and what stands below it up to the next heading.
fn parts(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        match (line.starts_with('#') && !is_code, found.last_mut()) {
            (true, _) => found.push((anchor(line.trim_start_matches('#').trim()), String::new())),
            (false, Some((_, part))) => *part += &format!("{line}\n"),
            (false, None) => {}
        }
    }
    found
}

/// Whether a table is one of figures that were measured: of its cells a third begin with a number that has a unit, a fraction or an interval.
fn is_measured(table: &[&str]) -> bool {
    let cells: Vec<&str> =
        table.iter().skip(2).flat_map(|row| row.trim_matches('|').split('|')).map(str::trim).collect();
    let is_figure = |cell: &&&str| {
        let number = cell
            .find(|c: char| !c.is_ascii_digit() && ![',', '.', '-', '+'].contains(&c))
            .unwrap_or(cell.len());
        let (number, rest) = cell.split_at(number);
        let units = [" %", " µs", " ms", " s", " MiB", " MB", " kB", " [", " better"];
        number.contains(|c: char| c.is_ascii_digit())
            && (number.contains('.') || units.iter().any(|unit| rest.starts_with(unit)))
    };
    cells.len() > 5 && 3 * cells.iter().filter(is_figure).count() >= cells.len()
}

/// Tables of figures that are not measured here.
const NOT_OURS: [(&str, &str, &str); 2] = [
    ("docs/diagnose.md", "slots-and-four-ways-to-lose-them", "published by the makers of the broker"),
    ("docs/go.md", "tables-and-what-stands-out", "thresholds of rules"),
];

fn tables(part: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = part.lines().collect();
    let groups = lines.split(|line| !line.starts_with('|'));
    groups.filter(|group| group.len() > 2).map(<[&str]>::to_vec).collect()
}

#[test]
fn every_figure_has_a_command_and_every_command_its_page() {
    let figures = figures();
    assert!(figures.len() > 15);
    let names: BTreeSet<&String> = figures.iter().map(|figure| &figure.name).collect();
    assert_eq!(names.len(), figures.len(), "a name is there twice");
    for Figure { name, page: path, heading, command } in &figures {
        let parts = parts(&page(path));
        let part = parts.iter().find(|(anchor, _)| anchor == heading);
        let (_, part) = part.unwrap_or_else(|| panic!("{name}: {path} has no heading for #{heading}"));
        let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(command.as_str()), "{name}: {path}#{heading} does not name `{command}`");
        let program = command.split_whitespace().find(|word| word.contains('/') && !word.contains('='));
        if let Some(program) = program.filter(|program| !program.starts_with("examples/")) {
            assert!(root().join(program).is_file(), "{name}: there is no {program}");
        }
    }
}

/// Commands of a page that measure: a script of `bench/` with its words, and what is set before it.
fn measuring(text: &str) -> Vec<String> {
    let code = text.lines().flat_map(|line| match line.strip_prefix("    ") {
        Some(line) => vec![line],
        None if line.starts_with("bench/") => vec![line],
        None => line.split('`').skip(1).step_by(2).collect(),
    });
    let commands = code.filter_map(|command| {
        let own = command.split("  ").next()?.trim();
        let script = own.split_whitespace().find(|word| !word.contains('='))?;
        // A picture of a process that the reader names, and a broker to measure beside.
        let is_no_figure = ["bench/flame.sh", "bench/kafka.sh"].contains(&script);
        (script.starts_with("bench/") && script.ends_with(".sh") && !is_no_figure).then(|| own.to_owned())
    });
    commands.collect()
}

#[test]
fn commands_that_measure_are_found_with_their_words() {
    let text = "`A=1 bench/x.sh --kafka` and `hone load`\n    bench/y.sh two   # in a minute\nbench/z.sh\nbench/kafka.sh run";
    assert_eq!(measuring(text), ["A=1 bench/x.sh --kafka", "bench/y.sh two", "bench/z.sh"]);
}

#[test]
fn every_table_of_figures_and_every_script_is_in_the_list() {
    let figures = figures();
    let mut faults = Vec::new();
    let mut seen = 0;
    for path in pages().into_iter().filter(|path| !path.starts_with("docs/reference")) {
        let name = path.display().to_string();
        let text = page(&path);
        for (anchor, part) in parts(&text) {
            let is_measured_here = tables(&part).iter().any(|table| is_measured(table));
            let is_exempt = NOT_OURS.iter().any(|(page, heading, _)| *page == name && *heading == anchor);
            // The results of each example have a heading of their own below the command of all.
            let is_listed = figures
                .iter()
                .any(|figure| figure.page == name && (figure.heading == anchor || name == "docs/results.md"));
            seen += u32::from(is_measured_here);
            if is_measured_here && !is_exempt && !is_listed {
                faults.push(format!("{name}#{anchor}: figures without a command in script/results"));
            }
        }
        for command in measuring(&text) {
            // A script that is only named may be any of its commands.
            let is_named = |figure: &Figure| figure.command.split_whitespace().any(|word| word == command);
            if !figures.iter().any(|figure| figure.command == command || is_named(figure)) {
                faults.push(format!("{name}: `{command}` is not in script/results"));
            }
        }
    }
    assert!(seen > 8, "the tables were not found: {seen}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is kept of a figure that has another command by now, or none, is no proof of it.
#[test]
fn what_is_kept_of_a_figure_is_by_its_command_of_today() {
    let figures = figures();
    let folder = root().join("docs/figures");
    for file in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = file.path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let figure = figures.iter().find(|figure| figure.name == name);
        let figure = figure.unwrap_or_else(|| panic!("docs/figures has {name}, script/results has not"));
        let made = format!("# command  {}\n", figure.command);
        assert!(text.starts_with(&made), "{name}: kept by another command than `{}`", figure.command);
        assert!(!text.contains("/root/") && !text.contains("/home/"), "{name}: a path of one machine");
    }
}

/// In a copy of the script with a list of its own, so that nothing is measured.
#[test]
fn figures_are_made_once_and_failures_are_told_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = fs::read_to_string(root().join("script/results")).unwrap();
    let (before, rest) = script.split_once("<<'TABLE'\n").unwrap();
    let (_, after) = rest.split_once("\nTABLE\n").unwrap();
    let list = "slow | 9 | a#b | cargo --list\nbad | 1 | a#b | cargo no-such-verb\nquick | 1 | a#b | cargo --version\n\
        goal | 9 | a#b | cargo --version && [ ! -e $RUNS/was ] && touch $RUNS/was && exit 3";
    fs::create_dir(folder.path().join("script")).unwrap();
    let copy = folder.path().join("script/results");
    fs::write(&copy, format!("{before}<<'TABLE'\n{list}\nTABLE\n{after}")).unwrap();
    let run =
        |options: &[&str]| stage::Ran::of(Command::new("bash").arg(&copy).args(options).output().unwrap());
    let is_made = |name: &str| folder.path().join(format!("target/results/{name}.done")).is_file();

    run(&["--only", "nothing"]).expect_code(2).expect_error("no figure nothing");
    let first = run(&["--quick"]).expect_code(1).expect_error("Not made: bad");
    assert!(first.stderr.contains("no-such-verb"), "{}", first.stderr);
    assert_eq!((is_made("slow"), is_made("bad"), is_made("quick")), (false, false, true));
    let told = fs::read_to_string(folder.path().join("target/results/quick.done")).unwrap();
    assert!(told.contains("command  cargo --version") && told.contains("cores"), "{told}");
    assert!(
        fs::read_to_string(folder.path().join("target/results/quick.txt")).unwrap().starts_with("cargo ")
    );
    run(&["--only", "quick", "slow"]).expect_code(0).expect_error("quick: is there");
    assert!(is_made("slow"));
    let again = run(&["--again", "--only", "quick"]).expect_code(0);
    assert!(!again.stderr.contains("is there"), "{}", again.stderr);

    run(&["--keep", "slow", "quick"]).expect_code(0);
    let kept = fs::read_to_string(folder.path().join("docs/figures/quick.txt")).unwrap();
    assert!(
        kept.starts_with("# command  cargo --version\n# commit ") && kept.contains("\n\ncargo "),
        "{kept}"
    );
    run(&["--keep", "bad"]).expect_code(2).expect_error("bad was not made here yet");

    // Measured all the same, and no run of before is taken for new.
    for options in [&["--only", "goal"][..], &["--again", "--only", "goal"]] {
        run(options).expect_code(0).expect_error("a goal is missed: goal");
        let told = fs::read_to_string(folder.path().join("target/results/goal.done")).unwrap();
        assert!(told.contains("goal     missed"), "{told}");
    }
}
