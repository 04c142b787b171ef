//! Pages and pictures of heatmaps, from maps whose truth is known.

use hone_record::{
    Evidence, HeatBlock, HeatCurve, HeatFunction, HeatLine, HeatMark, HeatPage, HeatPlace, HeatPoint,
    HeatSection, HeatSet, HeatSource, Heatmap,
};
use hone_report::documents;
use hone_report::heatmap::{grid, png, svg};
use scraper::{Html, Selector};

/// Code at `begin`: this many pages. Half of the bytes of each line run, and the first line is the hottest.
fn heatmap_page(map: &Heatmap) -> String {
    documents::heatmap(map).html()
}

fn side(begin: u64, pages: u64, names: &[&str]) -> HeatSource {
    let share = 1.0 / (64 * pages) as f64;
    let line = |index: u64| HeatLine { address: begin + 64 * index, share, used: 0xffff_ffff, source: None };
    let page = |index: u64| HeatPage {
        address: begin + 4096 * index,
        share: 64.0 * share,
        lines: 64,
        bytes_used: 2048,
    };
    let function = |(index, name): (usize, &&str)| HeatFunction {
        name: (*name).to_owned(),
        begin: begin + 64 * index as u64,
        bytes: 64,
        share: 0.5 / (index + 1) as f64,
        rank: index as u64 + 1,
    };
    HeatSource {
        title: "it <ran>".to_owned(),
        evidence: Evidence::Simulated,
        instructions: 1_000_000,
        object: Some("/bin/server".to_owned()),
        build_id: Some("0123456789abcdef".to_owned()),
        share: 1.0,
        others: Vec::new(),
        sections: vec![HeatSection {
            name: ".text".to_owned(),
            begin,
            bytes: 4096 * pages,
            share: 1.0,
            lines: 64 * pages,
        }],
        pages: (0..pages.min(20_000)).map(page).collect(),
        lines: (0..(64 * pages).min(20_000)).map(line).collect(),
        functions: names.iter().enumerate().map(function).collect(),
        blocks: (0..(64 * pages).min(8_000))
            .map(|index| HeatBlock {
                address: begin + 64 * index,
                bytes: 32,
                instructions: 8,
                count: 123_456_789,
                source: None,
            })
            .collect(),
        curves: vec![HeatCurve { unit_bytes: 64, points: vec![HeatPoint { units: 64 * pages, share: 1.0 }] }],
        marks: vec![HeatMark {
            structure: "L1i 32 KiB 8-way".to_owned(),
            unit_bytes: 64,
            units: 512,
            share: 0.25,
        }],
        sets: vec![HeatSet { lines: 9, share: 1.0 / 64.0 }; 64],
        ways: 8,
        cut: Vec::new(),
        files: Vec::new(),
    }
}

/// The same with debug information: 2,000 files of long paths.
fn written(mut side: HeatSource) -> HeatSource {
    side.files = (0..2_000).map(|file| format!("/w/{}<i>{file}.rs", "a-folder/of-many/".repeat(9))).collect();
    let place = |index: usize| Some(HeatPlace { file: index as u32 % 2_000, line: index as u32 + 1 });
    side.lines.iter_mut().enumerate().for_each(|(index, line)| line.source = place(index));
    side.blocks.iter_mut().enumerate().for_each(|(index, block)| block.source = place(index));
    side
}

fn map(sides: Vec<HeatSource>) -> Heatmap {
    Heatmap { sides, notes: vec!["a note & more".to_owned()] }
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    page.select(&Selector::parse(selector).unwrap()).map(|found| found.text().collect()).collect()
}

#[test]
fn the_page_is_one_file_and_nothing_foreign_can_run() {
    let names = ["</script><script>alert(1)</script>", "b"];
    let text = heatmap_page(&map(vec![side(0x1000, 2, &names)]));
    let page = Html::parse_document(&text);
    assert_eq!(page.errors, Vec::<String>::new());
    assert_eq!(page.select(&Selector::parse("script").unwrap()).count(), 2, "data and the page's own");
    let policy = page.select(&Selector::parse("meta[http-equiv]").unwrap()).next().unwrap();
    let policy = policy.value().attr("content").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.contains("script-src 'sha256-"), "{policy}");
    for loads in ["src=", "href=", "url(", "@import", "fetch(", "innerHTML"] {
        assert!(!text.contains(loads), "{loads}");
    }
    let data: serde_json::Value = serde_json::from_str(&texts(&page, "#data")[0]).unwrap();
    assert_eq!(data["sides"][0]["functions"][0][0], names[0]);
    assert_eq!(data["sides"][0]["lines"][0], serde_json::json!([64, 0.007812, "00000000ffffffff"]));
    assert!(texts(&page, "header").concat().contains("it <ran>"));
    assert!(texts(&page, "li").contains(&"a note & more".to_owned()));
}

