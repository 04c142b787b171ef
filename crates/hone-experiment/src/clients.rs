//! Client programs that send a load: started through the door, watched, and ended with the load.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hone_host::cpu::{self, CpuSample};
use hone_load::{Launched, Launcher, Watch};
use hone_record::{CpuSeconds, Engine};
use hone_tool::{Call, Conversation, Runner, Session, System};

/// Starts client programs, each with a folder of its own.
pub struct Clients<'a> {
    /// Whose logs the programs' are among; without one their logs go with them.
    runner: Option<&'a dyn Runner>,
    scratch: PathBuf,
}

/// Numbers for folders; the arms of a duet have one each.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl<'a> Clients<'a> {
    /// For a run that keeps logs and has a place for what is passing.
    pub fn within(runner: &'a dyn Runner, scratch: PathBuf) -> Self {
        Self { runner: Some(runner), scratch }
    }

    /// For a load that keeps nothing.
    pub fn apart() -> Self {
        Self { runner: None, scratch: std::env::temp_dir() }
    }

    fn folder(&self) -> Result<Folder, String> {
        let words = |path: &Path, error: &std::io::Error| {
            format!("its folder {} can't be made: {error}", path.display())
        };
        std::fs::create_dir_all(&self.scratch).map_err(|error| words(&self.scratch, &error))?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.scratch.join(format!("hone-client-{}-{number}", std::process::id()));
            // One that is there is somebody's: what is written into it could lead elsewhere.
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
        // Relative paths in its arguments are the user's.
        let here = std::env::current_dir().map_err(|error| format!("there is no current folder: {error}"))?;
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

/// A program that was started. Its session ends it before its folder goes.
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

/// A folder that goes when nobody needs it any more.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The engine of a name or of a command line, which is split as a shell would and never given to one.
pub fn engine(client: &str, settings: BTreeMap<String, String>) -> Result<Engine, String> {
    match client {
        "wire" if settings.is_empty() => Ok(Engine::Wire),
        "wire" => {
            Err("the wire engine has no client settings; its requests are described by the workload's own \
                       (records, connections, in-flight ...). Settings are for `librdkafka` or a command"
                .to_owned())
        }
        "librdkafka" => Ok(Engine::Librdkafka { settings }),
        line => {
            let command =
                shlex::split(line).ok_or_else(|| format!("the client `{line}` has an unclosed quote"))?;
            if command.is_empty() {
                return Err("the client is empty; there are `wire`, `librdkafka`, or a command".to_owned());
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
