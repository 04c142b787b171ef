//! Client programs that send a load: Hone starts them, watches them, and ends them with the load.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hone_host::cpu::{self, CpuSample};
use hone_load::{Launched, Launcher, Watch};
use hone_record::{CpuSeconds, Engine};
use hone_tool::{Call, Conversation, Runner, Session, System};

/// Starts client programs, each with its own folder.
pub struct Clients<'a> {
    /// The runner whose logs include the programs' logs. Without one they are deleted with the folder.
    runner: Option<&'a dyn Runner>,
    scratch: PathBuf,
}

/// Numbers for folders, since each arm of a duet needs one.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl<'a> Clients<'a> {
    /// For a run that keeps logs and has a folder for temporary files.
    pub fn within(runner: &'a dyn Runner, scratch: PathBuf) -> Self {
        Self { runner: Some(runner), scratch }
    }

    /// For a load that keeps no logs.
    pub fn apart() -> Self {
        Self { runner: None, scratch: std::env::temp_dir() }
    }

    fn folder(&self) -> Result<Folder, String> {
        let words = |path: &Path, error: &std::io::Error| {
            format!("its folder {} can't be created: {error}", path.display())
        };
        std::fs::create_dir_all(&self.scratch).map_err(|error| words(&self.scratch, &error))?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.scratch.join(format!("hone-client-{}-{number}", std::process::id()));
            // An existing folder belongs to another process: writes into it could lead elsewhere.
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(words(&path, &error)),
            }
        }
    }
}

impl Launcher for Clients<'_> {
    fn launch(&self, command: &[String]) -> Result<Launched, String> {
        let (program, arguments) = command.split_first().ok_or("it is empty")?;
        // Relative paths in its arguments are relative to the user's directory.
        let here = std::env::current_dir().map_err(|error| {
            format!(
                "the working directory does not exist any \
             more: {error}"
            )
        })?;
        let program = if program.contains('/') { here.join(program) } else { PathBuf::from(program) };
        let folder = self.folder()?;
        let call = Call::new("client", program, here).args(arguments);
        let words = |error: hone_tool::ToolError| error.to_string();
        let talk = match self.runner {
            Some(runner) => runner.converse(&call),
            None => System::new(folder.0.join("logs")).and_then(|system| system.converse(&call)),
        };
        let Conversation { session, to_child, from_child } = talk.map_err(words)?;
        let before = cpu::sample(session.pid()).ok();
        let watch = Box::new(Watched { session, before, folder });
        Ok(Launched { to_program: to_child, from_program: from_child, watch })
    }
}

/// A started program. Its session ends it before its folder is deleted.
#[derive(Debug)]
struct Watched {
    session: Session,
    before: Option<CpuSample>,
    folder: Folder,
}

impl Watch for Watched {
    fn pid(&self) -> u32 {
        self.session.pid()
    }

    fn cpu(&self) -> Option<CpuSeconds> {
        Some(cpu::between(self.before.as_ref()?, &cpu::sample(self.session.pid()).ok()?))
    }

    fn ended(&mut self) -> Option<String> {
        self.session.check_alive("it was sending a load").err().map(|error| error.to_string())
    }

    fn folder(&self) -> &Path {
        &self.folder.0
    }
}

/// A folder that is deleted after use.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The engine for a name or a command line. The line is split like a shell, but no shell runs it.
pub fn engine(client: &str, settings: BTreeMap<String, String>) -> Result<Engine, String> {
    match client {
        "wire" if settings.is_empty() => Ok(Engine::Wire),
        "wire" => {
            Err("the wire engine has no client settings; the workload's own keys describe its requests \
                 (records, connections, in_flight). Settings are for `librdkafka` or a command"
                .to_owned())
        }
        "librdkafka" => Ok(Engine::Librdkafka { settings }),
        line => {
            let command =
                shlex::split(line).ok_or_else(|| format!("the client `{line}` has an unclosed quote"))?;
            if command.is_empty() {
                return Err("the client is empty; use `wire`, `librdkafka`, or a command".to_owned());
            }
            Ok(Engine::Command { command, settings })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_are_told_apart() {
        let linger = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        assert_eq!(engine("wire", BTreeMap::new()).unwrap(), Engine::Wire);
        assert!(engine("wire", linger.clone()).unwrap_err().contains("no client settings"));
        assert_eq!(engine("librdkafka", linger.clone()).unwrap(), Engine::Librdkafka { settings: linger });
        let Ok(Engine::Command { command, .. }) = engine("java -cp 'a b' Client", BTreeMap::new()) else {
            panic!("no command");
        };
        assert_eq!(command, ["java", "-cp", "a b", "Client"]);
        assert!(engine("'", BTreeMap::new()).unwrap_err().contains("unclosed quote"));
        assert!(engine(" ", BTreeMap::new()).unwrap_err().contains("empty"));
    }
}
