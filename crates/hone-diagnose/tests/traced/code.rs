//! Functions with another number of instructions, of real programs under the emulator.

use std::path::PathBuf;

use hone_diagnose::emulator::TraceOptions;
use hone_diagnose::model::{CodeCounts, code, code_changes};
use hone_tool::{Call, Runner as _, Tool};

use super::{Bench, run_of, there};

/// Calls of the function.
const CALLS: u64 = 1_000;
/// `work` calls `step` 1,000 times, which is inlined into it.
const STEPS: &str = r#"
static inline __attribute__((always_inline)) unsigned step(unsigned x) {
  for (int i = 0; i < 36; i++) x = (x * 31 ^ x >> 7) + 3;
#ifdef MORE
  x ^= x >> 16;
#endif
  return x;
}
__attribute__((noinline)) unsigned work(unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < n; i++) sum += step(i);
  return sum;
}
int main(int count, char **words) { return work(1000) == (unsigned)count; }
"#;

/// The source with debug information, as a program of this name.
fn built(bench: &Bench, name: &str, more: &[&str]) -> Option<PathBuf> {
    let cc = there(Tool::new("cc", "").locate(&[]))?;
    let (file, program) = (bench.path("steps.c"), bench.path(name));
    std::fs::write(&file, STEPS).unwrap();
    let call = Call::new("cc", cc.path(), bench.path("."));
    bench.runner.run(&call.args(["-O1", "-g"]).args(more).arg("-o").arg(&program).arg(&file)).unwrap();
    Some(program)
}

fn counts(bench: &Bench, program: &std::path::Path) -> CodeCounts {
    let run = run_of(&bench.traced(TraceOptions::COUNTS, program, &[]));
    code(&run, |path| std::fs::read(path).ok())
}

#[test]
fn a_function_with_more_instructions_is_named_with_its_caller_and_equal_programs_have_none() {
    let Some(bench) = Bench::new() else { return };
    let Some(base) = built(&bench, "base", &[]) else { return };
    let Some(head) = built(&bench, "head", &["-DMORE"]) else { return };
    let (base, again, head) = (counts(&bench, &base), counts(&bench, &base), counts(&bench, &head));
    assert_eq!(code_changes((&base, CALLS), (&again, CALLS)), []);
    let changes = code_changes((&base, CALLS), (&head, CALLS));
    let names: Vec<&str> = changes[0].frames.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(names, ["work", "step"], "{changes:?}");
    let [before, after] = changes[0].instructions;
    assert!((1.0..4.0).contains(&(after - before)), "{changes:?}");
    assert!(changes[0].frames[1].source.as_deref().is_some_and(|source| source.ends_with("steps.c:11")));
}
