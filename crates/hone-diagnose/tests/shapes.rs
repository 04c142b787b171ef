//! Every recorded form of top-down output: the reader finds the right numbers, or rejects it with the reason. The recordings are also seeds
//! of the fuzzer.

use std::fs;
use std::path::Path;

use hone_diagnose::topdown::{self, Fault, Output, Reading, Unread};
use hone_record::Category::{self, *};
use hone_record::Slots;

fn text(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/topdown").join(name)).unwrap()
}

fn read(text: &str) -> Result<Vec<Reading>, Unread> {
    topdown::read(text).map(|output| output.readings)
}

fn judge(readings: &[Reading]) -> Vec<(Option<String>, Result<Slots, Fault>)> {
    topdown::judge(&Output { readings: readings.to_vec(), ..Output::default() })
}

/// Category, share, and share of the time of each value.
fn values(name: &str) -> Vec<(Category, Option<f64>, Option<f64>)> {
    let readings = read(&text(name)).unwrap();
    readings.iter().map(|reading| (reading.category, reading.percent, reading.running_percent)).collect()
}

fn judged(name: &str) -> Vec<(Option<String>, Result<Slots, Fault>)> {
    judge(&read(&text(name)).unwrap())
}

fn only(name: &str) -> Slots {
    let mut all = judged(name);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).1.unwrap()
}

#[test]
fn text_of_perf_before_and_after_2023() {
    let old = only("perf-old.txt");
    assert_eq!(old.scope.as_deref(), Some("S0-D0-C1"));
    assert_eq!((old.share(Retiring), old.share(FrontendBound)), (Some(30.4), Some(38.0)));
    assert_eq!((old.share(BadSpeculation), old.share(BackendBound)), (Some(13.4), Some(18.2)));
    let new = only("perf-groups.txt");
    assert_eq!((new.share(BackendBound), new.share(FrontendBound)), (Some(68.7), Some(13.0)));
    assert_eq!((new.scope, new.pmu), (None, None));
}

#[test]
fn intervals_are_averaged() {
    let readings = read(&text("perf-interval.txt")).unwrap();
    assert_eq!(readings[0].time_s, Some(1.001_141_351));
    let slots = only("perf-interval.txt");
    assert_eq!((slots.intervals, slots.share(FrontendBound)), (2, Some(46.4)));
    assert_eq!(slots.notes, Vec::<String>::new());
    let drifting =
        text("perf-interval.txt").replace("12.5                 33.9", "19.5                 26.9");
    let slots = judge(&read(&drifting).unwrap()).remove(0).1.unwrap();
    assert_eq!(slots.notes.len(), 2, "{:?}", slots.notes);
    assert!(slots.notes[1].contains("retiring varied by 8.0 points between intervals"), "{:?}", slots.notes);
}

#[test]
fn a_hybrid_machine_has_two_pmus_and_one_of_them_idles() {
    let all = judged("perf-hybrid.txt");
    assert_eq!(all.len(), 2);
    let of = |pmu: &str| all.iter().find(|(name, _)| name.as_deref() == Some(pmu)).unwrap().1.clone();
    assert!(matches!(of("cpu_core"), Err(Fault::NoNumber(_))));
    let atom = of("cpu_atom").unwrap();
    assert_eq!((atom.share(FrontendBound), atom.running_percent), (Some(41.0), Some(63.36)));
    assert!(atom.notes[0].contains("counted for 63 % of the time only"), "{:?}", atom.notes);
    let readings = read(&text("perf-hybrid.json")).unwrap();
    let pmus: Vec<_> = readings.iter().map(|reading| (reading.pmu.as_deref(), reading.percent)).collect();
    assert_eq!(pmus, [(Some("cpu_core"), None), (Some("cpu_atom"), Some(41.016_738))]);
}

#[test]
fn json_of_perf_with_strings_numbers_and_last_commas() {
    let slots = only("perf-groups.json");
    assert_eq!(slots.share(FrontendBound), Some(12.026_074));
    let all = values("perf-threshold.json");
    assert_eq!(
        all,
        [
            (BackendBound, Some(43.226_002), Some(100.0)),
            (FrontendBound, Some(29.212_267), None),
            (FrontendBound, Some(36.729_687), None),
        ]
    );
    assert_eq!(read(&text("perf-threshold.json")).unwrap()[2].time_s, Some(1.001_089_747));
    let missing = judged("perf-threshold.json").remove(0).1.unwrap_err();
    assert!(
        matches!(&missing, Fault::Missing(missing) if missing.of == [BadSpeculation, Retiring]),
        "{missing:?}"
    );
}

#[test]
fn csv_of_perf_where_nothing_is_nan() {
    let readings = read(&text("perf-groups.csv")).unwrap();
    let seen: Vec<_> = readings
        .iter()
        .map(|reading| (reading.pmu.as_deref(), reading.percent, reading.running_percent))
        .collect();
    assert_eq!(
        seen,
        [
            (None, Some(12.5), None),
            (Some("cpu_core"), None, None),
            (Some("cpu_atom"), Some(41.3), Some(63.0))
        ]
    );
    // What `-I`, `--per-thread` and `--per-core` put in front.
    let line = |front: &str| {
        read(&format!("{front},214351198437,,ex_ret_ops,5552708,49.98,81.0,%  retiring\n")).unwrap()
    };
    let reading = &line("     1.001089747,redis-server-7311")[0];
    assert_eq!((reading.time_s, reading.scope.as_deref()), (Some(1.001_089_747), Some("redis-server-7311")));
    assert_eq!((reading.percent, reading.running_percent), (Some(81.0), Some(49.98)));
    assert_eq!(line("S0-D0-C0,2")[0].scope.as_deref(), Some("S0-D0-C0"));
    let french = read(",,,,,12,5,%  tma_frontend_bound\n");
    assert!(matches!(french, Err(Unread::Broken { line: 1, .. })), "{french:?}");
}

#[test]
fn amd_in_english_and_in_french() {
    let slots = only("zen4.txt");
    assert_eq!((slots.share(FrontendBound), slots.share(Retiring)), (Some(2.1), Some(81.0)));
    assert!(slots.notes[0].contains("counted for 50 % of the time only"), "{:?}", slots.notes);
    assert_eq!(
        values("zen4-locale.txt"),
        [
            (FrontendBound, Some(18.6), None),
            (FetchBandwidth, Some(7.1), Some(19.98)),
            (FetchLatency, Some(11.5), Some(19.98)),
        ]
    );
}

#[test]
fn arm_by_perf_and_by_its_own_tool() {
    assert_eq!(
        values("arm.txt"),
        [(BadSpeculation, Some(0.0), Some(7.71)), (FrontendBound, Some(1.8), Some(7.71))]
    );
    let slots = only("arm-tool.txt");
    assert_eq!((slots.share(FrontendBound), slots.share(Retiring)), (Some(36.1), Some(28.42)));
}

