//! A disk that is full for a while, anywhere in a journal: the kernel takes what fits of a line. In a process of its own, since the bound
//! on how long files may be is one of the process.

use std::fs;

use hone_host::change::{Step, apply, revert, snapshot, touched};
use hone_host::journal::{self, Begun, FORMAT, Journal, Willing};
use hone_host::knob::{DeviceKnob, by_name};

mod model;
use model::Model;

/// As long as it lives files end at this length; `None` for no bound.
fn files_end_at(bytes: Option<u64>) {
    let mut bound = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a signal that is ignored, and a bound that is read and set again, at valid places.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut bound), 0);
        bound.rlim_cur = bytes.map_or(bound.rlim_max, |bytes| bytes.min(bound.rlim_max));
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const bound), 0);
    }
}

fn steps(model: &Model) -> Vec<Step> {
    let step = |(name, device, value): (&str, Option<&str>, &str)| {
        let place = DeviceKnob::new(by_name(name).unwrap(), device);
        Step { path: place.path(), value: value.to_owned(), closure: place.closure(model) }
    };
    [
        ("queue.scheduler", Some("vda"), "none"),
        ("vm.dirty_bytes", None, "1073741824"),
        ("vm.swappiness", None, "1"),
    ]
    .map(step)
    .into()
}

#[test]
fn what_fits_of_a_line_is_taken_away_again_and_everything_comes_back() {
    let mut cut = 0;
    for piece in 0.. {
        let model = Model::new(&[("vda", "mq-deadline")]);
        let (before, steps) = (model.all(), steps(&model));
        let root = tempfile::tempdir().unwrap();
        let begun = Begun {
            journal: FORMAT,
            id: "00001".to_owned(),
            before: snapshot(&model, &touched(&steps)),
            ..Begun::default()
        };
        let known = begun.before.clone();
        let mut journal = Journal::begin(root.path(), begun).unwrap();
        let bytes = fs::metadata(journal.path()).unwrap().len() + 29 * piece;
        files_end_at(Some(bytes));
        let ended = apply(&model, &mut journal, &known, &steps, &|| false);
        files_end_at(None);
        if ended.is_ok() {
            break;
        }
        cut += 1;
        // There is room again: the same journal goes on, and is one.
        let state = journal::read(journal.path()).unwrap();
        assert!(!state.applied, "{bytes} bytes");
        let mut willing = Willing::over(Ok(&mut journal));
        revert(&model, &mut willing, &state, false).unwrap();
        assert_eq!(willing.unkept, None, "{bytes} bytes");
        assert_eq!(model.all(), before, "{bytes} bytes");
        assert!(journal::read(journal.path()).unwrap().closed, "{bytes} bytes");
    }
    assert!(cut >= 20, "{cut} places");
}
