//! Two variants, pair by pair: the pairs to measure and their order ([`plan`]), their ratio with its confidence interval ([`estimate()`]),
//! and the verdict ([`judge()`]).
//!
//! Pure: no process, file, socket or clock, and no randomness without a seed, so that a comparison can be computed again from its record.
//!
//! The pair is the unit of resampling, never the request. Requests of one window share its neighbours, its caches and its layout, so they
//! are not independent.

mod change_points;
mod continuation;
mod design;
mod disturb;
mod estimate;
mod exact;
mod judge;
mod looks;
mod plan;
mod power;
mod random;
mod rounds;
mod saved;
mod shift;
mod spending;
mod stalls;
mod student;
mod tail;
mod turns;

pub use change_points::{CHANGE_POINT_RULE, MOST_VALUES, SIGNIFICANCE, change_points};
pub use continuation::{Further, further};
pub use design::{
    DEFAULT_GUARDS, DesignError, EQUAL_MEMORY_BYTES, USUAL_EFFECT, default_reserve, pilot, plan,
    refused_of_what_lives_on, too_few,
};
pub use disturb::{Neighbours, disturbance, disturbed, own_events};
pub use estimate::{FEWEST_BLOCKS, FEWEST_PAIRS, NotEstimated, Pairs, estimate};
pub use exact::{Count, more_often};
pub use judge::{Judged, control_differs, judge, pairs_to_settle};
pub use looks::{decided, hopeless};
pub use plan::{LookPlan, Plan};
pub use power::{Layout, Outlook, Promises, Widths, promises};
pub use rounds::{BASELINE, FEWEST_ROUNDS, RoundPlan, TWIN, refused_for_operations};
pub use saved::{
    FEWEST_WINDOWS, SavedRule, check_saved, compare_saved, geometric_mean, why_saved_does_not_count,
};
pub use shift::{Shift, shift};
pub use stalls::{StallPair, judge_stalls};
pub use turns::{More, Turns, place_of};