#[test]
fn toplev_by_text_and_by_csv() {
    assert_eq!(
        values("toplev.txt"),
        [(FrontendBound, Some(32.9), Some(33.3)), (BackendBound, Some(53.8), Some(33.3))]
    );
    let all = judged("toplev.csv");
    assert_eq!(all[0].0.as_deref(), Some("C0"));
    assert_eq!(all[0].1, Err(Fault::Outside(BadSpeculation, 13_273.4)));
}

#[test]
fn a_perf_without_counters_is_recognised_and_never_believed() {
    let none = [
        "none-unsupported.txt",
        "none-default-events.txt",
        "none.json",
        "none.csv",
        "none-metric-only.json",
        "none-metric.txt",
    ];
    for name in none {
        let refused = read(&text(name)).unwrap_err();
        assert!(matches!(refused, Unread::NoCounters { .. }), "{name}: {refused:?}");
    }
    let refused = read(&text("none-metric.txt").replace("<not supported>", "1,234")).unwrap_err().to_string();
    assert!(
        refused
            .contains("perf knows no top-down metric for this CPU: Cannot find metric or group `PipelineL1'")
    );
    assert_eq!(read("hello\n"), Err(Unread::Nothing));
    assert_eq!(read(""), Err(Unread::Nothing));
}

/// Both kinds of cores by `-M`: the PMU stands in the events.
#[test]
fn events_tell_the_pmu_of_a_hybrid_machine() {
    let line = |pmu: &str, event: &str, share: f64, name: &str| match event {
        "" => format!("                                        #     {share:.1} %  {name}\n"),
        _ => format!("        12,345      {pmu}/{event}/         #     {share:.1} %  {name}\n"),
    };
    let of = |pmu: &str, shares: [f64; 4]| {
        line(pmu, "TOPDOWN.SLOTS", shares[0], "tma_frontend_bound")
            + &line(pmu, "", shares[1], "tma_bad_speculation")
            + &line(pmu, "topdown-retiring", shares[2], "tma_retiring")
            + &line(pmu, "", shares[3], "tma_backend_bound")
    };
    let text = of("cpu_core", [10.0, 20.0, 30.0, 40.0]) + &of("cpu_atom", [40.0, 10.0, 20.0, 30.0]);
    let all = judge(&read(&text).unwrap());
    let shares: Vec<_> = all
        .iter()
        .map(|(name, slots)| (name.clone().unwrap(), slots.as_ref().unwrap().share(FrontendBound)))
        .collect();
    assert_eq!(shares, [("cpu_atom".to_owned(), Some(40.0)), ("cpu_core".to_owned(), Some(10.0))]);
    assert!(all.iter().all(|(_, slots)| slots.as_ref().unwrap().notes.is_empty()), "no phases: {all:?}");
    let json = r#"{"counter-value" : "1", "event" : "cpu_atom/TOPDOWN.SLOTS/", "metric-value" : "7.5", "metric-unit" : "%  tma_retiring"}"#;
    assert_eq!(read(json).unwrap()[0].pmu.as_deref(), Some("cpu_atom"));
    assert_eq!(
        read("1,,cpu_core/slots/,55,100.00,7.5,%  tma_retiring\n").unwrap()[0].pmu.as_deref(),
        Some("cpu_core")
    );
    // The one kind of other machines is in some events, and not in others.
    assert_eq!(read("1,,cpu/slots/,55,100.00,7.5,%  retiring\n").unwrap()[0].pmu, None);
}

#[test]
fn csv_with_a_head_with_names_alone_and_with_commas_in_events() {
    let file = "# started on Sat Nov 21 12:00:00 2026\n\n;;;;;12.5;%  tma_frontend_bound\n";
    assert_eq!(read(file).unwrap()[0].percent, Some(12.5));
    let named = "time;%  tma_retiring;%  tma_backend_bound_aux;%  tma_frontend_bound;\n     1.001141351;11.5;3.0;46.9;\n";
    let seen = read(named).unwrap();
    let seen: Vec<_> = seen.iter().map(|one| (one.category, one.percent, one.time_s)).collect();
    assert_eq!(
        seen,
        [(Retiring, Some(11.5), Some(1.001_141_351)), (FrontendBound, Some(46.9), Some(1.001_141_351))]
    );
    let event = "563718873,,cpu/de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6,edge/,5552708,19.98,11.5,%  frontend_bound_latency\n";
    let one = &read(event).unwrap()[0];
    assert_eq!((one.percent, one.running_percent, one.scope.as_deref()), (Some(11.5), Some(19.98), None));
    let repeated = "563718873,,ex_ret_ops,1.20%,5552708,49.98,81.0,%  retiring\n";
    assert_eq!(read(repeated).unwrap()[0].running_percent, Some(49.98));
}

#[test]
fn threads_have_any_names_in_text() {
    for name in
        ["redis-server-7311", "C2 CompilerThre-123", "GC Thread#0-4711", "N1", "(sd-pam)-12", "Pipeline-7"]
    {
        let text = format!("     1.001089747 {name}   123,456 ex_ret_ops   #   81.0 %  retiring  (49.98%)\n");
        let one = &read(&text).unwrap()[0];
        assert_eq!(
            (one.scope.as_deref(), one.percent, one.time_s),
            (Some(name), Some(81.0), Some(1.001_089_747))
        );
    }
    // A cell that could not be had must not move the others.
    let blank = text("perf-interval.txt")
        .replace("2.003000000                 12.5", "2.003000000                     ");
    let beside: Vec<(Category, Option<f64>)> =
        read(&blank).unwrap()[4..].iter().map(|reading| (reading.category, reading.percent)).collect();
    let whole = &values("perf-interval.txt")[5..];
    assert_eq!(beside, whole.iter().map(|(category, percent, _)| (*category, *percent)).collect::<Vec<_>>());
    let arm =
        "#  time  percent of slots  retiring percent of slots  frontend_bound\n  1.000000001   20.5   30.5\n";
    assert_eq!(read(arm).unwrap()[1].percent, Some(30.5));
}

#[test]
fn toplev_below_thresholds_with_times_and_sums() {
    let head = "Timestamp,CPUs,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle\n";
    let rows =
        [("Frontend_Bound", 20.0), ("Bad_Speculation", 10.0), ("Backend_Bound", 40.0), ("Retiring", 30.0)];
    let of = |time: &str| -> String {
        rows.iter()
            .map(|(node, share)| format!("{time},C0,{node},{share},% Slots <,,,0.0,3.99,,Y\n"))
            .collect()
    };
    let all = judge(&read(&format!("{head}{}{}{}", of("0.5"), of("1.0"), of("SUMMARY"))).unwrap());
    assert_eq!(all[0].1.as_ref().unwrap().intervals, 2);
    let text: String = [("FE", rows[0]), ("BAD", rows[1]), ("BE", rows[2]), ("RET", rows[3])]
        .iter()
        .map(|(area, (node, share))| format!("  1.5 C1  {area}   {node}    % Slots    {share} <\n"))
        .collect();
    let all = judge(&read(&text).unwrap());
    assert_eq!(all[0].0.as_deref(), Some("C1"));
    assert_eq!(all[0].1.as_ref().unwrap().share(BackendBound), Some(40.0));
    let usual = &judged("toplev.txt")[0].1;
    assert!(
        usual
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("its output with -v, which shows values below its thresholds")
    );
}

