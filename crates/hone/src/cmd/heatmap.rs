//! `hone heatmap`: shows the memory locations of executed code, for one program or before and after a change.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hone_format::read_bytes;
use hone_record::{Envelope, HEAT_LINE_BYTES, HEAT_PAGE_BYTES, Heatmap};

use crate::cmd::context::{CliContext, paths};
use hone_document::heat_blocks;
use hone_document::heatmap::{self as shown, Look};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::output::Output;
use hone_optimize::heat::{self, Source, Wish};

/// Width in columns if neither COLUMNS nor the terminal gives one.
const COLUMNS: usize = 80;

/// Show where executed code is in memory, before and after a change.
///
/// A source is a run folder of `hone diagnose`, a callgrind file (--dump-instr=yes), or the output of perf record. It can also be a heatmap
/// saved as JSON, or a BOLT profile with --program. Every cell is a share of the execution.
///
/// Without -o, Hone prints the heatmap. With -o, the extension selects the format: .html (with zoom), .svg, .png, .json (the record), .csv (one
/// row per line of memory) or .txt (as llvm-bolt-heatmap).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone diagnose -- xz -k -T1 file  # writes runs/diagnosis-001
  hone heatmap runs/diagnosis-001  # prints to the terminal
  hone heatmap runs/diagnosis-001 runs/diagnosis-002 -o moved.html
  hone heatmap runs/diagnosis-001 runs/diagnosis-002 --block-size 12KiB
  hone heatmap runs/diagnosis-001 --object libc.so.6 -o libc.svg
  valgrind --tool=callgrind --dump-instr=yes ./server \\
    && hone heatmap callgrind.out.1234 -o heat.txt
  hone heatmap server.fdata --program ./server -o heat.html  # BOLT's counts")]
pub(crate) struct Arguments {
    /// Source of the heatmap.
    source: PathBuf,
    /// Second source, shown at the same scale.
    other: Option<PathBuf>,
    /// Where to write the result. The file's extension selects the format.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print one letter for each block of this size, for example 12KiB. The letter names the section, lower case marks cold code, and a dot a
    /// block that never ran.
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    block_size: Option<u64>,
    /// Program or library to show, by name or part of its path. [default: the most executed one]
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Program (executable file). It is the program of a BOLT profile. Give it once, or once for each source.
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Show only the threads with this name.
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
}

impl Arguments {
    /// The program of a source, by the source's index.
    fn program(&self, source: usize) -> Option<&Path> {
        self.program.get(source).or(self.program.last()).map(PathBuf::as_path)
    }
}

/// Reads the size of a block. Counts exist per line of 64 B and per page of 4 KiB, so a block must consist of whole lines or pages.
fn block_size(text: &str) -> Result<u64, String> {
    let bytes = read_bytes(text)?;
    let unit = if bytes > HEAT_PAGE_BYTES { HEAT_PAGE_BYTES } else { HEAT_LINE_BYTES };
    match bytes.is_multiple_of(unit) && (HEAT_LINE_BYTES..=1 << 30).contains(&bytes) {
        true => Ok(bytes),
        false => {
            Err("must be a multiple of 64 B up to 4 KiB, or of 4 KiB up to 1 GiB, for example 12KiB"
                .to_owned())
        }
    }
}

/// The output format that a file's extension selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Svg,
    Png,
    Json,
    Csv,
    Classic,
}

