//! The virtual machine of a `java` command: its JDK, and the command with another setting.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_jvm::advice::{Advice, advice};
use hone_jvm::command::{CommandError, JavaCommand};
use hone_jvm::jdk::Jdk;
use hone_jvm::setting::with_setting;

use crate::arm::Program;
use crate::ending::Usage;

/// The setting that names another JDK.
const JDK: &str = "jdk";

/// The launcher at its real place, and its JDK. `java` is the launcher, or the folder of a JDK.
///
/// # Errors
/// When there is none, or when the JDK does not name its version.
pub fn launcher(java: &Path) -> Result<(PathBuf, Jdk)> {
    let launcher = if java.is_dir() { java.join("bin/java") } else { java.to_owned() };
    let real =
        launcher.canonicalize().with_context(|| format!("there is no launcher {}", launcher.display()))?;
    let home = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let release = home.join("release");
    match fs::read_to_string(&release).ok().and_then(|text| Jdk::from_release(&text)) {
        Some(jdk) => Ok((real, jdk)),
        None => bail!(Usage(format!(
            "{} belongs to no JDK: {} does not name its version\n  next: name the folder of a JDK",
            launcher.display(),
            release.display()
        ))),
    }
}

/// The program with a setting of its virtual machine, see [`with_setting`]; `jdk` names the folder of another JDK.
///
/// # Errors
/// When the command is not one of `java`, or the setting does not fit.
pub(crate) fn program_with(program: &Program, name: &str, value: &str) -> Result<Program> {
    let refused = |problem: String| Usage(format!("--change jvm.{name}={value}: {problem}"));
    let command = command_of(program)
        .map_err(|error| refused(format!("{error}; it needs a command that begins with java")))?;
    let (java, jdk) = launcher(&program.path).map_err(|_| {
        refused(format!(
            "{} is not the launcher of a JDK; name the command that starts java, not a script",
            program.path.display()
        ))
    })?;
    if name == JDK {
        let (other, _) = launcher(Path::new(value))?;
        return Ok(Program { path: other, ..program.clone() });
    }
    let command = with_setting(&command, name, value, Some(jdk.feature)).map_err(refused)?;
    let args = command.argv().split_off(1);
    Ok(Program { path: java, args, ..program.clone() })
}

/// The settings worth a trial for a program on a machine with these cores and this memory. Empty for any other program than `java`.
pub fn advice_for(program: &Program, cores: u32, memory_bytes: u64) -> Vec<Advice> {
    let Ok((_, jdk)) = launcher(&program.path) else { return Vec::new() };
    let of = |command: JavaCommand| advice(&command, Some(jdk.feature), cores, memory_bytes);
    command_of(program).map(of).unwrap_or_default()
}

/// Whether a program is the launcher of a JDK.
pub fn is_java(program: &Program) -> bool {
    launcher(&program.path).is_ok() && command_of(program).is_ok()
}

fn command_of(program: &Program) -> Result<JavaCommand, CommandError> {
    let java = program.path.display().to_string();
    let words: Vec<String> = std::iter::once(java).chain(program.args.iter().cloned()).collect();
    JavaCommand::parse(&words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    /// A JDK with nothing but its version.
    fn jdk(version: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        fs::write(home.path().join("bin/java"), "").unwrap();
        fs::write(home.path().join("release"), format!("JAVA_VERSION=\"{version}\"\n")).unwrap();
        home
    }

    fn program(java: &Path, args: &[&str]) -> Program {
        Program {
            path: java.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::new(),
            address: String::new(),
            ready_timeout: Duration::ZERO,
            stop_timeout: Duration::ZERO,
            ways: Box::default(),
        }
    }

    #[test]
    fn a_java_command_gets_the_setting_and_another_one_is_refused() {
        let home = jdk("25.0.3");
        let java = home.path().join("bin/java");
        let plain = program(&java, &["-XX:+UseG1GC", "-jar", "x.jar", "{port}"]);
        let changed = program_with(&plain, "gc", "parallel").unwrap();
        assert_eq!(changed.args, ["-XX:+UseParallelGC", "-jar", "x.jar", "{port}"]);
        let refused = |program: &Program, name: &str, value: &str| {
            program_with(program, name, value).unwrap_err().to_string()
        };
        assert!(refused(&plain, "heap", "x").contains("--change jvm.heap=x: invalid size `x`: use a number"));
        let old = jdk("17.0.15");
        let old = program(&old.path().join("bin/java"), &["-jar", "x.jar"]);
        assert!(refused(&old, "compact-headers", "true").contains("need JDK 25"));
        let script = program(Path::new("/bin/sh"), &["server.sh"]);
        assert!(refused(&script, "gc", "zgc").contains("is not the launcher of a JDK"));
        assert!(refused(&program(&java, &["-Xmx1g"]), "gc", "zgc").contains("names no class, jar or module"));
    }

    #[test]
    fn another_jdk_is_a_setting_too() {
        let (one, other) = (jdk("17"), jdk("25"));
        let plain = program(&one.path().join("bin/java"), &["-jar", "x.jar"]);
        let changed = program_with(&plain, "jdk", other.path().to_str().unwrap()).unwrap();
        assert_eq!(changed.path, other.path().canonicalize().unwrap().join("bin/java"));
        assert!(program_with(&plain, "jdk", "/nowhere").is_err());
    }
}
