//! The program `hone`; all of it is in the library, so that tests can run it in-process.

use std::process::ExitCode;

fn main() -> ExitCode {
    hone::run(std::env::args_os())
}
