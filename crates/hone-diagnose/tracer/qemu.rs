//! The used part of qemu's plugin interface. It is declared here from qemu's documentation, since Debian ships no header.
//!
//! Version 1 is the interface of qemu 4.2 to 8, version 2 and newer that of 9 and later. The part used here is the same in both. A plugin
//! states its version, and qemu refuses an unknown one.

use std::ffi::{c_char, c_int, c_void};

pub(crate) type Id = u64;

/// The beginning of qemu's description of itself.
#[repr(C)]
pub struct Info {
    target_name: *const c_char,
    least_version: c_int,
    version: c_int,
    is_system: bool,
}

/// Registers are neither read nor written.
pub(crate) const NO_REGISTERS: c_int = 0;
/// Loads and stores.
pub(crate) const READS_AND_WRITES: c_int = 3;

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: extern "C" fn(Id, *mut c_void));
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        call: extern "C" fn(u32, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        call: extern "C" fn(u32, u32, u64, *mut c_void),
        flags: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_mem_size_shift(access: u32) -> u32;
    pub(crate) fn qemu_plugin_register_vcpu_exit_cb(id: Id, call: extern "C" fn(Id, u32));
    pub(crate) fn qemu_plugin_register_atexit_cb(
        id: Id,
        call: extern "C" fn(Id, *mut c_void),
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    pub(crate) fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    pub(crate) fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    pub(crate) fn qemu_plugin_insn_haddr(instruction: *const c_void) -> *const c_void;
}
