//! Makes and merges profiles of BOLT, for `bench/fdata.sh`.
//!
//! `fdata make FOLDER FILES MEGABYTES in-order|shuffled`, `fdata merge OUTPUT FILE...`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hone_binary::bolt::fdata::{Weighted, merge};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["make", folder, files, megabytes, order] => {
            let (files, bytes) = (files.parse::<u64>()?, megabytes.parse::<usize>()? * 1_000_000);
            (0..files).try_for_each(|seed| make(Path::new(folder), seed, bytes, order == "shuffled"))
        }
        ["merge", output, .., _] => {
            let file = |name: &String| Weighted { file: PathBuf::from(name), weight: 1.0 };
            let files: Vec<Weighted> = args[2..].iter().map(file).collect();
            merge(&files, Path::new(output))?;
            Ok(())
        }
        _ => {
            bail!("usage: fdata make FOLDER FILES MEGABYTES in-order|shuffled, or fdata merge OUTPUT FILE...")
        }
    }
}

/// One file of the same program: of its branches about nine in ten have run, each time others.
fn make(folder: &Path, seed: u64, bytes: usize, shuffled: bool) -> Result<()> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut lines = Vec::new();
    let (mut size, mut function) = (0, 0_u64);
    while size < bytes {
        for branch in 0..function % 29 + 3 {
            if random() % 10 == 0 {
                continue;
            }
            let name = format!(
                "_ZN7service6stream{:03}11HandlerImplILi{function}EE6handleERKNS_7RequestE",
                function % 997
            );
            let (from, to) = (branch * 37 + 5, branch * 53 + 1);
            let (mispredicted, count) = (random() % 50, random() % 10_000_000);
            let line = if branch % 5 == 4 {
                let callee = function * 7919 % 40_000;
                format!("1 {name} {from:x} 1 _ZN7service4util{callee}EPKcm 0 {mispredicted} {count}\n")
            } else {
                format!("1 {name} {from:x} 1 {name} {to:x} {mispredicted} {count}\n")
            };
            size += line.len();
            lines.push(line);
        }
        function += 1;
    }
    if shuffled {
        for at in (1..lines.len()).rev() {
            lines.swap(at, (random() % (at as u64 + 1)) as usize);
        }
    }
    let path = folder.join(format!("{seed}.fdata"));
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    file.write_all(lines.concat().as_bytes())?;
    Ok(())
}
