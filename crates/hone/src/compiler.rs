//! Hone in the place of a compiler: called by the name of one, it does what the orders of a build say.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use hone_binary::shim::{self, Orders};

/// Does a compiler's work when the first argument is the name of one, and answers its exit code.
pub(crate) fn stand_in(arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let (argv0, rest) = arguments.split_first()?;
    let name = shim::compiler_name(argv0)?;
    Some(work(&name, rest))
}

fn work(name: &str, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let file = std::env::var_os(shim::ORDERS).filter(|file| !file.is_empty()).with_context(|| {
        format!(
            "called as the compiler {name}, but {} names no orders: the build has taken it from the environment\n  next: let \
             the build hand its environment on (no `env -i`, no sandbox)",
            shim::ORDERS
        )
    })?;
    let orders = Orders::load(Path::new(&file))?;
    let cwd = std::env::current_dir().context("the working directory is gone")?;
    let status = shim::act(&orders, name, arguments, &cwd)?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}