#[test]
fn why_there_is_nothing() {
    let said = |text: &str| read(text).unwrap_err().to_string();
    assert!(
        said("top down event configuration requires system-wide mode (-a)")
            .contains("slots of whole cores only")
    );
    assert!(
        said("Error:\nNo permission to enable cycles event.").contains("perf has no permission to count")
    );
    assert!(said("   <not counted>      cycles").contains("the program was idle while perf counted"));
    assert!(said("Cannot find metric or group `TopdownL9'").contains("no top-down metric"));
}

fn level_1(shares: [f64; 4], running_percent: f64) -> Vec<Reading> {
    let reading = |(category, percent)| Reading {
        time_s: None,
        scope: None,
        pmu: None,
        category,
        percent: Some(percent),
        running_percent: Some(running_percent),
    };
    Category::LEVEL_1.into_iter().zip(shares).map(reading).collect()
}

#[test]
fn sums_beside_a_hundred_are_refused_and_smt_counts() {
    assert!(judge(&level_1([40.0, 10.0, 30.0, 20.3], 100.0))[0].1.is_ok());
    assert_eq!(judge(&level_1([40.0, 10.0, 30.0, 24.0], 100.0))[0].1, Err(Fault::Sum(104.0)));
    let mut amd = level_1([40.0, 10.0, 30.0, 5.0], 100.0);
    assert_eq!(judge(&amd)[0].1, Err(Fault::Sum(85.0)));
    amd.push(Reading { category: SmtContention, percent: Some(15.0), ..amd[0].clone() });
    assert!(judge(&amd)[0].1.is_ok());
}

#[test]
fn level_2_goes_where_counters_ran_for_less_than_a_third() {
    for (running, kept) in [(95.0, true), (31.0, true), (29.0, false)] {
        let mut readings = level_1([40.0, 10.0, 30.0, 20.0], running);
        readings.push(Reading { category: FetchLatency, percent: Some(25.0), ..readings[0].clone() });
        let slots = judge(&readings).remove(0).1.unwrap();
        assert_eq!(slots.share(FetchLatency).is_some(), kept, "{running}");
        assert_eq!(slots.notes.is_empty(), running > 90.0, "{:?}", slots.notes);
    }
}

#[test]
fn intervals_are_judged_one_by_one() {
    let at = |time_s, shares| {
        level_1(shares, 100.0).into_iter().map(move |reading| Reading { time_s: Some(time_s), ..reading })
    };
    // Their means would pass.
    let readings: Vec<_> =
        at(1.0, [30.0, 10.0, 20.0, 20.0]).chain(at(2.0, [50.0, 30.0, 20.0, 20.0])).collect();
    assert_eq!(judge(&readings)[0].1, Err(Fault::Sum(80.0)));
    let mut readings: Vec<_> = at(1.0, [40.0, 10.0, 30.0, 20.0]).chain(at(2.0, [0.0; 4])).collect();
    readings[4].percent = None;
    let slots = judge(&readings).remove(0).1.unwrap();
    assert_eq!((slots.intervals, slots.share(FrontendBound)), (1, Some(40.0)));
    assert!(slots.notes[0].starts_with("1 of 2 intervals are left out"), "{:?}", slots.notes);
    let twice = [level_1([40.0, 10.0, 30.0, 20.0], 100.0), level_1([40.0, 10.0, 30.0, 20.0], 100.0)].concat();
    assert_eq!(judge(&twice)[0].1, Err(Fault::Twice(FrontendBound)));
    let mut parts = level_1([40.0, 10.0, 30.0, 20.0], 100.0);
    parts.push(Reading { category: FetchBandwidth, percent: Some(-0.1), ..parts[0].clone() });
    let slots = judge(&parts).remove(0).1.unwrap();
    assert_eq!(slots.share(FetchBandwidth), None);
    assert!(slots.notes[0].contains("fetch bandwidth is -0.1 %"), "{:?}", slots.notes);
}

/// Shares of level 1 of a part, or why there are none.
type Level1 = Result<[f64; 4], Fault>;

/// Level 1 of each part, in the order of [`Category::LEVEL_1`]: what stands above a value names it.
fn level_1_of(text: &str) -> Vec<(Option<String>, Level1)> {
    let shares = |slots: Slots| Category::LEVEL_1.map(|category| slots.share(category).unwrap());
    judge(&read(text).unwrap()).into_iter().map(|(name, judged)| (name, judged.map(shares))).collect()
}

/// A line for each share.
fn lines_of(shares: [(&str, f64); 4], line: impl Fn(&str, f64) -> String) -> String {
    shares.iter().map(|(name, share)| line(name, *share)).collect()
}

/// Front end, bad speculation, back end, retiring.
fn in_order(values: [f64; 4]) -> [f64; 4] {
    let named = [FrontendBound, BadSpeculation, BackendBound, Retiring];
    Category::LEVEL_1.map(|wanted| values[named.iter().position(|one| *one == wanted).unwrap()])
}

#[test]
fn a_line_of_names_and_one_of_values_below_it() {
    let head = " Performance counter stats for 'system wide':\n\n";
    let end = "\n       0.818694856 seconds time elapsed\n";
    let names = " %  tma_bad_speculation %  tma_backend_bound      %  tma_retiring %  tma_frontend_bound \n";
    let row =
        "                    3.8                 48.1                    24.4                   23.7 \n";
    let all = level_1_of(&format!("{head}{names}{row}{end}"));
    assert_eq!(all, [(None, Ok(in_order([23.7, 3.8, 48.1, 24.4])))]);
    // As a page prints it, with one blank between all of it.
    let page =
        "% tma_frontend_bound % tma_bad_speculation % tma_retiring % tma_backend_bound\n51.0 10.3 30.9 7.8\n";
    assert_eq!(level_1_of(page), [(None, Ok(in_order([51.0, 10.3, 7.8, 30.9])))]);
    let table =
        "Build Frontend bound Bad speculation Retiring Backend bound\nBaseline 51.0% 10.3% 30.9% 7.8%\n";
    assert_eq!(level_1_of(table), [(Some("Baseline".to_owned()), Ok(in_order([51.0, 10.3, 7.8, 30.9])))]);
}

