//! `hone version`: shows the receipt of this build.

use anyhow::{Context as _, Result};
use clap::Args;
use hone_binary::bolt::preflight;
use hone_binary::file_facts;

use crate::cmd::context::CliContext;
use crate::text::version::Receipt;
use hone_experiment::ending::Ending;

/// Show how this program was built.
///
/// Hone shows its version, commit, compiler, target and flags, and whether PGO and BOLT were applied. Development builds have no commit.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone version
  hone version --json > receipt.json")]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    cli.show_found("version", &receipt()?, crate::text::version::text)
}

fn receipt() -> Result<Receipt> {
    let program = std::env::current_exe().context("can't find the file of this program")?;
    let facts = file_facts(&program)?;
    let anatomy = preflight::anatomy(&program)?;
    let flags = env!("HONE_BUILD_RUSTFLAGS").split("\\n").filter(|flag| !flag.is_empty());
    let flags: Vec<String> = flags.map(without_folder).collect();
    Ok(Receipt {
        version: env!("CARGO_PKG_VERSION"),
        commit: Some(env!("HONE_BUILD_COMMIT")).filter(|commit| !commit.is_empty()),
        rustc: env!("HONE_BUILD_RUSTC"),
        target: env!("HONE_BUILD_TARGET"),
        profile: env!("HONE_BUILD_PROFILE"),
        opt_level: env!("HONE_BUILD_OPT_LEVEL"),
        pgo: flags.iter().find_map(|flag| Some(flag.split_once(PROFILE_USE)?.1.to_owned())),
        rustflags: flags,
        instrumented: facts.instrumented || anatomy.bolt_instrumented,
        bolt: anatomy.bolted,
        features: FEATURES.iter().filter(|(_, is_built_in)| *is_built_in).map(|(name, _)| *name).collect(),
        static_link: anatomy.static_link,
        build_id: anatomy.build_id,
        program_bytes: facts.file_bytes,
        text_bytes: facts.text_bytes,
        sha256: facts.sha256,
    })
}

/// Optional parts of a build, and whether this build has them.
const FEATURES: [(&str, bool); 2] =
    [("librdkafka", cfg!(feature = "librdkafka")), ("object-stores", cfg!(feature = "object-stores"))];

/// The rustc flag that applies a profile.
const PROFILE_USE: &str = "profile-use=";

/// Removes the folder from a profile's path. The folder exists only on the machine that built the program.
fn without_folder(flag: &str) -> String {
    match flag.split_once(PROFILE_USE) {
        Some((before, path)) => format!("{before}{PROFILE_USE}{}", path.rsplit('/').next().unwrap_or(path)),
        None => flag.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_folder;

    #[test]
    fn a_profile_is_named_without_its_folder() {
        assert_eq!(
            without_folder("-Cprofile-use=/build/x y/merged.profdata"),
            "-Cprofile-use=merged.profdata"
        );
        assert_eq!(without_folder("-Ctarget-cpu=native"), "-Ctarget-cpu=native");
    }
}