#[test]
fn what_moved_joins_halves_and_tells_ranks() {
    let mut after = side(0x40_0000, 2, &["b", "a", "a.cold.0", "c"]);
    after.functions[2].share = 0.3;
    let page = Html::parse_document(&heatmap_page(&map(vec![side(0x1000, 2, &["a", "b", "gone"]), after])));
    let rows = texts(&page, "table tr");
    let row = |name: &str| rows.iter().find(|row| row.starts_with(name)).unwrap().clone();
    // a is 0.25 + 0.3 now, more than the 0.5 of b.
    assert_eq!(row("a1"), "a1150.0\u{a0}%55.0\u{a0}%0x10000x400080");
    assert_eq!(row("b2"), "b2225.0\u{a0}%50.0\u{a0}%0x10400x400000");
    assert_eq!(row("gone3"), "gone3–16.7\u{a0}%–0x1080–");
    assert!(rows.iter().any(|row| row == "crowded sets of an L1i of 32 KiB, of 646464"), "{rows:?}");
    let one = heatmap_page(&map(vec![side(0x1000, 2, &["a"])]));
    assert!(!one.contains("What moved"));
}

#[test]
fn a_place_is_told_by_the_end_of_its_path_and_only_where_it_is_known() {
    let without = heatmap_page(&map(vec![side(0x1000, 2, &["a"])]));
    assert!(!Html::parse_document(&without).root_element().text().any(|text| text == "written in"));
    let mut known = written(side(0x1000, 2, &["a"]));
    known.blocks[0].source = Some(HeatPlace { file: 2_000, line: 1 });
    let page = Html::parse_document(&heatmap_page(&map(vec![known])));
    assert_eq!(page.errors, Vec::<String>::new());
    let data: serde_json::Value = serde_json::from_str(&texts(&page, "#data")[0]).unwrap();
    let side = &data["sides"][0];
    let short = "…/a-folder/of-many/a-folder/of-many/a-folder/of-many/<i>7.rs";
    assert_eq!(side["files"][7], short);
    assert_eq!(side["lines"][7], serde_json::json!([1, 0.007812, "00000000ffffffff", 7, 8]));
    assert_eq!(side["blocks"][0].as_array().unwrap().len(), 4, "a file that is not there is none");
    assert!(texts(&page, "table tr").iter().any(|row| row.ends_with(&format!("{short}:8"))));
}

#[test]
fn the_page_of_a_program_of_200_mb_stays_below_5_mb() {
    let names: Vec<String> = (0..3_000).map(|index| format!("{index}{}", "x".repeat(80))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let big = || written(side(1 << 40, 50_000, &names));
    let text = heatmap_page(&map(vec![big(), big()]));
    assert!(text.len() < 5_000_000, "{}", text.len());
    assert!(svg(&map(vec![big(), big()])).len() < 500_000);
}

#[test]
fn a_picture_has_both_sides_on_one_scale() {
    let mut sides = vec![side(0, 1, &["a"]), side(0, 1, &["a"])];
    sides[1].lines[0].share = 100.0 * sides[0].lines[0].share;
    let map = map(sides);
    let found = grid(&map, 48, 64);
    assert_eq!(found.unit_bytes, 64);
    assert_eq!(found.sides[1][0].cells[0], Some(1.0));
    // Two powers of ten of five below the top.
    assert!((found.sides[0][0].cells[0].unwrap() - 0.6).abs() < 1e-9);
    let picture = svg(&map);
    let parsed = Html::parse_fragment(&picture);
    let count = |class: &str| parsed.select(&Selector::parse(&format!("rect.{class}")).unwrap()).count();
    // The legend and one cell: neighbouring lines share one rectangle.
    assert_eq!((count("h9"), count("h6"), count("h0")), (2, 3, 1), "{picture}");
    assert!(picture.contains("before: server") && picture.contains("prefers-color-scheme:dark"));
}

#[test]
fn pixels_are_a_png_with_its_words() {
    let bytes = png(&map(vec![side(0, 3, &["a"])])).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let info = reader.info();
    assert_eq!((info.width, info.height), (16 + 64 * 8 + 16, 3 * 8 + 64));
    let words = info.utf8_text[1].get_text().unwrap();
    assert!(words.contains("64 cells of 64 B"), "{words}");
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let at = |x: usize, y: usize| &pixels[3 * (y * 544 + x)..][..3];
    assert_eq!(at(0, 0), [0xfd, 0xfd, 0xfb]);
    assert_eq!(at(17, 17), [0x44, 0x01, 0x54], "the hottest is the darkest");
}

#[test]
fn nothing_that_ran_is_a_page_all_the_same() {
    let mut empty = side(0, 0, &[]);
    empty.curves = Vec::new();
    let map = map(vec![empty]);
    assert!(heatmap_page(&map).contains("Heatmap of the code"));
    assert!(svg(&map).starts_with("<svg") && !png(&map).unwrap().is_empty());
    assert!(documents::heatmap(&Heatmap::default()).html().contains("</html>"));
}

/// A heatmap on a run's page brings its own style. Without it, a browser draws the heatmap black.
#[test]
fn pages_of_the_desk_allow_every_style_that_they_have() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let story = hone_record::Story {
        heatmaps: vec![map(vec![side(0x1000, 2, &["a"])])],
        ..hone_record::Story::default()
    };
    let page =
        hone_report::desk::in_desk(&documents::story(&story).html(), &hone_record::ShelfRecord::default());
    let policy = hone_report::desk::policy();
    let page = Html::parse_document(&page);
    let styles: Vec<String> =
        page.select(&Selector::parse("style").unwrap()).map(|style| style.text().collect()).collect();
    assert!(styles.len() > 1, "the page's and the picture's");
    for style in styles {
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(&style));
        assert!(policy.contains(&format!("'sha256-{hash}'")), "{}", style.get(..80).unwrap_or(&style));
    }
}
