//! CPU placement of the two arms of a duet: each has half of the cores, and they swap often.
//!
//! Without it, the scheduler may keep one arrangement of two brokers and two generators for a whole window. Which arm shares a
//! core with which process can double its CPU per request on a small virtual machine. With halves that swap several times per
//! second, both arms meet the same cores and the same neighbours.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use hone_host::{HostError, affinity};
use hone_load::Helpers;

/// Long compared with the microseconds of a move, short compared with a window.
const SWAP_EVERY: Duration = Duration::from_millis(250);

/// The two halves of the cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places([Vec<usize>; 2]);

/// An arm's process and the thread that loads it.
#[derive(Debug)]
pub struct Seat {
    /// The arm's process.
    pub pid: u32,
    /// Kernel id of the generator's thread; 0 until it runs.
    pub generator: AtomicI32,
    /// The generator's other threads and processes.
    pub helpers: Helpers,
}

impl Places {
    /// Two halves of the cores that this process may use; `None` with fewer than two cores.
    pub fn halves() -> Option<Self> {
        Self::of(&affinity::allowed_cores().ok()?)
    }

    fn of(cores: &[usize]) -> Option<Self> {
        let half = cores.len() / 2;
        (half > 0).then(|| Self([cores[..half].to_vec(), cores[half..half * 2].to_vec()]))
    }

    /// Swaps the arms between the halves until `done`.
    ///
    /// # Errors
    /// When the kernel refuses to bind an arm. A dead arm is no error here: its load will report it.
    pub fn swap_until(
        &self,
        seats: &[Seat; 2],
        first: usize,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), HostError> {
        let mut turn = first;
        while !done() {
            for side in moving_order(turn) {
                seats[side].take(&self.0[(side + turn) % 2])?;
            }
            turn += 1;
            let next = Instant::now() + SWAP_EVERY;
            while Instant::now() < next && !done() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }
}

/// The first arm to move meets the other one on its half, while the second arm finds its half free. So the first to move
/// alternates, too, at half the pace of the swaps. This way neither direction always starts with the same arm.
fn moving_order(turn: usize) -> [usize; 2] {
    if (turn / 2).is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

impl Seat {
    fn take(&self, cores: &[usize]) -> Result<(), HostError> {
        for process in std::iter::once(&self.pid).chain(&self.helpers.processes) {
            still_there(affinity::bind_tree(*process, cores))?;
        }
        for thread in &self.helpers.threads {
            still_there(affinity::bind_thread(*thread, cores))?;
        }
        match self.generator.load(Ordering::Relaxed) {
            0 => Ok(()),
            generator => still_there(affinity::bind_thread(generator, cores)),
        }
    }
}

/// A dead thread can't be bound, and need not be.
fn still_there(bound: Result<(), HostError>) -> Result<(), HostError> {
    match bound {
        Err(HostError::Vanished { .. }) => Ok(()),
        Err(HostError::Affinity { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_moves_first_equally_often_in_each_direction() {
        let mut firsts = [[0; 2]; 2];
        for turn in 0..40 {
            firsts[turn % 2][moving_order(turn)[0]] += 1;
        }
        assert_eq!(firsts, [[10; 2]; 2]);
    }

    #[test]
    fn halves_are_equal_and_disjoint() {
        assert_eq!(Places::of(&[0]), None);
        assert_eq!(Places::of(&[0, 1]), Some(Places([vec![0], vec![1]])));
        assert_eq!(Places::of(&[2, 3, 5, 6, 7]), Some(Places([vec![2, 3], vec![5, 6]])));
    }
}
