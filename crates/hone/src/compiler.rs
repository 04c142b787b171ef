//! Hone as a compiler: if a build calls it by a compiler's name, it follows the orders file of that build.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use hone_binary::shim::{self, Orders};

/// Acts as a compiler if the first argument is the name of one, and returns its exit code.
pub(crate) fn stand_in(arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let (argv0, rest) = arguments.split_first()?;
    let name = shim::compiler_name(argv0)?;
    Some(work(&name, rest))
}

fn work(name: &str, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let file = std::env::var_os(shim::ORDERS).filter(|file| !file.is_empty()).with_context(|| {
        format!(
            "Hone runs as the compiler {name}, but {} names no orders file: the build has removed the variable from its \
             environment\n  next: let the build pass on its environment (no `env -i`, no sandbox)",
            shim::ORDERS
        )
    })?;
    let orders = Orders::load(Path::new(&file))?;
    let cwd = std::env::current_dir().context("can't read the working directory")?;
    let status = shim::act(&orders, name, arguments, &cwd)?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}
