//! Stopping a run from its page: only with the access token of the server, and after a question.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hone_binary::sha256_hex;
use hone_host::locks::Locks;
use hone_report::desk::StopOffer;
use subtle::ConstantTimeEq as _;

use super::process::Process;
use super::shelf::Run;

/// Stops runs.
#[derive(Debug)]
pub(super) struct Stopper {
    /// Makes the tokens of the forms. A page of another site can't know them. `None` if the server has no access token: every account of
    /// this machine could use the button.
    secret: Option<[u8; 32]>,
    /// Processes that were interrupted. A second signal would end them at once, without cleaning up.
    sent: Mutex<HashSet<Process>>,
}

impl Stopper {
    /// With `may_stop`, pages have a button.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new(may_stop: bool) -> io::Result<Self> {
        let random = || {
            let mut secret = [0; 32];
            File::open("/dev/urandom")?.read_exact(&mut secret)?;
            io::Result::Ok(secret)
        };
        let secret = if may_stop { Some(random()?) } else { None };
        Ok(Self { secret, sent: Mutex::default() })
    }

    /// How the page of a run offers to stop it. `None` if no process is visible.
    pub(super) fn offer(&self, run: &Run) -> Option<StopOffer> {
        let process = holder(run)?;
        let why = match &self.secret {
            _ if self.was_sent(process) => {
                "Hone has asked the run to stop. It ends after its current window."
            }
            None => {
                "There is a button here if the server runs with --token-file. Without a token, every account \
                 of this machine could use it."
            }
            Some(_) => match process.why_not() {
                None => return Some(StopOffer::Button),
                Some(why) => why,
            },
        };
        let command = format!("kill -INT {}", process.pid);
        Some(StopOffer::Command { command, why: why.to_owned() })
    }

    /// The token of the form that stops a run. `None` if it can't be stopped from here.
    pub(super) fn token(&self, run: &Run) -> Option<String> {
        let process =
            holder(run).filter(|process| !self.was_sent(*process) && process.why_not().is_none())?;
        self.token_for(run, process)
    }

    fn token_for(&self, run: &Run, process: Process) -> Option<String> {
        let secret = self.secret.as_ref()?;
        let mut text = format!("{} {} ", run.id, process.key()).into_bytes();
        text.extend(secret);
        Some(sha256_hex(&text))
    }

    /// Stops a run.
    ///
    /// # Errors
    /// As a sentence.
    pub(super) fn stop(&self, run: &Run, token: &str) -> Result<(), String> {
        let process = holder(run).ok_or("The run is not in progress any more.")?;
        let expected = self.token_for(run, process).ok_or("This server can't stop runs.")?;
        if !bool::from(expected.as_bytes().ct_eq(token.as_bytes())) {
            return Err(
                "The form is too old: another process has the run now. Open its page again.".to_owned()
            );
        }
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.contains(&process) {
            return Ok(());
        }
        process.interrupt().map_err(|error| format!("The signal can't be sent: {error}"))?;
        sent.insert(process);
        Ok(())
    }

    fn was_sent(&self, process: Process) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).contains(&process)
    }
}

/// The process that holds the lock of a run.
fn holder(run: &Run) -> Option<Process> {
    Process::running(run.holder(&Locks::read(Path::new("/")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked() -> (tempfile::TempDir, File, Run) {
        let dir = tempfile::tempdir().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        lock.try_lock().unwrap();
        let run = Run { id: "0".repeat(16), path: dir.path().to_owned(), ..Run::default() };
        (dir, lock, run)
    }

    #[test]
    fn a_program_that_is_not_hone_is_never_interrupted() {
        let (_dir, lock, run) = locked();
        let stopper = Stopper::new(true).unwrap();
        // This test program holds the lock.
        let Some(StopOffer::Command { command, why }) = stopper.offer(&run) else { panic!("a button") };
        assert_eq!(command, format!("kill -INT {}", std::process::id()));
        assert!(why.contains("is not Hone"), "{why}");
        assert_eq!(stopper.token(&run), None);
        let token = stopper.token_for(&run, holder(&run).unwrap()).unwrap();
        assert!(stopper.stop(&run, &token).unwrap_err().contains("is not Hone"));
        drop(lock);
        assert_eq!(stopper.offer(&run), None);
        assert!(stopper.stop(&run, &token).unwrap_err().contains("not in progress"));
    }

    #[test]
    fn a_token_fits_one_process_of_one_run_of_one_server() {
        let (_dir, _lock, run) = locked();
        let [one, other] = [(); 2].map(|()| Stopper::new(true).unwrap());
        let process = holder(&run).unwrap();
        let token = one.token_for(&run, process).unwrap();
        assert_ne!(Some(&token), other.token_for(&run, process).as_ref());
        assert_ne!(Some(&token), one.token_for(&Run { id: "1".repeat(16), ..run.clone() }, process).as_ref());
        for wrong in ["", "x", &token[1..]] {
            assert!(one.stop(&run, wrong).unwrap_err().contains("too old"), "{wrong}");
        }
        let without = Stopper::new(false).unwrap();
        assert!(matches!(without.offer(&run), Some(StopOffer::Command { .. })));
        assert!(without.stop(&run, &token).unwrap_err().contains("can't stop"));
    }
}
