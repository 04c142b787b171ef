//! Builds the tracer, which qemu loads: one library for each version of qemu's interface, by rustc alone.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "rustc, as cargo itself starts it; Hone is not there yet")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=tracer");
    println!("cargo:rerun-if-changed=src/cache.rs");
    // qemu loads the tracer, and distributions link qemu with glibc. So the tracer links with glibc, even in a Hone that is linked with
    // musl.
    let target = env::var("TARGET")?.replace("-musl", "-gnu");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    for abi in ["1", "2"] {
        let library = out.join(format!("tracer-{abi}.so"));
        let status = Command::new(env::var_os("RUSTC").ok_or("cargo names no RUSTC")?)
            .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "hone_tracer"])
            // The tracer runs inside the target for every block, so it is always optimized.
            .args(["-C", "opt-level=3", "-C", "codegen-units=1"])
            // A panic must not unwind into qemu.
            .args(["-C", "panic=abort", "-C", "strip=symbols", "-D", "warnings"])
            .args(["--cfg", &format!("abi=\"{abi}\""), "--check-cfg", "cfg(abi, values(\"1\", \"2\"))"])
            .args(["--check-cfg", "cfg(test)", "--target", &target])
            .arg("tracer/tracer.rs")
            .arg("-o")
            .arg(&library)
            .status()?;
        if !status.success() {
            return Err(format!("rustc could not build the tracer ({status})").into());
        }
        println!("cargo:rustc-env=HONE_TRACER_{abi}={}", library.display());
    }
    Ok(())
}
