//! The two pieces of C that help a program to write its profile, built by the target's own compiler.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use hone_tool::{Call, Runner, Session};

use super::files::ProfileKind;
use super::refusal::CaptureRefusal;
use crate::refusal::Refusal;

/// The source of the preload.
const ORDERLY_EXIT: &str = include_str!("orderly_exit.c");

/// The source of the dump object.
const PROFILE_DUMP: &str = include_str!("profile_dump.c");

/// Both are a page of C; a longer compilation means a fault.
const COMPILE_LIMIT: Duration = Duration::from_secs(120);

/// Time for the thread of the dump object to fetch a signal.
const TAKE_LIMIT: Duration = Duration::from_secs(5);

/// Compiles the shared object that turns a default SIGTERM, SIGINT and SIGHUP into an orderly exit.
///
/// # Errors
/// [`CaptureRefusal::PreloadPath`] for a folder that `LD_PRELOAD` can't name; when the folder can't be written or the compiler
/// fails.
pub fn build_preload(runner: &dyn Runner, compiler: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    if folder.as_os_str().as_encoded_bytes().iter().any(|byte| b" \t\n:".contains(byte)) {
        return Err(Refusal::from(CaptureRefusal::PreloadPath { folder: folder.to_path_buf() }).into());
    }
    let flags = ["-shared", "-fPIC", "-pthread"];
    build(runner, compiler, folder, "orderly_exit", "so", ORDERLY_EXIT, &flags)
}

/// The environment that loads the preload first, before existing preloads.
pub fn preload_env(preload: &Path, already: Option<&OsStr>) -> (OsString, OsString) {
    let mut value = preload.as_os_str().to_owned();
    if let Some(already) = already.filter(|already| !already.is_empty()) {
        value.push(":");
        value.push(already);
    }
    ("LD_PRELOAD".into(), value)
}

/// The environment that switches the dump object on.
pub fn dump_env() -> (OsString, OsString) {
    ("HONE_PROFILE_DUMP".into(), "on".into())
}

/// An object to link into an instrumented program. With [`dump_env`] set, SIGUSR2 writes the profile, and SIGUSR1 sets the counters to 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpObject {
    /// The object file; an argument of the link.
    pub object: PathBuf,
    /// More arguments of the link. gcc's runtime is an archive, from which a weak reference alone takes nothing.
    pub link_flags: &'static [&'static str],
}

/// Compiles the dump object for this kind of profile.
///
/// # Errors
/// [`CaptureRefusal::NoDumpObject`] for BOLT, whose counters no function can write on request, and for Go, which links no such object; also
/// fails when the folder can't be written or the compiler fails.
pub fn build_dump_object(
    runner: &dyn Runner,
    compiler: &Path,
    folder: &Path,
    kind: ProfileKind,
) -> anyhow::Result<DumpObject> {
    let planned = planned_dump_object(folder, kind).map_err(Refusal::from)?;
    let object =
        build(runner, compiler, folder, "profile_dump", "o", PROFILE_DUMP, &["-c", "-fPIC", "-pthread"])?;
    Ok(DumpObject { object, ..planned })
}

/// The dump object that [`build_dump_object`] makes in this folder.
///
/// # Errors
/// [`CaptureRefusal::NoDumpObject`].
pub(crate) fn planned_dump_object(folder: &Path, kind: ProfileKind) -> Result<DumpObject, CaptureRefusal> {
    let link_flags: &[&str] = match kind {
        ProfileKind::Llvm => &["-pthread"],
        ProfileKind::Gcov => &["-pthread", "-Wl,-u,__gcov_dump", "-Wl,-u,__gcov_reset"],
        ProfileKind::Bolt | ProfileKind::Pprof => return Err(CaptureRefusal::NoDumpObject { kind }),
    };
    Ok(DumpObject { object: folder.join("profile_dump.o"), link_flags })
}

fn build(
    runner: &dyn Runner,
    compiler: &Path,
    folder: &Path,
    name: &str,
    ending: &str,
    text: &str,
    flags: &[&str],
) -> anyhow::Result<PathBuf> {
    let source = folder.join(format!("{name}.c"));
    let output = folder.join(format!("{name}.{ending}"));
    fs::create_dir_all(folder).and_then(|()| fs::write(&source, text)).with_context(|| {
        format!("can't write {}\n  next: free some disk space, or name another folder", source.display())
    })?;
    let call = Call::new(format!("compile-{name}"), compiler, folder).args(["-O2", "-o"]).arg(&output);
    // The settings of a target's build must not instrument these, or preload anything into the compiler.
    let call = call.env_remove("LD_PRELOAD").env_remove("LLVM_PROFILE_FILE").limit(COMPILE_LIMIT);
    runner.run(&call.args(flags.iter().copied()).arg(&source).produces(&output))?;
    Ok(output)
}

/// Sets the counters of all processes of a session to 0, after the start-up and the warm-up. Returns the processes that received the
/// signal.
///
/// # Errors
/// [`CaptureRefusal::NotReset`] if no process has the dump object; no process gets a signal then.
pub fn reset(session: &mut Session) -> anyhow::Result<Vec<u32>> {
    session.check_alive("its counters should be reset")?;
    let told = session.tell(libc::SIGUSR1, TAKE_LIMIT);
    if told.took.is_empty() {
        return Err(Refusal::from(CaptureRefusal::NotReset { blocked: told.left.len() }).into());
    }
    Ok(told.took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays() {
        let value = |already: Option<&str>| preload_env(Path::new("/w/p.so"), already.map(OsStr::new)).1;
        assert_eq!(value(None), "/w/p.so");
        assert_eq!(value(Some("")), "/w/p.so");
        assert_eq!(value(Some("/lib/jemalloc.so")), "/w/p.so:/lib/jemalloc.so");
    }
}
