//! `hone diagnose`: why the CPU stalls, and whether a better layout of the code can help.

use std::fs;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_diagnose::{topdown, verdict};
use hone_record::{Diagnosed, Diagnosis, Evidence};

use super::Desk;
use crate::{Ending, show};

/// More than this is no output of `perf stat`.
const MOST_BYTES: u64 = 64 << 20;

/// Say why the CPU stalls, and whether a better layout of the code can help.
///
/// Reads the top-down slots that perf stat, toplev or Arm's topdown-tool printed, in any of their shapes (text, JSON, CSV), holds them
/// against what shares can be, and gives a verdict with the rule that fired, where it is from, and the most that a layout can save.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  perf stat -j -p \"$(pidof -s redis-server)\" -M TopdownL1,TopdownL2 sleep 10 2> slots.json     (Intel, Arm)
  perf stat -j -p \"$(pidof -s redis-server)\" -M PipelineL1,PipelineL2 sleep 10 2> slots.json   (AMD)
  hone diagnose --read slots.json --user-share 64%")]
pub(crate) struct Arguments {
    /// What perf stat or toplev printed; `-` is standard input.
    #[arg(long, value_name = "FILE", required = true)]
    read: PathBuf,
    /// How much of the CPU is user code of the program, such as 64%: no layout touches the rest. `hone optimize` tells it as the
    /// ceiling.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    user_share: Option<f64>,
}

/// `64%` or `64`, of 1.
fn share(text: &str) -> Result<f64, String> {
    let percent: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| "is no share; write it as a percentage, such as 64%".to_owned())?;
    if percent > 0.0 && percent < 1.0 && !text.contains('%') {
        return Err(format!("is less than one per cent; did you mean {}%?", 100.0 * percent));
    }
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("must lie between 0% and 100%".to_owned())
    }
}

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let name = match &arguments.read {
        path if path == Path::new("-") => "standard input".to_owned(),
        path => path.display().to_string(),
    };
    let readings =
        topdown::read(&text(&arguments.read)?).with_context(|| format!("{name} gives no diagnosis"))?;
    let part = |(scope, judged): (Option<String>, Result<hone_record::Slots, topdown::Fault>)| match judged {
        Ok(slots) => {
            let verdict = Some(verdict::of_slots(&slots, arguments.user_share));
            Diagnosed { scope, slots: Some(slots), verdict, refused: None }
        }
        Err(fault) => Diagnosed { scope, slots: None, verdict: None, refused: Some(fault.to_string()) },
    };
    let parts: Vec<Diagnosed> = topdown::judge(&readings).into_iter().map(part).collect();
    let any = parts.iter().any(|part| part.slots.is_some());
    let diagnosis =
        Diagnosis { evidence: Evidence::Measured, source: name, user_share: arguments.user_share, parts };
    desk.show(diagnosis, show::diagnosis::text)?;
    // What can't be believed is no diagnosis.
    Ok(if any { Ending::Done } else { Ending::CouldNot })
}

fn text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        stdin().take(MOST_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("{} can't be read", path.display()))?;
    anyhow::ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "{} is larger than 64 MiB, which no output of perf stat is; is it perf's data? Those are samples: hone optimize takes them",
        path.display()
    );
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!((share("64%"), share("64"), share("0")), (Ok(0.64), Ok(0.64), Ok(0.0)));
        assert!(share("120%").unwrap_err().contains("between"), "{:?}", share("120%"));
        assert!(share("0.64").unwrap_err().contains("did you mean 64%?"));
        assert_eq!(share("0.5%"), Ok(0.005));
        assert!(share("half").unwrap_err().contains("such as 64%"));
    }
}
