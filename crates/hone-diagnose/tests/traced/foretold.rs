//! The prediction for a layout before it runs, compared with a trace of the program that has this layout.

use std::path::{Path, PathBuf};

use hone_diagnose::aggregated;
use hone_diagnose::cache::{ITLB_64, L1I_32K, MODELS};
use hone_diagnose::emulator::TraceOptions;
use hone_diagnose::model::{self, Run};
use hone_diagnose::moved::{Moved, NotMoved};
use hone_record::{CodeLayout, Expectation};
use hone_tool::{Call, Runner as _, Tool};

use super::{Bench, run_of, there};

/// Some hundred functions, called in an order independent of their addresses, each with a cold part inside its hot one. Two files have
/// functions with the same names.
fn source(file: usize) -> String {
    let function = |number: usize| {
        let padding = "    s = s * 31 + a[(s & 63)]; s ^= s >> 7; a[s & 63] = s; s -= a[7];\n".repeat(12);
        format!(
            "static __attribute__((noinline)) unsigned f{number}(unsigned *a, unsigned s) {{\n  if (s % 4093 == {}) {{\n{padding}  }}\n  \
             for (int i = 0; i < 3; i++) {{ s = s * {} + a[(s >> 5) & 63]; if (s & 1) s ^= {}; else s += a[s & 63]; }}\n  return s;\n}}\n",
            number % 4093,
            2 * number + 1_103_515_245,
            number * 7_919
        )
    };
    let all = 400;
    let names: Vec<String> = (0..all).map(|number| format!("f{}", number * 149 % all)).collect();
    let mut text: String = (0..all).map(function).collect();
    text += &format!(
        "unsigned (*const table{file}[{all}])(unsigned *, unsigned) = {{ {} }};\n",
        names.join(", ")
    );
    text += "#include <stdio.h>\n";
    if file == 0 {
        text += &format!(
            "extern unsigned (*const table1[{all}])(unsigned *, unsigned);\nint main(void) {{\n  static unsigned a[64]; unsigned s = 1;\n  \
             for (int round = 0; round < 300; round++) for (int i = 0; i < {all}; i += 2) {{ s = table0[i](a, s); s = table1[(i * 3) % \
             {all}](a, s); }}\n  printf(\"%u\\n\", s);\n  return 0;\n}}\n"
        );
    }
    text
}

/// Builds the program so that BOLT can rewrite it.
fn built(bench: &Bench) -> Option<PathBuf> {
    let clang = there(Tool::new("clang-19", "").debian("clang-19").locate(&[]))?;
    let program = bench.path("calls");
    let mut call =
        Call::new("clang", clang.path(), bench.dir.path()).args(["-O2", "-Wl,-q", "-o"]).arg(&program);
    for file in 0..2 {
        let path = bench.path(&format!("calls-{file}.c"));
        std::fs::write(&path, source(file)).unwrap();
        call = call.arg(&path);
    }
    bench.runner.run(&call).unwrap();
    Some(program)
}

fn own(run: &Run, program: &Path) -> u32 {
    run.objects.iter().position(|object| Path::new(&object.path) == program).unwrap() as u32
}

#[test]
fn what_is_foretold_of_a_layout_is_what_a_trace_of_it_finds() {
    let Some(bench) = Bench::new() else { return };
    let folders = ["/usr/lib/llvm-19/bin"];
    let tool = |name: &str| there(Tool::new(name, "").debian("bolt-19").locate(&folders.map(PathBuf::from)));
    let (Some(bolt), Some(perf2bolt)) = (tool("llvm-bolt"), tool("perf2bolt")) else { return };
    let Some(program) = built(&bench) else { return };
    let wanted = TraceOptions { period: 300_000, window: 100_000, ..TraceOptions::ALL };
    let run = run_of(&bench.traced(wanted, &program, &[]));
    let whole = run.whole();
    let object = own(&run, &program);

    let (branches, profile) = (bench.path("calls.pa"), bench.path("calls.fdata"));
    std::fs::write(&branches, aggregated::of_object(&run, &whole, object).text).unwrap();
    let call = Call::new("perf2bolt", perf2bolt.path(), bench.dir.path()).arg(&program).args(["--pa", "-p"]);
    bench.runner.run(&call.arg(&branches).arg("-o").arg(&profile)).unwrap();
    let rewritten = |name: &str, flags: &[&str]| {
        let now = bench.path(name);
        let call =
            Call::new("bolt", bolt.path(), bench.dir.path()).arg(&program).arg("-o").arg(&now).args(flags);
        bench.runner.run(&call.arg(format!("-data={}", profile.display()))).unwrap();
        now
    };
    let flags = [
        "-reorder-blocks=ext-tsp",
        "-reorder-functions=cdsort",
        "-split-functions",
        "-split-all-cold",
        "-icf=1",
    ];
    let before = std::fs::read(&program).unwrap();
    let without = std::fs::read(rewritten("without", &flags)).unwrap();
    assert_eq!(Moved::between(&before, &without).unwrap_err(), NotMoved::NoTable);
    let now = rewritten("calls-now", &[&flags[..], &["--enable-bat"]].concat());
    let moved = Moved::between(&before, &std::fs::read(&now).unwrap()).unwrap();

    let foretold = moved.predict(&run, object, "calls".to_owned()).unwrap();
    let found = run_of(&bench.traced(wanted, &now, &[]));
    let found = model::layout(&found, &found.whole());
    assert_eq!(foretold.expected, Expectation::Gain, "{}", foretold.rule);

    let taken = |layout: &CodeLayout| layout.taken_per_1000.unwrap();
    let missed = |layout: &CodeLayout, model: usize| layout.missed(MODELS[model].name).unwrap();
    let units = |layout: &CodeLayout, unit: usize| layout.footprints[unit].units[2] as f64;
    let told = || {
        let of = |layout: &CodeLayout| {
            [
                taken(layout),
                units(layout, 0),
                units(layout, 1),
                missed(layout, L1I_32K),
                missed(layout, ITLB_64),
            ]
        };
        format!(
            "before {:.2?}, predicted {:.2?}, found {:.2?}",
            of(&foretold.before),
            of(&foretold.now),
            of(&found)
        )
    };
    let close = |of: &dyn Fn(&CodeLayout) -> f64, by: f64| (of(&foretold.now) / of(&found) - 1.0).abs() < by;
    assert!(close(&taken, 0.03), "{}", told());
    assert!(close(&|layout| units(layout, 0), 0.03) && close(&|layout| units(layout, 1), 0.1), "{}", told());
    assert!(close(&|layout| missed(layout, L1I_32K), 0.1), "{}", told());
    // With so few misses left, a share of them means nothing.
    assert!((missed(&foretold.now, ITLB_64) - missed(&found, ITLB_64)).abs() < 0.1, "{}", told());
    // The change is large: the predicted misses differ from those before.
    assert!(missed(&foretold.before, L1I_32K) > 5.0 * missed(&found, L1I_32K), "{}", told());
    assert!(taken(&foretold.before) > 1.1 * taken(&found), "{}", told());
}
