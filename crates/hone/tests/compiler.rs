//! Hone called by the name of a compiler, by a real make and real compilers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::c_toolchain::CToolchain;
use hone_binary::shim::{Action, Entry, ORDERS, Orders, read_log};
use hone_tool::{Call, Finished, Runner, System, ToolError};

/// So many sources, compiled as many at a time as make likes.
const SOURCES: usize = 24;

mod stage;
use stage::tools::skip;

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    orders: Orders,
}

impl Bench {
    fn new(compiler: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let family = match CToolchain::find(&system, Some(compiler)) {
            Ok(family) => family,
            Err(error) => {
                skip(&format!("{error:#}"));
                return None;
            }
        };
        let mut orders = Orders::new(&family, dir.path());
        orders.compile = vec!["-fprofile-generate".to_owned(), "-DMARK=\"a b\"".to_owned()];
        orders.link = vec!["-fprofile-generate".to_owned()];
        Some(Self { dir, system, orders })
    }

    fn source(&self) -> PathBuf {
        let folder = self.dir.path().join("source");
        fs::create_dir_all(&folder).unwrap();
        let mut main = String::from("#include <stdio.h>\n");
        let mut sum = String::from("0");
        for i in 0..SOURCES {
            fs::write(
                folder.join(format!("part{i}.c")),
                format!("int part{i}(int x) {{ return x + sizeof MARK; }}\n"),
            )
            .unwrap();
            writeln!(main, "int part{i}(int);").unwrap();
            write!(sum, "+part{i}({i})").unwrap();
        }
        writeln!(main, "int main(void) {{ printf(\"%d\\n\", {sum}); return 0; }}").unwrap();
        fs::write(folder.join("main.c"), main).unwrap();
        fs::write(folder.join("note.S"), ".section .note.GNU-stack,\"\",@progbits\n").unwrap();
        fs::write(
            folder.join("conftest.c"),
            "#ifdef MARK\n#error a trial must not see the flags\n#endif\nint main(void) { return 0; }\n",
        )
        .unwrap();
        let makefile = "OBJ := $(patsubst %.c,%.o,$(sort $(wildcard part*.c) main.c)) note.o\n\
            toy: trial $(OBJ)\n\techo $(OBJ) > list.rsp\n\t$(CC) @list.rsp -o toy\n\
            trial:\n\t$(CC) --version >/dev/null && echo 'MARK' | $(CC) -E - | grep -q MARK && $(CC) -Werror -o conftest conftest.c && ./conftest\n\
            %.o: %.c | trial\n\t$(CC) -Werror -O1 -c $< -o $@\n\
            %.o: %.S\n\t$(CC) -Werror -c $< -o $@\n\
            broken:\n\techo 'int f(' > broken.c; $(CC) -c broken.c; echo status $$?\n";
        fs::write(folder.join("Makefile"), makefile).unwrap();
        folder
    }

    fn make(&self, folder: &Path, target: &str, orders: Option<&Path>) -> Result<Finished, ToolError> {
        let cc = self.dir.path().join("bin/cc");
        let call = Call::new("make", "/usr/bin/make", folder)
            .args(["-j4", target])
            .arg(format!("CC={}", cc.display()));
        self.system.run(&match orders {
            Some(file) => call.env(ORDERS, file),
            None => call.env_remove(ORDERS),
        })
    }

    fn log(&self) -> Vec<Entry> {
        read_log(&fs::read_to_string(&self.orders.log).unwrap()).unwrap()
    }
}

fn flags_reach_every_object_of_a_parallel_build(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_hone"));
    let orders = bench.orders.install(&bench.dir.path().join("bin"), program).unwrap();
    let source = bench.source();
    bench.make(&source, "toy", Some(&orders)).unwrap();

    let log = bench.log();
    let of = |action| log.iter().filter(|entry| entry.action == action && !entry.probe).collect::<Vec<_>>();
    let compiled = of(Action::Compile);
    assert_eq!(compiled.len(), SOURCES + 1);
    for entry in &compiled {
        assert!(entry.saw_flags() && entry.added == bench.orders.compile, "{entry:?}");
        assert_eq!(entry.outputs[0].sha256.as_ref().unwrap().len(), 64);
    }
    assert_eq!((of(Action::Query).len(), of(Action::Preprocess).len()), (1, 1));
    assert_eq!(of(Action::Assemble)[0].added, [] as [String; 0]);
    let link = of(Action::Link)[0];
    assert_eq!((link.inputs.len(), link.added.len()), (SOURCES + 2, 2), "{link:?}");
    let map = fs::read_to_string(link.map.as_ref().unwrap()).unwrap();
    assert!(map.contains("part7.o"));
    let trials: Vec<&Entry> = log.iter().filter(|entry| entry.probe).collect();
    assert!(trials.len() == 1 && trials[0].added.is_empty() && !trials[0].saw_flags(), "{trials:?}");

    let broken = bench.make(&source, "broken", Some(&orders)).unwrap();
    assert!(broken.stdout_text().unwrap().contains("status 1"), "the compiler's own exit code");
    assert!(fs::read_to_string(&broken.stderr_path).unwrap().contains("error"), "and its own words");
    let last = bench.log().pop().unwrap();
    assert_eq!((last.status, last.outputs.len(), last.saw_flags()), (1, 0, false));

    let lost = bench.make(&source, "broken", None).unwrap();
    let words = fs::read_to_string(&lost.stderr_path).unwrap();
    assert!(words.contains("HONE_SHIM names no orders file") && words.contains("next: "), "{words}");
}

#[test]
fn flags_reach_every_object_of_a_parallel_build_by_clang() {
    flags_reach_every_object_of_a_parallel_build("clang-22");
}

#[test]
fn flags_reach_every_object_of_a_parallel_build_by_gcc() {
    flags_reach_every_object_of_a_parallel_build("gcc");
}
