//! Logs that virtual machines wrote: two releases, each with five collectors.

use hone_jvm::pauses::PauseLog;

const LOGS: [(&str, &str); 10] = [
    ("17 G1", include_str!("logs/17-G1.log")),
    ("17 Parallel", include_str!("logs/17-Parallel.log")),
    ("17 Serial", include_str!("logs/17-Serial.log")),
    ("17 Shenandoah", include_str!("logs/17-Shenandoah.log")),
    ("17 Z", include_str!("logs/17-Z.log")),
    ("25 G1", include_str!("logs/25-G1.log")),
    ("25 Parallel", include_str!("logs/25-Parallel.log")),
    ("25 Serial", include_str!("logs/25-Serial.log")),
    ("25 Shenandoah", include_str!("logs/25-Shenandoah.log")),
    ("25 Z", include_str!("logs/25-Z.log")),
];

#[test]
fn every_safepoint_is_a_pause_and_those_of_collections_have_their_names() {
    for (name, text) in LOGS {
        let found = PauseLog::parse(text);
        let lines = text.lines().filter(|line| line.contains("] Safepoint \"")).count();
        assert_eq!((found.pauses.len(), found.not_understood), (lines, 0), "{name}");
        let collections = found.pauses.iter().filter(|pause| pause.is_collection()).count();
        assert!(collections * 2 > lines && found.has_safepoints, "{name}: {collections} of {lines}");
        assert!(found.pauses.iter().all(|pause| pause.total_ms > 0.0 && pause.total_ms < 1_000.0), "{name}");
        assert!(found.pauses.iter().all(|pause| pause.reaching_ms <= pause.total_ms), "{name}");
    }
}

/// A log may be cut anywhere: it rotates, or the program is killed.
#[test]
fn a_log_that_ends_anywhere_is_read_up_to_there() {
    for (name, text) in LOGS {
        let whole = PauseLog::parse(text);
        for end in (0..text.len()).step_by(37) {
            let Some(part) = text.get(..end) else { continue };
            let found = PauseLog::parse(part);
            assert!(found.pauses.len() <= whole.pauses.len() && found.not_understood <= 1, "{name} at {end}");
        }
    }
}
