//! Temporary.
#![allow(clippy::print_stdout, clippy::print_stderr)]
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let image = hone_diagnose::image::Image::parse(&bytes).unwrap();
    let stretches: Vec<(u64, u64)> =
        image.functions.iter().map(|f| (f.address, f.address + f.size)).collect();
    let start = std::time::Instant::now();
    let stacks = hone_diagnose::inlined::stacks(&bytes, &stretches).unwrap();
    eprintln!("{} functions, {:?}", stretches.len(), start.elapsed());
    let mut x = 12345u64;
    for _ in 0..2000 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (b, e) = stretches[(x >> 33) as usize % stretches.len()];
        if e <= b {
            continue;
        }
        let a = b + (x >> 17) % (e - b);
        let p = stacks.pieces(a, a + 1)[0];
        let frames = p.stack.map(|s| stacks.frames(s)).unwrap_or_default();
        let t: Vec<String> =
            frames.iter().map(|f| format!("{}@{}", f.name, f.source.as_deref().unwrap_or("-"))).collect();
        println!("0x{a:x}\t{}", t.join("\t"));
    }
}
