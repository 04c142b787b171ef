//! A plugin for qemu's user mode. By thread, it records which blocks of code ran, how often and after which other block. It also records
//! the misses of modelled structures, and windows of the exact order.
//!
//! build.rs builds it with rustc alone, for both versions of qemu's interface (`--cfg abi="1"` and `"2"`), and Hone embeds it. It uses no
//! crate except `std`. Each process of the target has its own file. A thread of the tracer rewrites it every few seconds, so that a killed
//! target loses only seconds of data.

#[path = "../src/cache.rs"]
#[allow(dead_code)]
mod cache;
mod code;
mod keeper;
mod places;
mod qemu;
mod settings;
mod table;
mod thread;
mod transitions;
mod write;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use code::Block;
use qemu::Id;
use settings::{Settings, settings};

/// Version of the interface. qemu refuses a plugin with another version.
#[cfg(abi = "1")]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;
#[cfg(abi = "2")]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 2;

/// qemu calls it once, before the program begins.
///
/// # Safety
/// qemu guarantees that `arguments` are `count` strings that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const qemu::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: see above.
    let words = (0..count).map(|index| unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy());
    let Some(settings) = Settings::of(words) else { return -1 };
    settings::begin(settings);
    // SAFETY: the calls are `extern "C"` functions of this file that live as long as the process.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_exit_cb(id, thread_ended);
        qemu::qemu_plugin_register_atexit_cb(id, ended, ptr::null_mut());
    }
    keeper::begin();
    0
}

/// A block is about to be translated: from now on it reports its executions.
extern "C" fn translated(_id: Id, translation: *mut c_void) {
    // SAFETY: qemu passes a block that is being translated.
    let Some(block) = (unsafe { code::block_of(translation) }) else { return };
    let data = ptr::from_ref::<Block>(block).cast_mut().cast();
    let call = match (settings().caches, settings().period > 0) {
        (false, false) => executed::<false, false>,
        (false, true) => executed::<false, true>,
        (true, false) => executed::<true, false>,
        (true, true) => executed::<true, true>,
    };
    // SAFETY: the block is never freed.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(translation, call, qemu::NO_REGISTERS, data) };
    if settings().data {
        // SAFETY: qemu passes a block that is being translated; indexes are below the number of its instructions.
        unsafe {
            for index in 0..qemu::qemu_plugin_tb_n_insns(translation) {
                let instruction = qemu::qemu_plugin_tb_get_insn(translation, index);
                qemu::qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    accessed,
                    qemu::NO_REGISTERS,
                    qemu::READS_AND_WRITES,
                    ptr::null_mut(),
                );
            }
        }
    }
}

/// An instruction loads or stores.
extern "C" fn accessed(index: u32, access: u32, address: u64, _data: *mut c_void) {
    // SAFETY: the call only reads its argument.
    let bytes = 1_u64 << unsafe { qemu::qemu_plugin_mem_size_shift(access) };
    // SAFETY: this is the thread with that number.
    unsafe { thread::accesses(index, address, bytes) };
}

/// A block runs, on the host's thread that is the target's thread `index`.
extern "C" fn executed<const CACHES: bool, const WINDOWS: bool>(index: u32, data: *mut c_void) {
    // SAFETY: the value from `translated`.
    let block = unsafe { &*data.cast::<Block>() };
    // SAFETY: this is the thread with that number.
    unsafe { thread::runs::<CACHES, WINDOWS>(index, block) };
}

/// A thread of the target ends. A later thread may get its number.
extern "C" fn thread_ended(_id: Id, index: u32) {
    // SAFETY: qemu calls it on that thread.
    unsafe { thread::ended(index) };
}

/// The process ends normally.
extern "C" fn ended(_id: Id, _data: *mut c_void) {
    keeper::end();
}
