#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hone_host::fuzzing::lint(data));
