//! Hardware counters, found by opening them. A tool's list of events proves nothing: it comes from the CPU's model number, and a virtual
//! machine has the number without the counters.

use std::hint::black_box;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use hone_record::PmuState;

/// The kernel's answers to the two attempts. An error is an `errno` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmuAnswers {
    /// Instructions counted over a short loop of this thread, or why the counter did not open.
    pub instructions: Result<u64, i32>,
    /// Whether an event with branch records opened.
    pub branches: Result<(), i32>,
}

/// Events that this machine's kernel lets this process open, in user mode, for itself.
pub fn probe() -> PmuState {
    judge(ask())
}

/// Opens the counters.
pub fn ask() -> PmuAnswers {
    PmuAnswers {
        instructions: count_instructions().map_err(number),
        branches: open(&Attributes::branch_records()).map(drop).map_err(number),
    }
}

fn number(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Meaning of the answers. The code is pure.
///
/// A counter that opens and stays at zero does not count: some virtual machines have dead counters. A lack of rights says nothing about the
/// hardware, so it has a state of its own.
pub fn judge(answers: PmuAnswers) -> PmuState {
    match answers.instructions {
        Ok(0) => PmuState::None,
        Ok(_) if answers.branches.is_ok() => PmuState::CountersAndBranches,
        Ok(_) => PmuState::Counters,
        Err(libc::EACCES | libc::EPERM) => PmuState::Forbidden,
        Err(_) => PmuState::None,
    }
}

/// `struct perf_event_attr` up to `branch_sample_type`: the 80 bytes that kernels since 3.4 know (version 2 in
/// linux/perf_event.h). A newer kernel takes the missing rest as zero.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
}

// Values of linux/perf_event.h.
const TYPE_HARDWARE: u32 = 0;
const HARDWARE_CPU_CYCLES: u64 = 0;
const HARDWARE_INSTRUCTIONS: u64 = 1;
const SAMPLE_BRANCH_STACK: u64 = 1 << 11;
const BRANCH_USER: u64 = 1;
const BRANCH_ANY: u64 = 1 << 3;
const FLAG_DISABLED: u64 = 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const OPEN_CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

impl Attributes {
    /// User mode only: ordinary users may count only this, and a build can change only this.
    fn in_user_mode(config: u64) -> Self {
        Self {
            kind: TYPE_HARDWARE,
            size: size_of::<Self>() as u32,
            config,
            flags: FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HYPERVISOR,
            ..Self::default()
        }
    }

    fn instructions() -> Self {
        Self::in_user_mode(HARDWARE_INSTRUCTIONS)
    }

    /// Opened disabled, since the question is only whether it opens.
    fn branch_records() -> Self {
        let cycles = Self::in_user_mode(HARDWARE_CPU_CYCLES);
        Self {
            flags: cycles.flags | FLAG_DISABLED,
            sample_period: 1_000_003,
            sample_type: SAMPLE_BRANCH_STACK,
            branch_sample_type: BRANCH_USER | BRANCH_ANY,
            ..cycles
        }
    }
}

/// Opens an event on the calling thread, on any core.
fn open(attributes: &Attributes) -> io::Result<OwnedFd> {
    let (this_thread, any_core, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the structure is as long as its `size` field says and outlives the call; the kernel only reads it (and
    // writes `size` when it refuses the length, within the structure).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            this_thread,
            any_core,
            no_group,
            OPEN_CLOSE_ON_EXEC,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(answer).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor for us, and it has no other owner.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    debug_assert!(owned.as_raw_fd() >= 0);
    Ok(owned)
}

/// Counts the instructions of a loop that takes about a millisecond.
fn count_instructions() -> io::Result<u64> {
    let mut counter = std::fs::File::from(open(&Attributes::instructions())?);
    let mut sum = 0_u64;
    for step in 0..1_000_000_u64 {
        sum = black_box(sum.wrapping_add(step));
    }
    black_box(sum);
    let mut value = [0_u8; 8];
    counter.read_exact(&mut value)?;
    Ok(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENOTSUPP, which the kernel's drivers use although it has no name outside.
    const NOT_SUPPORTED_INSIDE: i32 = 524;

    #[track_caller]
    fn check(instructions: Result<u64, i32>, branches: Result<(), i32>, expected: PmuState) {
        assert_eq!(judge(PmuAnswers { instructions, branches }), expected);
    }

    #[test]
    fn answers_and_what_they_mean() {
        check(Ok(1_000_000), Ok(()), PmuState::CountersAndBranches);
        check(Ok(1_000_000), Err(libc::EOPNOTSUPP), PmuState::Counters);
        check(Ok(1_000_000), Err(libc::EACCES), PmuState::Counters);
        check(Ok(0), Ok(()), PmuState::None);
        check(Err(libc::ENOENT), Err(libc::ENOENT), PmuState::None);
        check(Err(libc::EOPNOTSUPP), Err(libc::EOPNOTSUPP), PmuState::None);
        check(Err(NOT_SUPPORTED_INSIDE), Err(NOT_SUPPORTED_INSIDE), PmuState::None);
        check(Err(libc::ENOSYS), Err(libc::ENOSYS), PmuState::None);
        check(Err(libc::EACCES), Err(libc::EACCES), PmuState::Forbidden);
        check(Err(libc::EPERM), Err(libc::EPERM), PmuState::Forbidden);
    }

    #[test]
    fn the_structure_has_the_length_that_the_kernel_knows() {
        assert_eq!(size_of::<Attributes>(), 80);
        assert_eq!(std::mem::offset_of!(Attributes, branch_sample_type), 72);
    }

    /// Software events open on every kernel that has the call, so the structure itself is understood.
    #[test]
    fn the_kernel_understands_the_structure() {
        const TYPE_SOFTWARE: u32 = 1;
        const SOFTWARE_DUMMY: u64 = 9;
        let software = Attributes { kind: TYPE_SOFTWARE, ..Attributes::in_user_mode(SOFTWARE_DUMMY) };
        match open(&software).map(drop).map_err(number) {
            Ok(()) | Err(libc::EACCES | libc::EPERM | libc::ENOSYS) => {}
            Err(other) => panic!("errno {other}"),
        }
        let nonsense = Attributes { kind: TYPE_SOFTWARE, ..Attributes::in_user_mode(u64::MAX >> 1) };
        assert!(open(&nonsense).is_err());
    }

    #[test]
    fn the_same_question_gets_the_same_answer() {
        let state = probe();
        assert_eq!(probe(), state);
        let answers = ask();
        // A million additions can't take fewer instructions than that.
        if let Ok(instructions @ 1..) = answers.instructions {
            assert!(instructions > 1_000_000, "{answers:?}");
        }
    }
}
