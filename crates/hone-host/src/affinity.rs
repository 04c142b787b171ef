//! CPU affinity: reads it, and sets it for processes that the caller started itself.

use std::fs;
use std::io;
use std::mem;
use std::path::Path;

use crate::cpu::tree_of;
use crate::error::HostError;

/// Cores that the calling thread may run on, ascending.
///
/// # Errors
/// Returns an error when the kernel does not report it.
pub fn allowed_cores() -> Result<Vec<usize>, HostError> {
    // SAFETY: an all-zero set is a valid value, and the size passed is its size.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        (libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set), set)
    };
    if result != 0 {
        return Err(HostError::Affinity { task: 0, source: io::Error::last_os_error() });
    }
    // SAFETY: the index stays below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
}

/// Pins a process and all its descendants, with every thread, to these cores. Later threads and processes inherit the affinity from the one
/// that starts them.
///
/// # Errors
/// Returns an error when the process is gone, or the kernel refuses.
pub fn bind_tree(pid: u32, cores: &[usize]) -> Result<(), HostError> {
    for member in tree_of(Path::new("/"), pid)? {
        match bind_process(member, cores) {
            // A descendant may end between the listing and the call.
            Err(HostError::Vanished { pid: gone }) if gone != pid => {}
            other => other?,
        }
    }
    Ok(())
}

fn bind_process(pid: u32, cores: &[usize]) -> Result<(), HostError> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))
        .map_err(|_| HostError::Vanished { pid })?;
    for task in tasks.flatten() {
        if let Some(task) = task.file_name().to_str().and_then(|name| name.parse().ok()) {
            match bind_thread(task, cores) {
                // A thread may end between the listing and the call.
                Err(HostError::Affinity { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// Pins one thread, named by its kernel id, to these cores.
///
/// # Errors
/// Returns an error when the thread is gone, or the kernel refuses.
pub fn bind_thread(task: i32, cores: &[usize]) -> Result<(), HostError> {
    // SAFETY: an all-zero set is a valid value; indices are checked against its size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for &core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(task, mem::size_of_val(&set), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(HostError::Affinity { task, source: io::Error::last_os_error() }) }
}

/// Kernel id of the calling thread, for [`bind_thread`].
pub fn this_thread() -> i32 {
    // SAFETY: the call has no side effects.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_bound() {
        let all = allowed_cores().unwrap();
        std::thread::spawn(move || {
            bind_thread(this_thread(), &all[..1]).unwrap();
            assert_eq!(allowed_cores().unwrap(), all[..1]);
            bind_thread(this_thread(), &all).unwrap();
            assert_eq!(allowed_cores().unwrap(), all);
            assert!(bind_thread(this_thread(), &[]).is_err(), "no core at all was accepted");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_process_that_is_gone_is_named() {
        assert!(matches!(bind_tree(u32::MAX / 2, &[0]), Err(HostError::Vanished { .. })));
    }
}
