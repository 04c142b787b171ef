//! `hone heatmap`: from a trace to every form, and the page in a browser.

#![expect(clippy::disallowed_methods, reason = "tests start a browser as its users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod stage;
use stage::tools::{find, skip};
use stage::{hone_command, hone_in};

/// Nearly all that it does is in `hot`.
const PROGRAM: &str = "
#include <stdio.h>
__attribute__((noinline)) unsigned hot(unsigned x) {
  unsigned s = 0;
  for (unsigned i = 0; i < x; i++)
    s += i * x ^ s;
  return s;
}
__attribute__((noinline)) unsigned cool(unsigned x) { return x % 16 ? x + 1 : hot(60); }
int main(void) { unsigned s = 0; for (unsigned i = 0; i < 40000; i++) s += cool(i); printf(\"%u\\n\", s); return 0; }
";

/// Of its loop.
const LOOP_LINES: std::ops::RangeInclusive<u64> = 5..=6;

struct Traced {
    dir: tempfile::TempDir,
}

impl Traced {
    /// A run of the program, or nothing where the tools are not there.
    fn new() -> Option<Self> {
        if find(&format!("qemu-{}", std::env::consts::ARCH)).is_none() {
            skip("there is no qemu-user");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("p.c"), PROGRAM).unwrap();
        let built = Command::new("cc")
            .args(["-O1", "-g", "-o", "p", "p.c"])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(built.success());
        hone_in(dir.path(), &["diagnose", "--quiet", "--", "./p"]).expect_code(0);
        Some(Self { dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The map's record.
    fn record(&self, more: &[&str]) -> serde_json::Value {
        let words = [&["heatmap", "runs/diagnosis-001", "--json"], more].concat();
        hone_in(self.path(), &words).expect_code(0).json()["body"].clone()
    }

    fn write(&self, name: &str, sources: &[&str]) -> String {
        let words = [&["heatmap"], sources, &["-o", name]].concat();
        let ran = hone_in(self.path(), &words).expect_code(0);
        assert_eq!(ran.stdout.lines().next(), Some(name));
        String::from_utf8_lossy(&fs::read(self.path().join(name)).unwrap()).into_owned()
    }
}

const RUN: &str = "runs/diagnosis-001";

/// One letter for each block of the size that was asked for, one side or two, here or in a file.
#[test]
fn blocks_of_a_size_are_letters() {
    let Some(traced) = Traced::new() else { return };
    let run = "runs/diagnosis-001";
    let ran =
        hone_in(traced.path(), &["heatmap", run, "--object", "p", "--block-size", "4KiB"]).expect_code(0);
    let rows: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("0x00")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() == 14 + 64), "{}", ran.stdout);
    let letters: String = rows.iter().map(|row| &row[14..]).collect();
    let pages = traced.record(&["--object", "p"])["sides"][0]["pages"].as_array().unwrap().len();
    assert_eq!(letters.chars().filter(|letter| *letter != '.').count(), pages, "{}", ran.stdout);
    assert!(letters.chars().any(|letter| letter.is_ascii_uppercase()), "{letters}");
    assert!(ran.stdout.contains("Each letter is 4 KiB of code"), "{}", ran.stdout);
    let both = ["heatmap", run, run, "--block-size", "12KiB", "-o", "both.txt"];
    hone_in(traced.path(), &both).expect_code(0);
    let text = fs::read_to_string(traced.path().join("both.txt")).unwrap();
    assert!(text.contains("before: ") && text.contains("after:  ") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("Each letter is 12 KiB of code"), "{text}");
    let wrong = hone_in(traced.path(), &["heatmap", run, "--block-size", "12KiB", "-o", "x.svg"]);
    wrong.expect_code(2).expect_error("--block-size prints letters, which fit only .txt files");
    hone_in(traced.path(), &["heatmap", run, "--block-size", "5000"])
        .expect_code(2)
        .expect_error("for example 12KiB");
}

#[test]
fn the_record_knows_where_the_time_goes() {
    let Some(traced) = Traced::new() else { return };
    let side = traced.record(&[])["sides"][0].clone();
    assert!(side["object"].as_str().unwrap().ends_with("/p"), "{}", side["object"]);
    assert!(side["title"].as_str().unwrap().starts_with("./p, under qemu"), "{}", side["title"]);
    assert_eq!(side["evidence"], "simulated");
    assert_eq!(side["functions"][0]["name"], "hot");
    let share = side["functions"][0]["share"].as_f64().unwrap();
    assert!(share > 0.5 && share < side["share"].as_f64().unwrap(), "{share}");
    let sum = |what: &str| -> f64 {
        side[what].as_array().unwrap().iter().map(|cell| cell["share"].as_f64().unwrap()).sum()
    };
    assert!(
        (sum("lines") - sum("pages")).abs() < 1e-9
            && (sum("lines") - side["share"].as_f64().unwrap()).abs() < 1e-9
    );
    // The program's own blocks ran as often as its source says.
    let blocks = side["blocks"].as_array().unwrap();
    assert!(blocks.iter().any(|block| block["count"] == 40_000), "{blocks:?}");
    // The body of the loop is the hottest, and it is at its line.
    let files = side["files"].as_array().unwrap();
    let most = blocks.iter().max_by_key(|block| block["count"].as_u64()).unwrap();
    assert!((LOOP_LINES).contains(&most["source"]["line"].as_u64().unwrap()), "{most}");
    let file = files[most["source"]["file"].as_u64().unwrap() as usize].as_str().unwrap();
    assert_eq!(Path::new(file), traced.path().canonicalize().unwrap().join("p.c"));
    let line = side["lines"]
        .as_array()
        .unwrap()
        .iter()
        .max_by(|one, other| one["share"].as_f64().unwrap().total_cmp(&other["share"].as_f64().unwrap()));
    assert!((3..=10).contains(&line.unwrap()["source"]["line"].as_u64().unwrap()), "{line:?}");
    // The folder of traces alone is a source, too; another object of the same run is another map.
    let library = traced.record(&["--object", "libc.so.6"])["sides"][0].clone();
    assert!(library["object"].as_str().unwrap().ends_with("libc.so.6"));
    assert!(library["share"].as_f64().unwrap() < 0.5 && library["curves"] == side["curves"]);
    let folder =
        hone_in(traced.path(), &["heatmap", "runs/diagnosis-001/trace", "--json"]).expect_code(0).json();
    assert_eq!(folder["body"]["sides"][0]["lines"], side["lines"]);
}

#[test]
fn every_form_is_written_and_the_record_is_a_source_itself() {
    let Some(traced) = Traced::new() else { return };
    let json = traced.write("o.json", &[RUN]);
    assert!(json.contains("\"kind\": \"heatmap\""));
    assert!(traced.write("o.svg", &[RUN]).starts_with("<svg"));
    assert!(fs::read(traced.path().join("o.svg")).is_ok());
    traced.write("o.png", &[RUN]);
    assert_eq!(&fs::read(traced.path().join("o.png")).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
    let csv = traced.write("o.csv", &[RUN]);
    let row = csv.lines().find(|row| row.contains(",hot,")).unwrap();
    assert!(row.starts_with("one,p,.text,0x") && row.contains("/p.c,"), "{row}");
    let classic = traced.write("o.txt", &[RUN]);
    assert!(classic.starts_with("Legend:\n\nRanges:\n  o : (0, "), "{classic}");
    assert!(classic.lines().any(|line| line.starts_with("0x00000000: ") && line.len() == 268), "{classic}");
    let beside = |name: &str| fs::read_to_string(traced.path().join(name)).unwrap();
    assert!(beside("o.txt.csv").starts_with("Bucket counts, Size (KB), CDF (%)\n1, 0.0625, "));
    assert!(beside("o.txt.csv").trim_end().ends_with(", 100.0000"));
    assert!(beside("o.txt-section-hotness.csv").contains("\n.text, 0x"));
    // One scale: a saved map beside the run that it was made of is the same twice.
    let both = hone_in(traced.path(), &["heatmap", "o.json", RUN, "--json"]).expect_code(0).json();
    assert_eq!(both["body"]["sides"][0], both["body"]["sides"][1]);
    let page = traced.write("o.html", &["o.json", RUN]);
    assert!(page.contains("before: p") && page.contains("What moved"));
}

/// The tool's own text and tables, of the same counts.
#[test]
fn the_text_is_that_of_the_tool() {
    let Some(traced) = Traced::new() else { return };
    let Some(tool) = find("llvm-bolt-heatmap-22") else { return };
    traced.write("o.txt", &[RUN]);
    let side = traced.record(&[])["sides"][0].clone();
    let mut samples = "E cpu-clock\n".to_owned();
    let instructions = side["instructions"].as_f64().unwrap();
    for line in side["lines"].as_array().unwrap() {
        let count = (line["share"].as_f64().unwrap() * instructions).round().max(1.0);
        samples.push_str(&format!("S {:x} {count}\n", line["address"].as_u64().unwrap()));
    }
    fs::write(traced.path().join("p.pa"), samples).unwrap();
    let ran = Command::new(tool)
        .args(["./p", "--pa", "-p", "p.pa", "-print-mappings", "-o", "its"])
        .current_dir(traced.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let read = |name: &str| fs::read_to_string(traced.path().join(name)).unwrap();
    let mut plain = String::new();
    for (index, piece) in read("its").split('\u{1b}').enumerate() {
        plain.push_str(if index == 0 { piece } else { piece.split_once('m').unwrap().1 });
    }
    assert_eq!(read("o.txt").trim_end(), plain.trim_end());
    assert_eq!(read("o.txt.csv"), read("its.csv"));
    assert_eq!(read("o.txt-section-hotness.csv"), read("its-section-hotness.csv"));
}

#[test]
fn the_terminal_gets_what_it_can_show() {
    let Some(traced) = Traced::new() else { return };
    let plain = hone_in(traced.path(), &["heatmap", RUN]).expect_code(0).stdout;
    assert!(!plain.contains('\u{1b}') && plain.contains("Evidence: simulated"), "{plain}");
    assert!(plain.contains("hottest functions") && plain.contains("\n  hot "), "{plain}");
    assert!(plain.contains("of the execution in a cell of 64 B"), "{plain}");
    let narrow = hone_command()
        .args(["heatmap", RUN, RUN])
        .current_dir(traced.path())
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    let rows: Vec<&str> = narrow.lines().filter(|line| line.trim_start().starts_with("0x")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.chars().count() <= 60), "{narrow}");
    assert!(rows[0].matches("0x").count() == 2, "side by side: {narrow}");
    // In a terminal there are colours, unless nobody wants them.
    let Some(script) = find("script") else { return };
    let shown = |variables: &str| {
        let line = format!("{variables} {} heatmap {RUN}", env!("CARGO_BIN_EXE_hone"));
        let ran = Command::new(&script)
            .args(["-qec", &line, "/dev/null"])
            .current_dir(traced.path())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    assert!(shown("COLUMNS=100").contains("\u{1b}[38;5;220"), "{}", shown("COLUMNS=100"));
    // The progress clears its line there, which is no colour.
    assert!(!shown("NO_COLOR=1").contains("[38;5;"));
    assert!(!shown("TERM=dumb").contains("[38;5;"));
}

#[test]
fn a_file_of_callgrinds_is_a_source() {
    let dir = tempfile::tempdir().unwrap();
    let text = "# callgrind format\npositions: instr line\nevents: Ir\nob=(1) /no/such/x\nfn=(1) f\n0x1000 0 90\n+4 0 90\n0x2000 0 20\n";
    fs::write(dir.path().join("callgrind.out.1"), text).unwrap();
    let side =
        hone_in(dir.path(), &["heatmap", "callgrind.out.1", "--json"]).expect_code(0).json()["body"]["sides"]
            [0]
        .clone();
    assert_eq!((side["evidence"].as_str(), side["instructions"].as_u64()), (Some("modelled"), Some(200)));
    assert_eq!(side["pages"][0]["share"], 0.9);
    assert_eq!(side["pages"][1]["address"], 0x2000);
}

#[test]
fn what_can_not_be_is_said_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| hone_in(dir.path(), &[&["heatmap"], words].concat());
    fs::create_dir(dir.path().join("empty")).unwrap();
    run(&["empty"])
        .expect_code(1)
        .expect_error("looked for trace/*.trace and *.trace\n  next: run `hone diagnose");
    run(&["none"]).expect_code(1).expect_error("none can't be read");
    fs::write(dir.path().join("x"), "hello").unwrap();
    run(&["x"]).expect_code(1).expect_error(
        "is not a callgrind file, perf data, a BOLT profile or a saved heatmap\n  next: name a run's folder",
    );
    fs::write(dir.path().join("m.json"), "{\"hone_record\": 1, \"kind\": \"machine\", \"body\": {}}")
        .unwrap();
    run(&["m.json"]).expect_code(1).expect_error("holds a `machine`, expected a `heatmap`");
    run(&["x", "-o", "x.pdf"]).expect_code(2).expect_error(".html, .svg, .png, .json, .csv or .txt");
    run(&["x", "x", "-o", "x.txt"]).expect_code(2).expect_error("a .txt heatmap holds one source");
    fs::create_dir(dir.path().join("broken")).unwrap();
    fs::write(dir.path().join("broken/1-1.trace"), "HONE").unwrap();
    run(&["broken"]).expect_code(1).expect_error("1-1.trace is left out: ");
    let text = "# callgrind format\npositions: instr line\nevents: Ir\nob=(1) /no/such/x\n0x1000 0 90\n";
    fs::write(dir.path().join("c.out"), text).unwrap();
    run(&["c.out", "--object", "y"])
        .expect_code(2)
        .expect_error("no code of `y` ran in c.out, by callgrind; code ran in /no/such/x");
    run(&["c.out", "--thread", "y"]).expect_code(2).expect_error("its threads are all threads");
    run(&["c.out", "-o", "none/x.svg"]).expect_code(1).expect_error("none/x.svg can't be written");
}

fn browser() -> Option<PathBuf> {
    find("chromium")
}

/// Around the page, which lies in a frame as it is: presses, points and clicks, and writes down what was seen then.
const DRIVER: &str = r#"<!DOCTYPE html><meta charset="utf-8"><iframe id="f" style="width:1100px;height:900px"></iframe><pre id="seen"></pre><script>
addEventListener("load", async () => {
  const frame = document.getElementById("f"), seen = [];
  await new Promise((done) => { frame.onload = done; frame.srcdoc = PAGE; });
  const inner = frame.contentDocument, map = inner.getElementById("map");
  const side = (index) => inner.getElementById("side-" + index);
  const note = (name) => seen.push({ name, level: map.dataset.level, side: map.dataset.side, cursors: map.dataset.cursors,
    infos: [...inner.querySelectorAll(".info")].map((info) => info.textContent), where: inner.querySelector(".where").textContent });
  const press = (key) => map.dispatchEvent(new frame.contentWindow.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const mouse = (kind, index, x, y) => {
    const canvas = side(index).querySelector("canvas"), box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new frame.contentWindow.MouseEvent(kind, { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  };
  note("begin");
  press("Enter"); note("enter");
  press("ArrowRight"); note("right");
  press("ArrowLeft"); press("+"); note("plus");
  press("Escape"); note("escape");
  press("-"); note("minus");
  press("-"); note("end of the way out");
  press("s"); note("other side");
  const canvas = side(0).querySelector("canvas");
  const to = canvas.getContext("2d"), pixels = to.getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3]) colours.add(pixels[at] << 16 | pixels[at + 1] << 8 | pixels[at + 2]);
  seen.push({ name: "colours", count: colours.size });
  mouse("mousemove", 0, 3, 3); note("hover");
  mouse("mouseleave", 0, 3, 3); note("leave");
  mouse("click", 0, 3, 3); note("click");
  inner.getElementById("out").click(); note("button");
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>"#;

/// What the driver saw of a page.
fn driven(browser: &Path, dir: &Path, page: &str) -> Vec<serde_json::Value> {
    let text = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
    fs::write(dir.join("driver.html"), DRIVER.replacen("= PAGE;", &format!("= {text};"), 1)).unwrap();
    let ran = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--timeout=60000",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", dir.join("driver.html").display())])
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&ran.stdout).into_owned();
    let begin = dom
        .find("<pre id=\"seen\">")
        .unwrap_or_else(|| panic!("{dom}\n{}", String::from_utf8_lossy(&ran.stderr)));
    let json = &dom[begin + "<pre id=\"seen\">".len()..];
    let json = &json[..json.find("</pre>").unwrap()];
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&json)
        .unwrap_or_else(|error| panic!("{error}: {json}\n{}", String::from_utf8_lossy(&ran.stderr)))
}

/// Zoom, hover and keys, in a browser, with the page's own policy in force.
#[test]
fn the_page_zooms_by_click_and_key_and_tells_what_is_under_the_pointer() {
    let Some(browser) = browser() else { return };
    let Some(traced) = Traced::new() else { return };
    let page = traced.write("o.html", &[RUN, RUN]);
    let seen = driven(&browser, traced.path(), &page);
    let at = |name: &str| {
        seen.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name}: {seen:?}"))
    };
    let info = |name: &str, side: usize| at(name)["infos"][side].as_str().unwrap().to_owned();
    assert_eq!(at("begin")["level"], "page");
    assert!(
        info("begin", 0).contains("bytes ran") && info("begin", 0).contains("hot (rank 1, "),
        "{}",
        info("begin", 0)
    );
    // The hottest line of the hottest page, on both sides, with its blocks and where they were written.
    let short = traced.path().canonicalize().unwrap().join("p.c").display().to_string();
    assert_eq!(at("enter")["level"], "line");
    for side in [0, 1] {
        assert!(
            info("enter", side).starts_with("line 0x") && info("enter", side).contains("hot (rank 1"),
            "{}",
            info("enter", side)
        );
        assert!(info("enter", side).contains(" instructions, ran "), "{}", info("enter", side));
        let told = info("enter", side);
        assert!(told.contains("\nwritten in ") && told.contains("/p.c:"), "{told}");
        assert!(LOOP_LINES.clone().any(|line| told.contains(&format!(" times, {short}:{line}"))), "{told}");
    }
    let cursor = |name: &str| -> Vec<u64> {
        let cursors = at(name)["cursors"].as_str().unwrap().split(' ');
        cursors.map(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()).collect()
    };
    assert_eq!(cursor("right")[0], cursor("enter")[0] + 64);
    assert_eq!(cursor("right")[1], cursor("enter")[1], "the other side stays");
    assert_eq!(at("plus")["level"], "byte");
    assert!(
        info("plus", 0).starts_with("byte 0x") && info("plus", 0).contains("it ran\nits line has "),
        "{}",
        info("plus", 0)
    );
    assert_eq!((&at("escape")["level"], cursor("escape")), (&serde_json::json!("line"), cursor("enter")));
    assert_eq!((&at("minus")["level"], cursor("minus")), (&serde_json::json!("page"), cursor("begin")));
    assert_eq!(at("end of the way out")["level"], "page");
    assert_eq!(
        (&at("begin")["side"], &at("other side")["side"]),
        (&serde_json::json!("0"), &serde_json::json!("1"))
    );
    assert!(at("colours")["count"].as_u64().unwrap() > 5, "nothing is drawn: {}", at("colours"));
    // The first cell of the view is another one than the hottest page, and nothing ran there.
    assert!(info("hover", 0).contains("nothing ran here"), "{}", info("hover", 0));
    assert_eq!(info("leave", 0), info("minus", 0));
    assert_eq!(
        (&at("click")["level"], &at("click")["side"]),
        (&serde_json::json!("line"), &serde_json::json!("0"))
    );
    assert_eq!(at("button")["level"], "page");
}

/// Samples know where time goes: shares and functions, and neither the bytes of a line nor how often a block ran.
#[test]
fn samples_give_a_map_without_bytes_and_blocks() {
    let Some(perf) = find("perf") else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.c"), PROGRAM.replace("40000", "4000000")).unwrap();
    let run = |program: &str, words: &[&str]| {
        Command::new(program).args(words).current_dir(dir.path()).output().unwrap().status.success()
    };
    assert!(run("cc", &["-O1", "-o", "p", "p.c"]));
    let perf = perf.to_str().unwrap();
    if !run(perf, &["record", "-q", "-N", "-e", "cpu-clock", "-F", "4000", "-o", "perf.data", "--", "./p"]) {
        return skip("perf may not sample here");
    }
    let record =
        hone_in(dir.path(), &["heatmap", "perf.data", "--json"]).expect_code(0).json()["body"].clone();
    let side = &record["sides"][0];
    assert_eq!(
        (&side["evidence"], &side["functions"][0]["name"]),
        (&"sampled".into(), &"hot".into()),
        "{side}"
    );
    assert!(side["functions"][0]["share"].as_f64().unwrap() > 0.5 && side["blocks"] == serde_json::json!([]));
    assert!(side["pages"].as_array().unwrap().iter().all(|page| page["bytes_used"] == 0));
    assert!(record["notes"].to_string().contains("lower bound"), "{}", record["notes"]);
    let text = hone_in(dir.path(), &["heatmap", "perf.data"]).expect_code(0).stdout;
    assert!(text.contains("Evidence: sampled") && !text.contains("bytes used per line"), "{text}");
    hone_in(dir.path(), &["heatmap", "perf.data", "-o", "x.csv"]).expect_code(0);
    let csv = fs::read_to_string(dir.path().join("x.csv")).unwrap();
    assert!(csv.lines().nth(1).unwrap().split(',').nth(5) == Some(""), "{csv}");
    let told = hone_in(dir.path(), &["diagnose", "--read", "perf.data"]).expect_code(0).stdout;
    assert!(told.starts_with("Evidence: sampled") && told.contains("no verdict"), "{told}");
    assert!(told.contains("hot ") && told.contains("p ("), "{told}");
    fs::write(dir.path().join("cut"), &fs::read(dir.path().join("perf.data")).unwrap()[..90]).unwrap();
    hone_in(dir.path(), &["heatmap", "cut"]).expect_code(1).expect_error("it is truncated in its header");
}
