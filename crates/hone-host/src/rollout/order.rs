//! Order of hosts: first one canary that is not the controller's host, then the others of its rack, then rack by rack. The controller's
//! host is last, even against the user's wish. The order is computed again before each host, since the controller can move.

/// A host that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its index in the inventory.
    pub at: usize,
    /// Its rack, if it has one.
    pub rack: Option<&'a str>,
    /// Whether the cluster's controller is on it now.
    pub has_controller: bool,
    /// Whether the user wants it first.
    pub is_wanted_first: bool,
}

/// Index of the next host among those left. `last_rack` is the rack of the previous host.
///
/// Replicas of a partition are spread over racks, so a problem within one rack leaves the others whole. A rack is therefore finished before
/// the next one begins, except for a controller in it.
pub fn next(left: &[Candidate<'_>], last_rack: Option<&str>) -> Option<usize> {
    let of_controllers_rack = |host: &Candidate<'_>| {
        host.rack.is_some() && left.iter().any(|other| other.has_controller && other.rack == host.rack)
    };
    let rank = |host: &&Candidate<'_>| {
        (
            host.has_controller,
            !host.is_wanted_first,
            last_rack.is_some() && host.rack != last_rack,
            of_controllers_rack(host),
            host.rack.map(str::to_owned),
            host.at,
        )
    };
    left.iter().min_by_key(rank).map(|host| host.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which hosts of these racks come, the controller on one of them, which may move after each host.
    fn order(racks: &[&'static str], controller_after: &[usize], first: Option<usize>) -> Vec<usize> {
        let (mut done, mut last) = (Vec::new(), None);
        while done.len() < racks.len() {
            let controller = controller_after[done.len().min(controller_after.len() - 1)];
            let left: Vec<Candidate<'_>> = (0..racks.len())
                .filter(|at| !done.contains(at))
                .map(|at| Candidate {
                    at,
                    rack: Some(racks[at]).filter(|rack| !rack.is_empty()),
                    has_controller: at == controller,
                    is_wanted_first: first == Some(at),
                })
                .collect();
            let at = next(&left, last).unwrap();
            last = left.iter().find(|host| host.at == at).unwrap().rack;
            done.push(at);
        }
        done
    }

    #[test]
    fn a_rack_after_the_other_and_the_controller_last() {
        assert_eq!(order(&["a", "b", "a", "b"], &[1], None), [0, 2, 3, 1]);
        assert_eq!(order(&["a", "b", "a", "b"], &[0], None), [1, 3, 2, 0]);
        assert_eq!(order(&["", "", ""], &[0], None), [1, 2, 0]);
        assert_eq!(order(&["a"], &[0], None), [0]);
    }

    #[test]
    fn the_user_may_say_who_comes_first() {
        assert_eq!(order(&["a", "b", "c"], &[2], Some(1))[0], 1);
        // But not the controller's host, unless it is the only one.
        assert_eq!(order(&["a", "b"], &[0], Some(0)), [1, 0]);
        assert_eq!(order(&["a"], &[0], Some(0)), [0]);
    }

    #[test]
    fn a_controller_that_moves_is_still_last() {
        assert_eq!(order(&["", "", ""], &[0, 0, 2], None), [1, 2, 0]);
        assert_eq!(order(&["", "", ""], &[0, 2, 2], None), [1, 0, 2]);
    }

    #[test]
    fn nobody_is_left() {
        assert_eq!(next(&[], None), None);
    }
}