#[test]
fn a_table_by_core_with_and_without_intervals() {
    let names = "                   %  tma_bad_speculation %  tma_backend_bound      %  tma_retiring %  tma_frontend_bound \n";
    let rows = "S0-D0-C0              2                     6.1                 41.1                    10.5                   42.3 \n\
                S0-D0-C1              2                     6.5                 29.0                    17.6                   46.9 \n";
    let all = level_1_of(&format!("{names}{rows}"));
    assert_eq!(all.len(), 2);
    assert_eq!(all[1], (Some("S0-D0-C1".to_owned()), Ok(in_order([46.9, 6.5, 29.0, 17.6]))));
    let timed = "#           time core               cpus %  tma_retiring %  tma_backend_bound %  tma_frontend_bound %  tma_bad_speculation \n\
                 \u{20}    1.001141351 S0-D0-C0              2            11.5                 34.9                 46.9                  6.7 \n\
                 \u{20}    1.001141351 S0-D0-C1              2            13.4                 28.1                 50.4                  8.1 \n";
    let all = level_1_of(timed);
    assert_eq!(all[0], (Some("S0-D0-C0".to_owned()), Ok(in_order([46.9, 6.7, 34.9, 11.5]))));
    assert_eq!(all.len(), 2);
    // As perf 4.8 to 5.x printed it.
    let old = "                                    retiring      bad speculation       frontend bound        backend bound\n\
               S0-C0           2                38.1%                 5.2%                33.3%                23.4%\n\
               S0-C1           2                25.0%                10.0%                40.0%                25.0%\n";
    assert_eq!(level_1_of(old)[1], (Some("S0-C1".to_owned()), Ok(in_order([40.0, 10.0, 25.0, 25.0]))));
}

/// perf names the second PMU's values by nothing.
#[test]
fn values_without_a_pmu_in_front_are_of_the_same_run() {
    let text = "             TopdownL1 (cpu_core)                 #     32.5 %  tma_backend_bound\n\
                                                  \u{20}#     10.0 %  tma_bad_speculation\n\
                                                  \u{20}#     40.6 %  tma_frontend_bound\n\
                                                  \u{20}#     16.9 %  tma_retiring             (73.98%)\n\
                                                  \u{20}#     40.1 %  tma_bad_speculation\n\
                                                  \u{20}#     14.5 %  tma_retiring             (26.02%)\n\
                                                  \u{20}#      0.0 %  tma_backend_bound\n\
                                                  \u{20}#     45.3 %  tma_frontend_bound       (26.02%)\n";
    let expected = [Ok(in_order([40.6, 10.0, 32.5, 16.9])), Ok(in_order([45.3, 40.1, 0.0, 14.5]))];
    assert_eq!(hybrid(text), expected);
    // An event between them has a PMU, and it is not theirs.
    let event = "       785,144,850      cpu_core/cpu-cycles/             #      0.0 GHz  cycles_frequency\n";
    let lines: Vec<&str> = text.lines().collect();
    let between = format!("{}\n{event}{}\n", lines[..4].join("\n"), lines[4..].join("\n"));
    assert_eq!(hybrid(&between), expected);
}

/// The parts of a run on both kinds of cores, the second of which perf does not name.
fn hybrid(text: &str) -> [Level1; 2] {
    let all = level_1_of(text);
    assert_eq!(all.len(), 2, "{all:?}");
    let of = |name: &str| all.iter().find(|(part, _)| part.as_deref() == Some(name)).unwrap().1.clone();
    [of("cpu_core"), of("no PMU named, probably cpu_atom")]
}

#[test]
fn csv_and_json_do_not_name_the_second_pmu_either() {
    let expected = [Ok(in_order([35.0, 5.0, 40.0, 20.0])), Ok(in_order([40.0, 30.0, 10.0, 20.0]))];
    let [csv, json] = ["csv", "json"].map(|form| text(&format!("perf-hybrid-unnamed.{form}")));
    for form in [text("perf-hybrid-unnamed.txt"), csv.clone(), csv.replace(',', ";"), json.clone()] {
        assert_eq!(hybrid(&form), expected, "{form}");
    }
    // If the second set has no times, its repeated categories identify it.
    assert_eq!(hybrid(&without_times(&csv)), expected);
    let without = json.replace("\"event-runtime\" : 704233, \"pcnt-running\" : 30.00, ", "");
    assert_eq!(hybrid(&without), expected, "{without}");
    // A group in two parts, and an event between them and the second set, which is of the first PMU.
    let in_parts = |text: &str, head: &str, event: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let parts = [&[head][..], &lines[1..3], &[head], &lines[3..5], &[event], &lines[5..]].concat();
        format!("{}\n", parts.join("\n"))
    };
    let event = "785144850,,cpu_core/cpu-cycles/,1643210,100.00,0.8,GHz  cycles_frequency";
    for text in [&csv, &without_times(&csv)] {
        assert_eq!(hybrid(&in_parts(text, text.lines().next().unwrap(), event)), expected, "{text}");
    }
    let event = r#"{"counter-value" : "785144850.000000", "unit" : "", "event" : "cpu_core/cpu-cycles/", "event-runtime" : 1643210, "pcnt-running" : 100.00, "metric-value" : "0.8", "metric-unit" : "GHz  cycles_frequency"}"#;
    for text in [&json, &without] {
        assert_eq!(hybrid(&in_parts(text, text.lines().next().unwrap(), event)), expected, "{text}");
    }
}

/// The CSV whose second set has no times.
fn without_times(csv: &str) -> String {
    csv.replace(",704233,30.00,,,", ",,,,,")
}

#[test]
fn by_core_and_by_interval_each_place_has_its_two_pmus() {
    let csv = text("perf-hybrid-unnamed.csv");
    let placed = |front: &str| csv.lines().map(|line| format!("{front}{line}\n")).collect::<String>();
    let all = level_1_of(&(placed("S0-D0-C0,2,") + &placed("S0-D0-C1,2,")));
    let names: Vec<_> =
        all.iter().map(|(name, level_1)| (name.as_deref().unwrap(), level_1.is_ok())).collect();
    assert_eq!(
        names,
        [
            ("S0-D0-C0 (cpu_core)", true),
            ("S0-D0-C0 (no PMU named, probably cpu_atom)", true),
            ("S0-D0-C1 (cpu_core)", true),
            ("S0-D0-C1 (no PMU named, probably cpu_atom)", true)
        ]
    );
    let timed = placed("     1.001089747,") + &placed("     2.001089747,");
    let all = judge(&read(&timed).unwrap());
    assert!(all.iter().all(|(_, slots)| slots.as_ref().is_ok_and(|slots| slots.intervals == 2)), "{all:?}");
}

/// A group names its PMU: a second one is no set without a name, but another run.
#[test]
fn two_runs_in_one_csv_or_json_are_refused() {
    for form in ["csv", "json"] {
        let run = text(&format!("perf-hybrid-unnamed.{form}"));
        let first: String = run.lines().take(5).map(|line| format!("{line}\n")).collect();
        let all = level_1_of(&format!("{first}{first}"));
        assert_eq!(all, [(Some("cpu_core".to_owned()), Err(Fault::Twice(BackendBound)))], "{form}");
    }
}

