//! A client program that plays cells: one line in, one JSON object a step out, `{"step":"end"}` behind the last one.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// Longer than a program waits for anything by itself, so that it can say what it waited for.
const CELL_LIMIT: Duration = Duration::from_secs(150);

/// What plays cells.
pub(crate) trait Play {
    /// Plays a cell and returns its steps. An error tells of a cell that did not come to its end.
    fn play(&mut self, cell: &str, parameters: &[(&str, &str)]) -> Result<Vec<Value>, String>;
}

pub(crate) fn start(client: &str, command: &mut Command, broker: SocketAddr) -> Box<dyn Play> {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("matrix-{client}.stderr"));
    let _ = std::fs::remove_file(&log);
    command.arg(broker.to_string());
    let mut again = super::program(command.get_program());
    again.args(command.get_args());
    Box::new(Program { command: again, log, running: None })
}

struct Program {
    command: Command,
    log: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    cells: ChildStdin,
    steps: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Play for Program {
    fn play(&mut self, cell: &str, parameters: &[(&str, &str)]) -> Result<Vec<Value>, String> {
        let line =
            parameters.iter().fold(cell.to_owned(), |line, (name, value)| format!("{line} {name}={value}"));
        let running = match self.running.take() {
            Some(running) => running,
            None => launch(&mut self.command, &self.log)?,
        };
        let running = self.running.insert(running);
        let steps = tell(running, &line);
        if steps.is_err() {
            // What is left of it would answer the next cell.
            self.running = None;
        }
        let steps = steps.map_err(|why| format!("`{line}`: {why}; its stderr: {}", self.log.display()))?;
        match steps.iter().find(|step| step["step"] == "failed") {
            Some(failed) => Err(format!("`{line}`: {}", failed["error"].as_str().unwrap_or("no reason"))),
            None => Ok(steps),
        }
    }
}

fn launch(command: &mut Command, log: &Path) -> Result<Running, String> {
    let log = File::options().create(true).append(true).open(log).map_err(|error| error.to_string())?;
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn();
    let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
    let (cells, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, steps) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(Running { child, cells, steps })
}

fn tell(running: &mut Running, line: &str) -> Result<Vec<Value>, String> {
    writeln!(running.cells, "{line}").map_err(|error| format!("the program is gone: {error}"))?;
    let mut steps = Vec::new();
    loop {
        let said = running.steps.recv_timeout(CELL_LIMIT).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer in {CELL_LIMIT:?}"),
            RecvTimeoutError::Disconnected => "the program ended".to_owned(),
        })?;
        let step: Value = serde_json::from_str(&said).map_err(|error| format!("`{said}`: {error}"))?;
        if step["step"] == "end" {
            return Ok(steps);
        }
        steps.push(step);
    }
}
