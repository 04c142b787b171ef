//! Events that perf could not open. The metrics that need them have no numbers, although the other counters ran.

use super::pattern::{Pattern, pattern};

/// perf's text instead of a count.
const NOT_SUPPORTED: &str = "<not supported>";

/// The name of an event in an object.
static EVENT: Pattern = Pattern::new(|| pattern(r#""event"\s*:\s*"([^"]+)""#));

/// Their names, each once, in order of appearance.
pub(super) fn events(text: &str) -> Vec<String> {
    let mut events: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((_, behind)) = line.split_once(NOT_SUPPORTED) else { continue };
        let event = match EVENT.captures(line) {
            Some(found) => Some(found[1].to_owned()),
            // In CSV an empty unit precedes it.
            None => behind.split([' ', '\t', ',', ';']).find(|word| !word.is_empty()).map(str::to_owned),
        };
        events.extend(event.filter(|event| !events.contains(event)));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_could_not_be_opened_are_named_in_each_shape() {
        let text = "   <not supported>      INT_MISC.RECOVERY_CYCLES_ANY:u   \n 5  cycles\n<not supported>;;slots;0;100.00;;\n\
                    {\"counter-value\" : \"<not supported>\", \"event\" : \"cycles\", }\n<not supported> slots\n<not supported>\n";
        assert_eq!(events(text), ["INT_MISC.RECOVERY_CYCLES_ANY:u", "slots", "cycles"]);
    }
}
