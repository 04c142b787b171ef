//! qemu's user mode with the tracer: finds it, checks its version, and starts a program under it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hone_record::ToolReceipt;
use hone_tool::{Tool, ToolError, Version};

use crate::trace::TraceFolder;

/// Version 1 is for qemu 4.2 to 8, version 2 for 9 and newer.
const TRACERS: [&[u8]; 2] = [include_bytes!(env!("HONE_TRACER_1")), include_bytes!(env!("HONE_TRACER_2"))];
/// From this version on it is the second.
const SECOND: Version = Version(9, 0, 0);

/// Data that is traced in addition to counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOptions {
    /// Whether caches and TLBs are simulated.
    pub caches: bool,
    /// Whether the caches of data are simulated, too. It needs `caches`.
    pub data: bool,
    /// Instructions of a thread between two windows; 0 for no windows.
    pub period: u64,
    /// Instructions that a window measures, and equally many before it for the warm-up.
    pub window: u64,
}

impl TraceOptions {
    /// Simulation with windows over 5 % of the execution; the result agrees with the whole trace within about 10 %.
    pub const ALL: Self = Self { caches: true, data: false, period: 2_000_000, window: 50_000 };
    /// Counts of blocks and of their transitions.
    pub const COUNTS: Self = Self { caches: false, data: false, period: 0, window: 0 };
}

/// An emulator for this machine's own programs.
#[derive(Debug, Clone)]
pub struct Emulator {
    path: PathBuf,
    receipt: ToolReceipt,
}

impl Emulator {
    /// The emulator in PATH, or the one that `HONE_QEMU` names.
    ///
    /// # Errors
    /// Returns an error when there is none, or it is too old for plugins.
    pub fn find() -> Result<Self, ToolError> {
        let name = format!("qemu-{}", std::env::consts::ARCH);
        let found = Tool::new(&name, "HONE_QEMU").at_least(4, 2, 0).debian("qemu-user").locate(&[])?;
        Ok(Self { path: found.path().to_owned(), receipt: found.receipt()? })
    }

    /// Its version output.
    pub fn receipt(&self) -> &ToolReceipt {
        &self.receipt
    }

    /// Whether a process's program is this emulator.
    pub fn is(&self, program: &Path) -> bool {
        self.path.canonicalize().is_ok_and(|own| own == program)
    }

    fn is_second(&self) -> bool {
        Version::first_in(&self.receipt.version).is_some_and(|version| version >= SECOND)
    }

    /// Writes the tracer for this version into a folder.
    ///
    /// # Errors
    /// Returns an error when it can't be written.
    pub fn tracer(&self, folder: &Path) -> io::Result<PathBuf> {
        let tracer = TRACERS[usize::from(self.is_second())];
        let path = std::path::absolute(folder.join("tracer.so"))?;
        fs::create_dir_all(folder)?;
        fs::write(&path, tracer)?;
        Ok(path)
    }

    /// The program to start instead of another one, with the arguments in front; the last of them is the program itself. Its own name stays
    /// the same, since some programs depend on it.
    pub fn around(
        &self,
        tracer: &Path,
        to: &TraceFolder,
        wanted: TraceOptions,
        program: &Path,
    ) -> (PathBuf, Vec<OsString>) {
        let mut plugin = tracer.as_os_str().to_owned();
        plugin.push(",folder=");
        plugin.push(to.path());
        let turned = |on: bool| if on { "on" } else { "off" };
        plugin.push(format!(
            ",caches={},data={},period={},window={}",
            turned(wanted.caches),
            turned(wanted.data),
            wanted.period,
            wanted.window.max(1)
        ));
        let words =
            [OsStr::new("-plugin"), &plugin, OsStr::new("-0"), program.as_os_str(), program.as_os_str()];
        (self.path.clone(), words.map(OsStr::to_owned).into())
    }
}
