//! A ratchet on the source tree: circles of modules, long files and functions, banned names, lines, commit subjects.
//!
//! `tidy.toml` holds today's numbers, and they may only fall. When one has fallen,
//! `HONE_TIDY=write cargo test -p hone --test tidy` lowers it. A number that has grown stays, and its test fails.
//! `cargo test -p hone --test tidy -- --ignored --nocapture` prints the circles and the uses that hold them together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

mod tidy_check;
use tidy_check::circles::{self, ALLOWED};
use tidy_check::measures::{Figures, functions};
use tidy_check::modules::Crate;
use tidy_check::ratchet::{self, Finding};
use tidy_check::record::Record;
use tidy_check::source::Source;
use tidy_check::{subjects, terms};

static CRATES: LazyLock<Vec<Crate>> = LazyLock::new(|| crates_in(&root()));
static FOUND: LazyLock<Figures> = LazyLock::new(|| Figures::of_crates(&CRATES));
static RECORD: LazyLock<Record> = LazyLock::new(record);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn crates_in(root: &Path) -> Vec<Crate> {
    let folders = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().map(|folder| Crate::read(root, folder)).collect()
}

/// The content of `tidy.toml`. `HONE_TIDY=write` lowers it first.
fn record() -> Record {
    let path = root().join("crates/hone/tests/tidy.toml");
    let read = fs::read_to_string(&path);
    let is_asked = std::env::var_os("HONE_TIDY").is_some_and(|value| value == "write");
    if !is_asked {
        let text = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return Record::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let record = match read.map(|text| Record::parse(&text).unwrap()) {
        Ok(Record { base, figures }) => Record { base, figures: ratchet::lowered(&figures, &FOUND) },
        Err(_) => Record { base: String::new(), figures: FOUND.clone() },
    };
    fs::write(&path, record.text()).unwrap();
    record
}

#[track_caller]
fn holds(findings: &[Finding]) {
    let texts: Vec<String> = findings.iter().map(Finding::text).collect();
    assert!(texts.is_empty(), "\n{}", texts.join("\n"));
}

#[test]
fn no_circle_of_modules_grows() {
    assert!(CRATES.len() > 8 && CRATES.iter().all(|one| !one.files.is_empty()), "the crates were not found");
    let findings = ratchet::circles(&RECORD.figures.circles, &FOUND.circles).findings;
    let is_grown = |one: &&Crate| {
        let start = format!("{}: ", one.name);
        findings.iter().any(|finding| matches!(finding, Finding::Grown(text) if text.starts_with(&start)))
    };
    let members: String = CRATES.iter().filter(is_grown).map(large_circles).collect();
    let texts: Vec<String> = findings.iter().map(Finding::text).collect();
    assert!(texts.is_empty(), "\n{}\n{members}", texts.join("\n"));
}

fn large_circles(krate: &Crate) -> String {
    let large = circles::circles(krate).into_iter().filter(|circle| circle.len() > ALLOWED);
    large.map(|circle| circles::described(krate, &circle)).collect()
}

#[test]
fn no_file_and_no_function_grows_long() {
    let files = ratchet::long_files(&RECORD.figures, &FOUND).findings;
    let functions = ratchet::long_functions(&RECORD.figures, &FOUND).findings;
    holds(&[files, functions].concat());
}

#[test]
fn no_banned_name_is_added() {
    holds(&ratchet::names(&RECORD.figures.names, &FOUND.names).findings);
}

#[test]
fn the_code_does_not_grow() {
    holds(&ratchet::lines(&RECORD.figures, &FOUND));
}

#[test]
fn the_program_says_no_banned_term() {
    let terms = terms::terms(&root());
    assert!(terms.len() > 15, "the terms were not found");
    let (seen, faults) = terms::faults(&CRATES, &terms);
    assert!(seen > 3_000, "the texts were not found: {seen}");
    assert!(faults.is_empty(), "{} texts:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn constants_of_the_product_are_found_and_terms_in_them() {
    let source = "// \"not this\"\nlet a = \"a text\\\n   goes on\";\nlet b = '\"'; let c = r#\"raw \"text\" here\"#;\nlet d = \"one\";\n#[cfg(test)]\nmod tests { \"a test\" }\nlet e = \"after it\";";
    let found = Source::new(source.to_owned()).texts();
    let expected = [(2, "a text goes on"), (4, "raw \"text\" here"), (5, "one"), (8, "after it")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    let terms = terms::terms(&root());
    let is_banned = |text: &str| terms.iter().any(|term| term.is_match(text));
    assert!(is_banned("what the broker tells") && is_banned("It was taken back") && is_banned("Put back"));
    assert!(!is_banned("the tellurium broker"));
}

#[test]
#[expect(clippy::print_stderr, reason = "a skip must be visible in the output")]
fn commit_subjects_have_their_form() {
    let commits = match subjects::after(&RECORD.base, &root()) {
        Ok(commits) => commits,
        Err(reason) => return eprintln!("skipped, no commit subject was checked: {reason}"),
    };
    let faults: Vec<String> = commits
        .iter()
        .filter_map(|(name, subject)| Some(format!("{name} `{subject}`: {}", subjects::fault(subject)?)))
        .collect();
    assert!(faults.is_empty(), "\n{}\n  next: git commit --amend, or git rebase -i", faults.join("\n"));
}

#[test]
#[ignore = "prints a report, checks nothing"]
#[expect(clippy::print_stdout, reason = "the report is the output")]
fn report() {
    print!("{}", Record { base: RECORD.base.clone(), figures: FOUND.clone() }.text());
    for one in CRATES.iter().filter(|one| !circles::sizes(one).is_empty()) {
        print!("\n{}", large_circles(one));
        let size = circles::sizes(one)[0];
        for cut in circles::cuts(one).iter().take(15) {
            println!("  {size} -> {} files without {}", cut.largest, circles::edge_described(one, cut.edge));
        }
    }
}

/// A small crate in a folder of its own.
struct Planted(tempfile::TempDir);

impl Planted {
    fn new(files: &[(&str, &str)]) -> Self {
        let planted = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| planted.write(name, text));
        planted
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join("crates/planted/src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self) -> Crate {
        crates_in(self.0.path()).pop().unwrap()
    }

    fn figures(&self) -> Figures {
        Figures::of_crates(&crates_in(self.0.path()))
    }

    /// Each circle as the names of its files.
    fn circles(&self) -> Vec<String> {
        let read = self.read();
        let named = |circle: Vec<usize>| {
            let files =
                circle.iter().map(|file| read.files[*file].path.trim_start_matches("crates/planted/src/"));
            files.collect::<Vec<_>>().join(" ")
        };
        circles::circles(&read).into_iter().map(named).collect()
    }

    /// Each use as `from -> to`, with the first path by which it goes.
    fn uses(&self) -> Vec<String> {
        let read = self.read();
        let described = read.uses.keys().map(|edge| circles::edge_described(&read, *edge));
        described.map(|text| text.replace("crates/planted/src/", "")).collect()
    }
}

/// Four files in a circle, and a fifth that may join it.
fn four() -> Planted {
    Planted::new(&[
        ("lib.rs", "mod a; mod b; mod e;"),
        ("a.rs", "use crate::{b::{c::{self, C}, B}, e};"),
        ("b.rs", "pub mod c; pub mod d; pub struct B; fn f(_: d::D) {}"),
        ("b/c.rs", "pub use super::d::{D, self as other}; pub struct C;"),
        ("b/d/mod.rs", "pub struct D; fn f(a: super::super::a::A) {}"),
        ("e.rs", ""),
    ])
}

#[test]
fn a_circle_of_two_is_found() {
    let planted = Planted::new(&[
        ("lib.rs", "mod parent;"),
        ("parent.rs", "mod child; pub use child::Child; pub struct Parent;"),
        ("parent/child.rs", "pub struct Child(super::Parent);"),
    ]);
    assert_eq!(planted.circles(), ["parent.rs parent/child.rs"]);
    let expected = [
        "parent.rs -> parent/child.rs by `child::Child`, line 1",
        "parent/child.rs -> parent.rs by `super::Parent`, line 1",
    ];
    assert_eq!(planted.uses(), expected);
    assert_eq!(circles::sizes(&planted.read()), [0; 0], "two files are allowed");
}

#[test]
fn a_parent_that_only_declares_its_child_is_in_no_circle() {
    let planted = Planted::new(&[
        ("lib.rs", "mod parent;"),
        ("parent.rs", "pub mod child; pub(in crate::parent) struct Parent;"),
        ("parent/child.rs", "use super::*;"),
    ]);
    assert_eq!(planted.circles(), [""; 0]);
    assert_eq!(planted.uses(), ["parent/child.rs -> parent.rs by `super`, line 1"]);
}

#[test]
fn a_circle_of_four_is_found_through_nested_groups() {
    assert_eq!(four().circles(), ["a.rs b.rs b/c.rs b/d/mod.rs"]);
    assert_eq!(four().figures().circles["planted"], [4]);
}

#[test]
fn names_that_stand_for_modules_are_followed() {
    let planted = Planted::new(&[
        ("lib.rs", "pub mod show; mod verb; pub mod inner { pub fn f() { super::show::table::print() } }"),
        ("show.rs", "pub mod table; pub struct table_of;"),
        ("show/table.rs", "pub fn print() {}"),
        (
            "verb.rs",
            "use crate::show as display; fn f() { let _ = ..display::table::print(); display.table::<u8>() }",
        ),
        ("main.rs", "fn main() { planted::show::table::print() }"),
    ]);
    let expected = [
        "lib.rs -> show/table.rs by `super::show::table::print`, line 1",
        "main.rs -> show/table.rs by `planted::show::table::print`, line 1",
        "verb.rs -> show.rs by `crate::show`, line 1",
        "verb.rs -> show/table.rs by `display::table::print`, line 1",
    ];
    assert_eq!(planted.uses(), expected);
}

#[test]
fn an_item_named_as_a_child_of_its_module_leads_to_its_module_alone() {
    let planted = Planted::new(&[
        ("lib.rs", "mod profile; mod user;"),
        ("profile.rs", "mod merge; pub struct Profile;"),
        ("profile/merge.rs", ""),
        ("user.rs", "use crate::profile::Profile; fn f() { Profile::merge() }"),
    ]);
    assert_eq!(planted.uses(), ["user.rs -> profile.rs by `crate::profile::Profile`, line 1, and 1 more"]);
}

/// None of these texts uses `b.rs`. A parser that finds a use in one reports a circle.
const NO_USES: [&str; 12] = [
    "// use crate::b::B;",
    "/* use crate::b::B; /* nested */ use crate::b::B; */",
    "/// ```\n/// use crate::b::B;\n/// ```\nfn f() {}",
    "const TEXT: &str = \"use crate::b::B; \\\" crate::b::B\";",
    "const TEXT: &str = r#\"\" use crate::b::B; crate::b::B\"#;",
    "const TEXT: &[u8] = br\"\\\"; const QUOTE: char = '\"'; const TEXT2: &str = \"crate::b::B\";",
    "fn f<'a>(_: &'a str) -> [char; 3] { ['\\'', '\"', 'é'] } // \"\nconst TEXT: &str = \"crate::b::B\";",
    "#[cfg(test)]\nmod tests { use crate::b::B; mod inner { use crate::b::B; } }",
    "#[cfg(test)]\n#[expect(unused)]\npub(crate) use crate::b::{self, B};",
    "#[test]\nfn f<T>(t: T) where T: Copy, T: Into<crate::b::B> { crate::b::f() }",
    "struct A {\n#[cfg(test)]\nb: std::collections::BTreeMap<u8, crate::b::B>,\na: u8 }",
    "#[cfg(any(test, feature = \"fuzzing\"))]\nmod b_tests;",
];

#[test]
fn comments_strings_and_tests_use_nothing() {
    for text in NO_USES {
        let planted = Planted::new(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", text),
            ("a/b_tests.rs", "use crate::b::B;"),
            ("b.rs", "pub struct B(crate::a::A);"),
        ]);
        assert_eq!(planted.circles(), [""; 0], "{text}");
        planted.write("a.rs", &format!("{text}\nuse crate::b::B;"));
        assert_eq!(planted.circles(), ["a.rs b.rs"], "what follows is read: {text}");
    }
}

#[test]
fn odd_source_is_read_without_a_panic() {
    let odd = [
        "use",
        "use a::{b, {",
        "mod",
        "mod x {",
        "}}}",
        "#[",
        "#[path",
        "#[cfg(test)]",
        "fn",
        "fn f(",
        "'",
        "\"",
    ];
    for text in
        odd.into_iter().chain(["r#\"", "/*", "b'\\", "use crate::{self as", "pub(", "#![cfg(test)]", "é'é"])
    {
        let planted = Planted::new(&[("lib.rs", text), ("a.rs", "")]);
        assert_eq!(planted.circles(), [""; 0], "{text}");
        assert_eq!(planted.figures().circles.len(), 1);
    }
    let planted = Planted::new(&[
        ("lib.rs", "#[path = \"lib.rs\"] mod again; mod a;"),
        ("a.rs", "use a as b; use b as a; use a::c;"),
    ]);
    assert_eq!(planted.circles(), [""; 0]);
}

#[test]
fn a_circle_that_grows_fails_and_names_its_files() {
    let planted = four();
    let before = planted.figures();
    planted.write("e.rs", "use crate::a::A;");
    let found = planted.figures();
    let findings = ratchet::circles(&before.circles, &found.circles).findings;
    assert!(
        matches!(&findings[..], [Finding::Grown(text)] if text.contains("[5] files, [4]")),
        "{findings:?}"
    );
    assert_eq!(ratchet::lowered(&before, &found).circles, before.circles, "writing raises nothing");
    let members = large_circles(&planted.read());
    assert!(members.contains("a.rs -> crates/planted/src/b.rs by `crate::b::B`, line 1"), "{members}");
    assert_eq!(members.lines().count(), 6, "{members}");
}

#[test]
fn a_new_circle_fails_and_one_of_three_does_not() {
    let none = [("planted".to_owned(), Vec::new())].into();
    let findings = ratchet::circles(&none, &four().figures().circles).findings;
    assert!(matches!(&findings[..], [Finding::Grown(_)]), "{findings:?}");
    let planted = four();
    planted.write("a.rs", "use crate::b::c::C;");
    assert_eq!(planted.circles(), ["a.rs b/c.rs b/d/mod.rs"]);
    assert_eq!(ratchet::circles(&none, &planted.figures().circles).findings, []);
}

#[test]
fn a_circle_that_shrinks_asks_to_lower_its_number() {
    let planted = four();
    let before = planted.figures();
    planted.write("b/d/mod.rs", "pub struct D;");
    let found = planted.figures();
    let findings = ratchet::circles(&before.circles, &found.circles).findings;
    let [fallen @ Finding::Fallen(_)] = &findings[..] else { panic!("{findings:?}") };
    assert!(fallen.text().contains("next: lower the number in tidy.toml"), "{}", fallen.text());
    let lowered = ratchet::lowered(&before, &found);
    assert_eq!(lowered.circles, found.circles);
    assert_eq!(ratchet::circles(&lowered.circles, &found.circles).findings, []);
}

#[test]
fn a_circle_may_fall_apart_and_move_to_a_new_crate() {
    let sizes = |crates: &[(&str, &[usize])]| -> std::collections::BTreeMap<String, Vec<usize>> {
        crates.iter().map(|(name, sizes)| ((*name).to_owned(), sizes.to_vec())).collect()
    };
    let recorded = sizes(&[("old", &[10, 4])]);
    for (found, grows) in [
        (sizes(&[("old", &[6, 4, 4])]), false),
        (sizes(&[("old", &[6, 4]), ("new", &[4])]), false),
        (sizes(&[("old", &[10, 4]), ("new", &[4])]), true),
        (sizes(&[("old", &[10, 5])]), true),
        (sizes(&[("old", &[8, 7])]), true),
    ] {
        let findings = ratchet::circles(&recorded, &found).findings;
        let is_grown = findings.iter().any(|finding| matches!(finding, Finding::Grown(_)));
        assert!(is_grown == grows && !findings.is_empty(), "{found:?}: {findings:?}");
    }
}

fn long(files: &[(&str, usize)]) -> Figures {
    let long_files = files.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect();
    Figures { long_files, ..Figures::default() }
}

#[test]
fn a_long_file_may_shrink_and_take_a_new_name() {
    let recorded = long(&[("a.rs", 1000), ("b.rs", 900)]);
    let outcome = |files: &[(&str, usize)]| ratchet::long_files(&recorded, &long(files));
    assert_eq!(outcome(&[("a.rs", 990), ("b.rs", 900)]).findings, [], "a small fall needs no edit");
    let grown = outcome(&[("a.rs", 1001), ("b.rs", 900)]);
    assert!(matches!(&grown.findings[..], [Finding::Grown(_)]) && grown.lowered["a.rs"] == 1000);
    let new = outcome(&[("a.rs", 1000), ("b.rs", 900), ("c.rs", 801)]);
    assert!(matches!(&new.findings[..], [Finding::Grown(_)]) && !new.lowered.contains_key("c.rs"));
    let moved = outcome(&[("c.rs", 1000), ("b.rs", 900)]);
    assert!(matches!(&moved.findings[..], [Finding::Fallen(_)]) && moved.lowered["c.rs"] == 1000);
    let gone = outcome(&[("a.rs", 900)]);
    assert!(
        matches!(&gone.findings[..], [Finding::Fallen(_), Finding::Fallen(_)]) && gone.lowered.len() == 1
    );
}

#[test]
fn functions_are_measured_without_comments_and_strings() {
    let text = "fn one() {}\nfn three() -> [u8; 2] {\n    // }\n    let _ = \"}\"; }\ntrait T { fn none(); }\ntype F = fn(u8);\n";
    let expected = [("one".to_owned(), 1), ("three".to_owned(), 3)];
    assert_eq!(functions(&Source::new(text.to_owned())), expected);
    let body = "\n    f();".repeat(85);
    let planted =
        Planted::new(&[("lib.rs", &format!("fn f() {{{body}\n}}\nmod m {{ fn f() {{{body}}} }}\n"))]);
    let lengths = planted.figures().long_functions;
    assert_eq!(lengths["crates/planted/src/lib.rs::f"], 87);
    assert_eq!(lengths["crates/planted/src/lib.rs::f (2)"], 86);
}

#[test]
fn lines_of_tests_are_no_production_lines() {
    let text = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n#[cfg(test)]\nmod more;\n";
    let planted = Planted::new(&[("lib.rs", text), ("more.rs", "fn g() {}\n"), ("unused.rs", "fn h() {}\n")]);
    let read = planted.read();
    assert_eq!((read.lines(), read.production_lines()), (10, 2));
}

#[test]
fn lines_may_grow_by_new_features_alone() {
    let findings = |program_lines: usize, production_lines: usize| {
        let recorded = Figures { program_lines: 1000, production_lines: 9000, ..Figures::default() };
        ratchet::lines(&recorded, &Figures { program_lines, production_lines, ..Figures::default() })
    };
    assert_eq!(findings(1000, 9500), []);
    assert_eq!(findings(500, 8500), []);
    assert!(matches!(&findings(1001, 9501)[..], [Finding::Grown(_), Finding::Grown(_)]));
    assert!(matches!(&findings(499, 8499)[..], [Finding::Fallen(_), Finding::Fallen(_)]));
}

#[test]
fn banned_names_are_counted_where_they_are_defined() {
    let text = "struct Asked; enum Kind { Told } fn f(kind: Kind) -> Asked { of() } pub fn of() {}\n\
                struct AskedTwice; trait T { type Kept; } mod door {} // struct Asked\n";
    let planted = Planted::new(&[("lib.rs", text), ("desk/mod.rs", ""), ("kept.rs", ""), ("kept/x.rs", "")]);
    let names = planted.figures().names;
    let counts: Vec<String> =
        names["planted"].iter().map(|(name, count)| format!("{name} {count}")).collect();
    let expected =
        ["fn of 1", "mod desk 1", "mod door 1", "mod kept 1", "type Asked 1", "type Kept 1", "type Kind 1"];
    assert_eq!(counts, expected);
    let more = Planted::new(&[("lib.rs", &format!("{text} mod m {{ struct Kind; }}"))]).figures().names;
    let findings = ratchet::names(&names, &more).findings;
    let grown: Vec<&Finding> = findings.iter().filter(|one| matches!(one, Finding::Grown(_))).collect();
    assert!(grown.len() == 1 && grown[0].text().contains("`type Kind` 2 times, 1 recorded"), "{findings:?}");
}

#[test]
fn a_name_may_move_to_another_crate() {
    let counts = |old: usize, new: usize| -> std::collections::BTreeMap<String, _> {
        let counts = |count: usize| [("fn of".to_owned(), count)].into();
        [("old".to_owned(), counts(old)), ("new".to_owned(), counts(new))].into()
    };
    let moved = ratchet::names(&counts(3, 0), &counts(2, 1));
    assert!(
        moved.findings.iter().all(|one| matches!(one, Finding::Fallen(_))) && moved.lowered == counts(2, 1)
    );
    assert!(
        ratchet::names(&counts(3, 0), &counts(3, 1))
            .findings
            .iter()
            .any(|one| matches!(one, Finding::Grown(_)))
    );
}

#[test]
fn subjects_have_an_area_and_an_imperative() {
    for good in ["host: lint units", "hone-host/lint: read units", "ci-2: run twice: once alone"] {
        assert_eq!(subjects::fault(good), None, "{good}");
    }
    let long = format!("host: {}", "x".repeat(67));
    for bad in [
        &long,
        "host: lint units.",
        "Host: lint",
        "host lint",
        "host: Lint",
        "a/b/c: lint",
        ": lint",
        "host:lint",
    ] {
        assert!(subjects::fault(bad).is_some(), "{bad}");
    }
}

#[test]
fn without_the_base_commit_no_subject_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let reason = subjects::after("e271b2f5", folder.path()).unwrap_err();
    assert!(reason.contains("the base commit `e271b2f5` of tidy.toml can't be read"), "{reason}");
}

#[test]
fn the_record_reads_as_it_was_written() {
    let planted = four();
    planted.write("e.rs", &"struct Kind;\n".repeat(900));
    let record = Record { base: "0123abc".to_owned(), figures: planted.figures() };
    let text = record.text();
    assert_eq!(Record::parse(&text).unwrap(), record, "{text}");
    assert!(Record::parse("[lines").is_err());
}