impl Form {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Ok(Self::Html),
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("txt") => Ok(Self::Classic),
            _ => Err(Usage(format!(
                "unknown format of {}\n  next: use the extension .html, .svg, .png, .json, .csv or .txt",
                path.display()
            ))
            .into()),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let form = arguments.output.as_deref().map(Form::of).transpose()?;
    if arguments.block_size.is_some() && form.is_some_and(|form| form != Form::Classic) {
        let told =
            "--block-size prints letters, which fit only .txt files\n  next: omit -o, or use -o FILE.txt";
        return Err(Usage(told.to_owned()).into());
    }
    if arguments.block_size.is_none() && form == Some(Form::Classic) && arguments.other.is_some() {
        let told = "a .txt heatmap holds one source\n  next: write one .txt file per source, or both \
                    sources to an .html file";
        return Err(Usage(told.to_owned()).into());
    }
    let wish = Wish { object: arguments.object.clone(), thread: arguments.thread.clone() };
    let sources = std::iter::once(&arguments.source)
        .chain(&arguments.other)
        .enumerate()
        .map(|(index, path)| heat::read(path, arguments.program(index)))
        .collect::<Result<Vec<_>>>()?;
    let map = heat::map(&sources, &wish)?;
    let (Some(path), Some(form)) = (&arguments.output, form) else {
        let look = look();
        return cli.show(map, |map| match arguments.block_size {
            Some(bytes) => heat_blocks::text(map, bytes, &look),
            None => shown::text(map, &look),
        });
    };
    let mut written = Vec::new();
    let files = match arguments.block_size {
        Some(bytes) => {
            let plain = Look { columns: COLUMNS, has_colours: false };
            vec![(path.clone(), heat_blocks::text(&map, bytes, &plain).into_bytes())]
        }
        None => files(path, form, &map, &sources, &wish)?,
    };
    for (path, bytes) in files {
        Output::claim(&path)?.keep(bytes)?;
        written.push(path);
    }
    cli.show_found("files", &written, |written| paths(written))
}

fn files(
    path: &Path,
    form: Form,
    map: &Heatmap,
    sources: &[Source],
    wish: &Wish,
) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let bytes = match form {
        Form::Html => hone_report::documents::heatmap(map).html().into_bytes(),
        Form::Svg => hone_report::heatmap::svg(map).into_bytes(),
        Form::Png => hone_report::heatmap::png(map).map_err(anyhow::Error::msg)?,
        Form::Json => Envelope::new(map.clone()).to_text()?.into_bytes(),
        Form::Csv => shown::csv(map).into_bytes(),
        Form::Classic => return classic(path, sources, wish),
    };
    Ok(vec![(path.to_owned(), bytes)])
}

/// Returns the text and the two CSV files, with the names that `llvm-bolt-heatmap -o` uses.
fn classic(path: &Path, sources: &[Source], wish: &Wish) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let [Source::Ran(ran)] = sources else {
        let told = "a saved heatmap lacks data that a .txt heatmap needs\n  next: name the run that the \
                    heatmap came from";
        return Err(Usage(told.to_owned()).into());
    };
    let found = ran.classic(wish)?;
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    Ok(vec![
        (path.to_owned(), found.text.into_bytes()),
        (beside(".csv"), found.curve_csv.into_bytes()),
        (beside("-section-hotness.csv"), found.sections_csv.into_bytes()),
    ])
}

/// Width and colours of the terminal.
pub(super) fn look() -> Look {
    let is_terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_dumb = set("TERM").is_some_and(|term| term == "dumb");
    let told = set("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok());
    let columns = told.or_else(|| is_terminal.then(columns).flatten()).unwrap_or(COLUMNS);
    Look { columns, has_colours: is_terminal && set("NO_COLOR").is_none() && !is_dumb }
}

/// The terminal's width according to the kernel.
fn columns() -> Option<usize> {
    // SAFETY: a winsize is plain numbers, for which zeros are values.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the struct that is passed, and keeps no pointer to it.
    let failed = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (failed == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_the_form() {
        assert_eq!(Form::of(Path::new("a.b/x.svg")).unwrap(), Form::Svg);
        assert_eq!(Form::of(Path::new("x.txt")).unwrap(), Form::Classic);
        assert_eq!(block_size("12KiB"), Ok(12 << 10));
        assert_eq!(block_size("64"), Ok(64));
        for text in ["0", "100", "5000", "2GiB", "x"] {
            assert!(block_size(text).is_err(), "{text}");
        }
        for path in ["x", "x.pdf", "x.html/y"] {
            let error = Form::of(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("use the extension .html, .svg"), "{error}");
        }
    }
}
