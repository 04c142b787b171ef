//! Profiles in a store, as text.

use std::path::PathBuf;

use hone_format::{bytes, count};
use hone_report::date_utc;

use crate::fleet::{Build, Fetched, Pushed};
use hone_document::table::table;
use hone_document::{plain, wrapped};

/// The result of pulling profiles from a store.
#[derive(Debug, serde::Serialize)]
pub struct Pulled {
    /// The build-id of the program.
    pub build_id: String,
    /// The folder of the pulled profiles.
    pub folder: PathBuf,
    /// The pulled profiles.
    pub profiles: Vec<Fetched>,
    /// Names of the broken ones, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Characters of a build-id in the text, enough to tell builds apart. `--json` has the complete one.
const BUILD_ID_CHARACTERS: usize = 40;
/// Number of profiles that are listed one by one.
const MOST_ROWS: usize = 20;

/// The pushed profiles.
pub fn pushed(found: &[Pushed], place: &str, host: &str) -> String {
    let mut out = String::new();
    for one in found.iter().take(MOST_ROWS) {
        let was = if one.was_there { "existed already" } else { "pushed" };
        let file = plain(&one.file.display().to_string());
        out.push_str(&format!("{file}: {was}, {}, build {}\n", bytes(one.bytes), plain(&one.build_id)));
    }
    out.push_str(&more(found.len()));
    let new = found.iter().filter(|one| !one.was_there).count();
    out.push_str(&format!("{} pushed to {} as {host}\n", count(new as u64), plain(place)));
    out
}

fn more(all: usize) -> String {
    let rest = all.saturating_sub(MOST_ROWS);
    if rest == 0 { String::new() } else { format!("  and {} more\n", count(rest as u64)) }
}

/// The contents of a store.
pub fn builds(found: &[Build], place: &str) -> String {
    if found.is_empty() {
        return format!(
            "{} has no profiles\nnext: hone profile push PROFILE --store {}\n",
            plain(place),
            plain(place)
        );
    }
    let head = ["build", "kind", "hosts", "profiles", "first", "last"].map(str::to_owned).to_vec();
    let rows = found.iter().map(|build| {
        let id: String = build.build_id.chars().take(BUILD_ID_CHARACTERS).collect();
        let (first, last) = match build.profiles {
            0 => ("-".to_owned(), "-".to_owned()),
            _ => (date_utc(build.first_unix_ms), date_utc(build.last_unix_ms)),
        };
        vec![id, build.kinds.join(", "), count(build.hosts), count(build.profiles), first, last]
    });
    let mut out = table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    let foreign: u64 = found.iter().map(|build| build.foreign).sum();
    if foreign > 0 {
        out.push_str(&format!("note: {} objects there are not profiles\n", count(foreign)));
    }
    out
}

/// The pulled profiles.
pub fn pulled(found: &Pulled) -> String {
    let new = found.profiles.iter().filter(|one| !one.was_there).count();
    let mut hosts: Vec<&str> = found.profiles.iter().map(|one| one.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut out = format!(
        "{} profiles of {} hosts, build {}, in {}; {} of them existed already\n",
        count(found.profiles.len() as u64),
        count(hosts.len() as u64),
        plain(&found.build_id),
        plain(&found.folder.display().to_string()),
        count((found.profiles.len() - new) as u64)
    );
    for (name, reason) in found.left_out.iter().take(MOST_ROWS) {
        out.push_str(&format!("skipped: {}\n", wrapped(&plain(&format!("{name}: {reason}")))));
    }
    out.push_str(&more(found.left_out.len()));
    out
}
