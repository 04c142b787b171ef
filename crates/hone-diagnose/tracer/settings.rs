//! Hone's options for the plugin: `folder=PATH,caches=on,data=on,period=N,window=N,every_ms=N`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Options of the trace.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Folder of the files.
    pub(crate) folder: PathBuf,
    /// Whether structures are simulated.
    pub(crate) caches: bool,
    /// Whether those of data are simulated, too.
    pub(crate) data: bool,
    /// Instructions of a thread from the start of one window to the start of the next; 0 for no windows.
    pub(crate) period: u64,
    /// Instructions of a window, and equally many before it for the warm-up.
    pub(crate) window: u64,
    /// Interval between writes.
    pub(crate) every_ms: u64,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

impl Settings {
    pub(crate) fn of<'a>(words: impl Iterator<Item = Cow<'a, str>>) -> Option<Self> {
        let mut settings = Self {
            folder: PathBuf::new(),
            caches: false,
            data: false,
            period: 0,
            window: 50_000,
            every_ms: 2_000,
        };
        for word in words {
            let (key, value) = word.split_once('=')?;
            match key {
                "folder" => settings.folder = value.into(),
                "caches" => settings.caches = value == "on",
                "data" => settings.data = value == "on",
                "period" => settings.period = value.parse().ok()?,
                "window" => settings.window = value.parse().ok()?,
                "every_ms" => settings.every_ms = value.parse().ok()?,
                _ => return None,
            }
        }
        (!settings.folder.as_os_str().is_empty()).then_some(settings)
    }
}

pub(crate) fn begin(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

/// The settings; they exist before the first block runs.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(|| std::process::abort())
}