#[test]
fn columns_that_repeat_are_of_the_second_pmu() {
    let names = ["tma_retiring", "tma_backend_bound", "tma_frontend_bound", "tma_bad_speculation"];
    let (core, atom) = ([20.0, 40.0, 35.0, 5.0], [20.0, 10.0, 40.0, 30.0]);
    let shares = core.into_iter().chain(atom);
    let csv = format!(
        "{}\n{}\n",
        names.iter().chain(&names).map(|name| format!("%  {name},")).collect::<String>(),
        shares.clone().map(|share| format!("{share:.1},")).collect::<String>()
    );
    let pairs = names.iter().chain(&names).zip(shares);
    let pairs: Vec<String> = pairs.map(|(name, share)| format!("\"%  {name}\" : \"{share:.1}\"")).collect();
    let json = format!("{{{}}}\n", pairs.join(", "));
    for text in [csv, json] {
        let all = level_1_of(&text);
        let expected = [
            (None, Ok(in_order([35.0, 5.0, 40.0, 20.0]))),
            (Some("no PMU named, probably cpu_atom".to_owned()), Ok(in_order([40.0, 30.0, 10.0, 20.0]))),
        ];
        assert_eq!(all, expected, "{text}");
    }
}

/// Two files are compared part by part, and each part by its name.
#[test]
fn text_csv_and_json_name_the_same_parts() {
    let names = |text: &str| level_1_of(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let shares =
        [("frontend_bound", 35.0), ("bad_speculation", 5.0), ("backend_bound", 40.0), ("retiring", 20.0)];
    for (scope, csv, json) in [
        ("", "", ""),
        ("CPU0", "CPU0,", "\"cpu\" : \"0\", "),
        ("S0-D0-C0           2", "S0-D0-C0,2,", "\"core\" : \"S0-D0-C0\", \"counters\" : 2, "),
        ("redis-server-7311", "redis-server-7311,", "\"thread\" : \"redis-server-7311\", "),
    ] {
        let text = names(&lines_of(shares, |name, share| {
            format!("{scope}   123,456      slots      #     {share:.1} %  tma_{name}\n")
        }));
        let csv = names(&lines_of(shares, |name, share| {
            format!("{csv}123456,,slots,55,100.00,{share:.1},%  tma_{name}\n")
        }));
        let json = names(&lines_of(shares, |name, share| {
            format!(
                "{{{json}\"counter-value\" : \"123456.0\", \"event\" : \"slots\", \"metric-value\" : \"{share:.1}\", \"metric-unit\" : \"%  tma_{name}\"}}\n"
            )
        }));
        assert_eq!(text.len(), 1, "{text:?}");
        assert_eq!((&csv, &json), (&text, &text), "{scope}");
    }
    let hybrid = ["txt", "csv", "json"].map(|form| names(&text(&format!("perf-hybrid-unnamed.{form}"))));
    assert!(hybrid[0] == hybrid[1] && hybrid[1] == hybrid[2], "{hybrid:?}");
}

#[test]
fn an_event_that_could_not_be_opened_is_named_with_what_was_told() {
    let text = "         5,218,927      CPU_CLK_UNHALTED.REF_XCLK:u      #    4.269 M/sec\n\
                                                  \u{20}#     17.3 %  tma_frontend_bound\n\
                                                  \u{20}#     56.4 %  tma_retiring\n\
                                                  \u{20}#      nan %  tma_backend_bound\n\
                                                  \u{20}#      nan %  tma_bad_speculation      (60.01%)\n\
       536,580,469      IDQ_UOPS_NOT_DELIVERED.CORE:u    #  438.965 M/sec                       (60.33%)\n\
   \u{20}  <not supported>      INT_MISC.RECOVERY_CYCLES_ANY:u\n";
    let fault = topdown::judge(&topdown::read(text).unwrap()).remove(0).1.unwrap_err().to_string();
    for words in [
        "could not open INT_MISC.RECOVERY_CYCLES_ANY:u",
        "frontend bound 17.3 %",
        "perf_event_paranoid at 0",
        "backend bound",
    ] {
        assert!(fault.contains(words), "{fault}");
    }
    let ran = text.replace("   <not supported>      INT_MISC.RECOVERY_CYCLES_ANY:u\n", "");
    let fault = topdown::judge(&topdown::read(&ran).unwrap()).remove(0).1.unwrap_err().to_string();
    assert!(fault.contains("its counters did not run there"), "{fault}");
}

#[test]
fn two_runs_in_one_text_stay_apart() {
    let run = |of: &str, values: &str| {
        format!(
            "Performance counter stats for thread id '{of}':\n% tma_frontend_bound % tma_bad_speculation % tma_retiring % tma_backend_bound\n\
             {values}\nwhich is a lot.\n"
        )
    };
    let all = level_1_of(&format!(
        "It says:\n{}{}",
        run("7", "51.0 10.3 30.9 7.8"),
        run("8", "37.9 9.5 36.6 16.0")
    ));
    let expected = [
        ("run 1 (thread id '7')", [51.0, 10.3, 7.8, 30.9]),
        ("run 2 (thread id '8')", [37.9, 9.5, 16.0, 36.6]),
    ];
    assert_eq!(all, expected.map(|(name, values)| (Some(name.to_owned()), Ok(in_order(values)))));
}

/// A line without matching values is reported with its number, and never ignored.
#[test]
fn names_without_values_and_values_without_names_are_told() {
    let names = " %  tma_bad_speculation %  tma_backend_bound      %  tma_retiring %  tma_frontend_bound \n";
    let error = topdown::read(&format!("\n\n{names}no numbers\n")).unwrap_err();
    assert!(matches!(error, Unread::NoValues { line: 3, .. }), "{error:?}");
    let told = error.to_string();
    assert!(
        told.contains("names of top-down metrics, but no values") && told.contains("perf stat -j"),
        "{told}"
    );
    let row =
        "                    3.8                 48.1                    24.4                   23.7 \n";
    let output = topdown::read(&format!("{names}{row}1.0 2.0\n")).unwrap();
    assert_eq!(output.readings.len(), 4);
    assert!(
        output.notes[0].contains("line 3 was not understood") && output.notes[0].contains("1.0 2.0"),
        "{:?}",
        output.notes
    );
}

#[test]
fn a_share_that_can_not_be_is_named() {
    let page = "% tma_frontend_bound % tma_bad_speculation % tma_retiring % tma_backend_bound\n151.0 10.3 30.9 7.8\n";
    assert_eq!(level_1_of(page), [(None, Err(Fault::Outside(FrontendBound, 151.0)))]);
    let shares =
        [("frontend_bound", 151.0), ("bad_speculation", 10.3), ("retiring", 30.9), ("backend_bound", 7.8)];
    for text in [
        lines_of(shares, |name, share| format!(",,,,,{share:.1},%  tma_{name}\n")),
        lines_of(shares, |name, share| format!(";;;;;{share:.1};%  tma_{name}\n")),
        lines_of(shares, |name, share| {
            format!("{{\"metric-value\" : \"{share:.6}\", \"metric-unit\" : \"%  tma_{name}\"}}\n")
        }),
        lines_of(shares, |name, share| {
            format!("{{\"metric-value\" : {share:.6}, \"metric-unit\" : \"%  tma_{name}\"}}\n")
        }),
    ] {
        assert_eq!(level_1_of(&text), [(None, Err(Fault::Outside(FrontendBound, 151.0)))], "{text}");
    }
}

/// toplev moved the unit, and dropped a colon and an error.
#[test]
fn toplev_of_all_ages() {
    let nodes = [
        ("FE", "Frontend_Bound", "28.7"),
        ("BAD", "Bad_Speculation", "5.1"),
        ("BE", "Backend_Bound", "46.0"),
        ("RET", "Retiring", "20.2"),
    ];
    let ages: [fn(&str, &str, &str) -> String; 5] = [
        |area, node, value| {
            format!(
                "{area}      {node}:                                 {value}%\n\tThis category reflects slots.\n"
            )
        },
        |area, node, value| format!("C0    {area}      {node}:                   {value} %\n"),
        |area, node, value| {
            format!("{area}             {node}:            {value} +-     0.00 % Slots      \n")
        },
        |area, node, value| format!("S0-C0    {area}             {node}:    % Slots       {value} <\n"),
        |area, node, value| {
            format!("core_bottom {area}             {node}   % Slots                   {value}   <==\n")
        },
    ];
    for age in ages {
        let text: String = nodes.iter().map(|(area, node, value)| age(area, node, value)).collect();
        let all = level_1_of(&text);
        assert_eq!(all[0].1, Ok(in_order([28.7, 5.1, 46.0, 20.2])), "{text}");
        // Shares of clocks are none of slots.
        let clocks = format!("{text}FE             Frontend_Bound.Fetch_Latency:   % Clocks     99.0\n");
        assert!(read(&clocks).unwrap().iter().all(|reading| reading.category != FetchLatency), "{text}");
    }
}

/// perf 5.12 to 6.2, without being asked, on Ice Lake and newer.
const DEFAULT_EVENTS: &str = "           104,220      branch-misses             #    4.12% of all branches
         4,000,000      slots                     #    7.417 G/sec
           820,000      topdown-retiring          #     20.5% retiring
           500,000      topdown-bad-spec          #     12.5% bad speculation
         1,320,000      topdown-fe-bound          #     33.0% frontend bound
         1,360,000      topdown-be-bound          #     34.0% backend bound
";

#[test]
fn the_default_events_of_perf_5_12_to_6_2() {
    let expected = Ok(in_order([33.0, 12.5, 34.0, 20.5]));
    assert_eq!(level_1_of(DEFAULT_EVENTS), [(None, expected.clone())]);
    let of_user = DEFAULT_EVENTS.replace("bound ", "bound:u ").replace("frontend b", "Frontend B");
    let repeated = DEFAULT_EVENTS.replace('\n', "          ( +-  0.27% )\n");
    let comma = DEFAULT_EVENTS.replace(',', ".").replace(".5%", ",5%").replace(".0%", ",0%");
    let quoted = DEFAULT_EVENTS.replace("  ", " ").lines().map(|line| format!("> > {line}\n")).collect();
    for text in [of_user, repeated, comma, quoted] {
        assert_eq!(level_1_of(&text), [(None, expected.clone())], "{text}");
    }
    let hybrid = DEFAULT_EVENTS
        .replace("topdown-", "cpu_core/topdown-")
        .replace("bound  ", "bound/ ")
        .replace(" slots ", " cpu_core/slots/ ");
    assert_eq!(level_1_of(&hybrid), [(Some("cpu_core".to_owned()), expected)]);
}

#[test]
fn several_metrics_on_one_line() {
    let text = format!(
        "{DEFAULT_EVENTS}           100,000      topdown-br-mispredict     #     10.2% branch mispredict         #      2.3% machine clears\n\
                     900,000      topdown-fetch-lat         #     22.5% fetch latency  # 10.5% fetch bandwidth  (49.98%)\n"
    );
    let slots = judge(&read(&text).unwrap()).remove(0).1.unwrap();
    let shares = [BranchMispredicts, MachineClears, FetchLatency, FetchBandwidth].map(|of| slots.share(of));
    assert_eq!(shares, [10.2, 2.3, 22.5, 10.5].map(Some));
    assert_eq!(slots.running_percent, Some(49.98));
}

/// perf colours what is above a threshold, and `script` or a copied terminal keep that.
#[test]
fn colours_are_no_part_of_a_value() {
    let red = |text: &str, value: &str| text.replace(value, &format!("\u{1b}[31m{value}\u{1b}[m"));
    for name in ["perf-groups.txt", "perf-names-above.txt", "perf-old.txt", "toplev.csv", "perf-groups.json"]
    {
        let plain = text(name);
        let coloured = plain.lines().map(|line| red(line, "3") + "\n").collect::<String>();
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(topdown::read(&coloured), topdown::read(&plain), "{name}");
    }
    let misses = "2,000 instructions\n \u{1b}[31m50\u{1b}[m L1-icache-load-misses\n";
    assert!(topdown::counted::read(misses).is_some());
}

/// Names in the order of [`in_order`].
const NAMES: [&str; 4] = ["Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring"];

/// A line for each of [`NAMES`].
fn lines(values: [f64; 4], line: impl Fn(&str, f64) -> String) -> String {
    NAMES.into_iter().zip(values).map(|(name, value)| line(name, value)).collect()
}

#[test]
fn pages_without_events_and_tools_without_areas() {
    let values = [16.5, 0.6, 54.9, 28.0];
    let bare = lines(values, |name, value| format!("{value:4.1} %  {}   (20.08%)\n", name.to_lowercase()));
    let hashes = lines(values, |name, value| format!("# {value:.1} % tma_{}\n", name.to_lowercase()));
    let slide = format!(
        "<not counted> cpu_core/cycles/\n(0.00%)\n8,427 branch-misses # 4.61% of all branches\n{hashes}"
    );
    let dots = lines(values, |name, value| format!("{:.<17} {value:>5.2}% slots\n", name.replace('_', " ")));
    let toplev =
        lines(values, |name, value| format!("S0-C0  {:30} {value:.2} % Slots\n", format!("{name}:")));
    let expected = Ok(in_order(values));
    for text in [bare, hashes, slide, dots] {
        assert_eq!(level_1_of(&text), [(None, expected.clone())], "{text}");
    }
    assert_eq!(level_1_of(&toplev), [(Some("S0-C0".to_owned()), expected)], "{toplev}");
    let parts = format!("{toplev}S0-C0  Frontend_Bound.FE_Latency:     12.1 % Slots\n");
    assert_eq!(judge(&read(&parts).unwrap()).remove(0).1.unwrap().share(FetchLatency), Some(12.1));
    // A sentence is no line of a table.
    assert!(read("46.0 % backend bound is what the program lost\n").is_err());
}

#[test]
fn metrics_without_units_are_fractions() {
    let values = [0.35, 0.06, 0.5, 0.09];
    let text = lines(values, |name, value| {
        format!(
            "       959,620,872      uops_issued.any           #     {value:.2} {name}          (50.03%)\n"
        )
    });
    let csv = lines(values, |name, value| format!("959620872,,uops_issued.any,1,50.03,{value:.2},{name}\n"));
    for text in [text, csv] {
        let slots = judge(&read(&text).unwrap()).remove(0).1.unwrap();
        let shares = NAMES.map(category_of).map(|category| slots.share(category).unwrap().round());
        assert_eq!(shares, [35.0, 6.0, 50.0, 9.0], "{text}");
        assert!(slots.notes[0].contains("50 % of the time"), "{:?}", slots.notes);
    }
    // Fractions whose sum is rounded are no reason for a share above all.
    let wide = lines([1.02, 0.0, 0.0, 0.0], |name, value| format!(",,,,,{value:.2},{name}\n"));
    assert!(matches!(level_1_of(&wide)[0].1, Err(Fault::Outside(FrontendBound, _))));
}

fn category_of(name: &str) -> Category {
    [FrontendBound, BadSpeculation, BackendBound, Retiring]
        [NAMES.iter().position(|one| *one == name).unwrap()]
}

#[test]
fn level_2_alone_makes_level_1_of_whole_pairs() {
    let names = "  %  tma_fetch_latency %  tma_fetch_bandwidth %  tma_branch_mispredicts %  tma_machine_clears %  tma_memory_bound \
                 %  tma_core_bound %  tma_light_operations %  tma_heavy_operations\n";
    let text = format!("{names} 30.5 9.5 8.0 0.5 20.0 6.5 21.0 4.0\n");
    let slots = judge(&read(&text).unwrap()).remove(0).1.unwrap();
    let shares =
        [FrontendBound, BadSpeculation, BackendBound, Retiring, FetchLatency].map(|of| slots.share(of));
    assert_eq!(shares, [40.0, 8.5, 26.5, 25.0, 30.5].map(Some));
    assert!(slots.notes[0].contains("computed from the parts of level 2"), "{:?}", slots.notes);
    // Half of a pair is nothing.
    let half = names.replace("%  tma_core_bound ", "");
    let fault = level_1_of(&format!("{half} 30.5 9.5 8.0 0.5 20.0 21.0 4.0\n")).remove(0).1.unwrap_err();
    assert!(matches!(&fault, Fault::Missing(missing) if missing.of == [BackendBound]), "{fault}");
}

#[test]
fn what_toplev_left_out_is_named_beside_what_it_printed() {
    let text = "C0    FE             Frontend_Bound:            38.16 +-     0.00 % Slots\n\
                C0    BAD            Bad_Speculation:           24.42 +-     0.00 % Slots\n";
    let told = level_1_of(text).remove(0).1.unwrap_err().to_string();
    for words in [
        "frontend bound 38.2 %, bad speculation 24.4 %",
        "backend bound, retiring were not printed",
        "next: ",
        "-v",
    ] {
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn brackets_of_toplev_are_for_how_much_of_the_time() {
    let text = |share: &str| {
        lines([20.0, 10.0, 30.0, 40.0], |name, value| {
            format!("BE   {name}    % Slots      {value:.1}    [{share}%]<==\n")
        }) + "FE   Frontend_Bound.Fetch_Latency   % Slots    15.0  < [99.0%]\n"
    };
    let slots = |share| judge(&read(&text(share)).unwrap()).remove(0).1.unwrap();
    assert_eq!((slots("33.0").running_percent, slots("33.0").share(FetchLatency)), (Some(33.0), Some(15.0)));
    assert_eq!((slots(" 1.8").running_percent, slots(" 1.8").share(FetchLatency)), (Some(1.8), None));
    assert!(slots(" 1.8").notes[0].contains("counted for 1.8 % of the time only"));
}

#[test]
fn cores_on_which_next_to_nothing_ran_have_no_verdict_and_come_last() {
    let of = |pmu: &str, running: &str| {
        format!(
            "             TopdownL1 ({pmu})     #     10.0 %  tma_bad_speculation    \n\
                 #     20.0 %  tma_retiring             ({running}%)\n\
                 #     30.0 %  tma_backend_bound\n\
                 #     40.0 %  tma_frontend_bound       ({running}%)\n"
        )
    };
    let all = level_1_of(&(of("cpu_atom", "0.37") + &of("cpu_core", "99.63")));
    assert_eq!(all[0], (Some("cpu_core".to_owned()), Ok(in_order([40.0, 10.0, 30.0, 20.0]))));
    let told = all[1].1.as_ref().unwrap_err().to_string();
    assert!(
        told.contains("counted for only 0.37 % of the time") && told.contains("frontend bound 40.0 %"),
        "{told}"
    );
}

/// Old perfs end their lines with more separators than values, or with fewer.
#[test]
fn rows_of_csv_end_with_any_number_of_separators() {
    let head = "core,cpus,retiring,bad speculation,frontend bound,backend bound";
    let row = "S0-C0,1,20.0,10.0,40.0,30.0";
    for (head_end, row_end) in [("", ""), (",", ""), ("", ",,"), (",,", ",")] {
        let text = format!("{head}{head_end}\n{row}{row_end}\nwords, that are no row, and 7\n1,2,3\n");
        assert_eq!(
            level_1_of(&text),
            [(Some("S0-C0".to_owned()), Ok(in_order([40.0, 10.0, 30.0, 20.0])))],
            "{text}"
        );
    }
    let short = format!("{head}\nS0-C0,1,151.0,10.0,40.0,,\n");
    assert_eq!(level_1_of(&short)[0].1, Err(Fault::Outside(Retiring, 151.0)));
}

#[test]
fn any_separator_that_people_take() {
    let csv = text("perf-hybrid-unnamed.csv");
    for separator in [";", "|", "\t"] {
        assert_eq!(topdown::read(&csv.replace(',', separator)), topdown::read(&csv), "{separator}");
    }
    assert!(
        topdown::counted::read("2000||instructions|1|100.00||\n50||L1-icache-load-misses|1|100.00||\n")
            .is_some()
    );
}

/// Other tools put perf's objects into an array, or print each on several lines.
#[test]
fn json_in_an_array_and_on_several_lines() {
    let json = text("perf-hybrid-unnamed.json");
    let expected = topdown::read(&json);
    let array = format!("[\n{}\n]\n", json.trim_end().replace("}\n{", "},\n{"));
    let quoted: String = json.lines().map(|line| format!("> {line}\n")).collect();
    let one_line = array.replace('\n', " ");
    let tall = array.replace("{\"", "{\n  \"").replace(", \"", ",\n  \"").replace('}', "\n}");
    for text in [array, quoted, one_line, tall] {
        assert_eq!(topdown::read(&text), expected, "{text}");
    }
    let broken =
        topdown::read("\n[\n{\"metric-unit\" : \"%  tma_retiring\"},\n{\"a\" : ?}\n]\n").unwrap_err();
    assert!(matches!(broken, Unread::Broken { line: 4, .. }), "{broken:?}");
}

/// Values in an unknown form are reported, and never ignored.
#[test]
fn a_form_that_no_reader_knows_is_told_with_its_line() {
    let of = |text: &str| read(text).unwrap_err();
    for (text, at, share) in [
        ("kperf\n------ frontend bound ------\nfrontend_bound:          48.27%\n", 3, "48.27"),
        ("Retiring: 30.9% of Pipeline Slots\nFront-End Bound: 51.0% of Pipeline Slots\n", 2, "51.0"),
        ("<not counted> cycles\nFrontend Bound.......:   0,02%\n", 2, "0,02"),
    ] {
        let error = of(text);
        assert!(
            matches!(&error, Unread::UnknownForm { line, of: FrontendBound, percent, .. } if *line == at && percent == share),
            "{error:?}"
        );
        assert!(error.to_string().contains("in an unknown form"), "{error}");
    }
    let kernel = of("\n    retiring:k   bad speculation:k\nS0-C0   2    7.6%    1.8%\n");
    assert!(matches!(kernel, Unread::NoValues { line: 2, .. }), "{kernel:?}");
    let stage_two =
        of("Stage 2 (uarch metrics)\n│ L1I Cache MPKI │ 0.474 │ misses per 1,000 instructions │\n");
    assert!(stage_two.to_string().contains("next: run `topdown-tool -m Topdown_L1"), "{stage_two}");
    assert_eq!(of("│ Frontend Bound │ slots that the front end left empty │\n"), Unread::Nothing);
}

/// A table of old perf.
fn old_table(values: [f64; 4]) -> String {
    let [frontend, bad, backend, retiring] = values;
    format!(
        "    retiring   bad speculation   frontend bound   backend bound\n  {retiring:.1}%  {bad:.1}%  {frontend:.1}%  {backend:.1}%\n"
    )
}

#[test]
fn blocks_of_a_page_are_runs_of_their_own() {
    let (before, after) = ([51.0, 10.3, 7.8, 30.9], [37.9, 9.5, 16.0, 36.6]);
    let page = format!(
        "Before:\n```\n{}```\nAfter:\n```\n{}```\nwhich is 36.6%\n",
        old_table(before),
        old_table(after)
    );
    let bare = page.replace("```\n", "").replace("which is 36.6%\n", "");
    for text in [page, bare] {
        let expected = [("run 1 (Before)", before), ("run 2 (After)", after)];
        assert_eq!(
            level_1_of(&text),
            expected.map(|(name, values)| (Some(name.to_owned()), Ok(in_order(values)))),
            "{text}"
        );
        assert_eq!(topdown::read(&text).unwrap().runs, 2);
    }
}

#[test]
fn commands_in_one_file_are_labelled_and_compared_only_where_they_can_be() {
    let run = |command: &str, values| {
        format!(
            "  # ./perf stat {command}\n\n   Performance counter stats for 'system wide':\n\n{}",
            old_table(values)
        )
    };
    let values = [5.0, 10.0, 60.0, 25.0];
    let pair = run("--topdown -a", values) + &run("--topdown -a --cputype atom", values);
    let output = topdown::read(&pair).unwrap();
    assert_eq!(output.runs, 1, "other cores are no before and after");
    assert!(output.notes[0].contains("does not compare"), "{:?}", output.notes);
    let names: Vec<_> = topdown::judge(&output).into_iter().filter_map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["run 1 (./perf stat --topdown -a)", "run 2 (./perf stat --topdown -a --cputype atom) (cpu_atom)"]
    );
    let same = topdown::read(&(run("-a", values) + &run("-a", values))).unwrap();
    assert_eq!((same.runs, same.notes), (2, Vec::new()));
    let other_levels = run("-M TopdownL1", values) + &run("-M TopdownL2", values);
    assert_eq!(topdown::read(&other_levels).unwrap().runs, 1);
    // AMD's slots are not Intel's.
    let amd = "$ perf stat -M PipelineL1\n 1 ls_not_halted_cyc  #  20.0 %  smt_contention\n".to_owned()
        + &lines([5.0, 10.0, 40.0, 25.0], |name, value| format!("# {value:.1} %  {}\n", name.to_lowercase()));
    let makes = topdown::read(&(run("-a", values) + &amd)).unwrap();
    assert_eq!((makes.runs, makes.readings.len()), (1, 9));
}

#[test]
fn what_one_run_of_several_lacks_is_noted_and_no_table_is_dropped() {
    let toplev =
        lines([40.0, 10.0, 30.0, 20.0], |name, value| format!("BE   {name}   % Slots    {value:.1}\n"));
    let text = format!(
        "$ perf stat --topdown -a ./a\n{}$ toplev.py -l1 -v ./a\n{toplev}$ perf stat -x, ./a\n<not counted>,,slots,0,0.00,,\n",
        old_table([51.0, 10.3, 7.8, 30.9])
    );
    let output = topdown::read(&text).unwrap();
    assert_eq!(output.readings.len(), 8);
    assert!(
        output
            .notes
            .last()
            .unwrap()
            .starts_with("run 3 (perf stat -x, ./a): the program was idle while perf counted"),
        "{:?}",
        output.notes
    );
}

#[test]
fn a_second_table_without_a_prompt_is_named() {
    let toplev =
        lines([40.0, 10.0, 30.0, 20.0], |name, value| format!("BE   {name}   % Slots    {value:.1}\n"));
    let both = topdown::read(&(toplev.clone() + &old_table([51.0, 10.3, 7.8, 30.9]))).unwrap();
    assert!(
        both.notes[0].contains("another table in it is left out, with retiring 30.9 %"),
        "{:?}",
        both.notes
    );
    // No reader takes what another one read for a table of its own.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/topdown");
    for file in fs::read_dir(folder).unwrap() {
        let Ok(output) = topdown::read(&fs::read_to_string(file.unwrap().path()).unwrap()) else { continue };
        assert!(!output.notes.iter().any(|note| note.contains("another table")), "{:?}", output.notes);
    }
}
