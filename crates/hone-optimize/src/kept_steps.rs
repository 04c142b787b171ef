//! How a run says that its steps stay when it is broken off.

use hone_tool::interrupt;

/// An error of a run whose finished steps stay, with the command that goes on; `more` is said of what the user did not end.
pub(crate) fn with_way_on(error: &anyhow::Error, way_on: &str, more: &str) -> anyhow::Error {
    // Of an interrupt the user knows the reason.
    if interrupt::requested() {
        return anyhow::anyhow!("interrupted; finished steps are kept. To go on: {way_on}");
    }
    anyhow::anyhow!(
        "{error:#}\nbroken off; finished steps are kept. To go on once the reason is gone: {way_on}{more}"
    )
}
