//! What groups take up in memory, and whether there is room for more of it.
//!
//! The sum over all groups is kept: whatever may have grown is weighed again at the end of the step. A step that would
//! grow beyond the limit is refused before anything has changed; one that adds nothing never is, however full it is.

use super::Groups;
use super::answers::Refusal;
use super::classic::{self, Classic};
use super::consumer::{self, Consumer, ENTRY_BYTES, names_bytes};
use super::group::Group;
use super::request::{Beat, Join};
use crate::code;

/// A member or a group, on top of what clients name: the maps and the numbers.
const HEAD_BYTES: usize = 512;
/// What a member may say of itself, and what its assignment may be.
const MOST_MEMBER_BYTES: usize = 1 << 20;

fn of_text(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// A name counts twice, as the group may choose it.
fn of_protocols(protocols: &[(String, Vec<u8>)]) -> usize {
    protocols.iter().map(|(name, metadata)| 2 * name.len() + metadata.len() + ENTRY_BYTES).sum()
}

fn of_key((viewer, pattern): &consumer::MatchKey) -> usize {
    viewer.len() + pattern.len()
}

/// A group without its members: the id is there twice.
fn of_head(id: &str) -> usize {
    HEAD_BYTES + 2 * id.len()
}

impl Group {
    /// Members, and those who are about to be.
    pub(super) fn heads(&self) -> usize {
        match self {
            Self::Classic(group) => group.size(),
            Self::Consumer(group) => group.members.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Classic(group) => group.bytes(),
            Self::Consumer(group) => group.bytes(),
        }
    }

    fn weighed_bytes(&mut self) -> &mut usize {
        match self {
            Self::Classic(group) => &mut group.weighed_bytes,
            Self::Consumer(group) => &mut group.weighed_bytes,
        }
    }
}

impl Classic {
    fn bytes(&self) -> usize {
        let members: usize = self.members.iter().map(|(id, member)| member.bytes(id)).sum();
        let expected: usize = self.expected.keys().map(|id| HEAD_BYTES + id.len()).sum();
        of_head(&self.id) + self.protocol_type.len() + members + expected
    }

    /// What a join adds; `None` for one that is refused anyway, as the member is unknown.
    fn growth(&self, join: &Join) -> Option<usize> {
        let owner = join.instance.as_deref().and_then(|instance| self.member_of_instance(instance));
        let known = owner.or_else(|| Some(join.member.clone()).filter(|id| !id.is_empty()));
        let before = match &known {
            None => 0,
            Some(id) => match self.members.get(id) {
                Some(member) => member.bytes(id) - member.assignment.len(),
                None => HEAD_BYTES + self.expected.get_key_value(id)?.0.len(),
            },
        };
        let type_growth = join.protocol_type.len().saturating_sub(self.protocol_type.len());
        Some(of_join(join).saturating_sub(before) + type_growth)
    }
}

impl classic::Member {
    fn bytes(&self, id: &str) -> usize {
        let texts = of_text(self.instance.as_deref()) + self.client_id.len() + self.client_host.len();
        // Twice, as it may be the leader.
        HEAD_BYTES + 2 * id.len() + texts + of_protocols(&self.protocols) + self.assignment.len()
    }
}

/// The member that comes of a join. An id that it is given begins with its client id.
fn of_join(join: &Join) -> usize {
    let id = if join.member.is_empty() { join.client_id.len() + ENTRY_BYTES } else { join.member.len() };
    let texts = of_text(join.instance.as_deref()) + join.client_id.len() + join.client_host.len();
    HEAD_BYTES + 2 * id + texts + of_protocols(&join.protocols)
}

impl Consumer {
    fn bytes(&self) -> usize {
        let members: usize = self.members.iter().map(|(id, member)| member.bytes(id)).sum();
        let matches: usize =
            self.matches.iter().map(|(key, found)| of_key(key) + names_bytes(&found.names)).sum();
        of_head(&self.id) + members + matches + 2 * names_bytes(self.topics.keys())
    }

    /// What a heartbeat adds.
    fn growth(&self, beat: &Beat) -> usize {
        let owner = beat.instance.as_deref().and_then(|instance| self.instance_owner(instance));
        let known = owner.map_or_else(|| beat.member.clone(), |(id, _)| id);
        match self.members.get_key_value(&known) {
            Some((id, member)) => of_beat(beat, Some(member)).saturating_sub(member.said_bytes(id)),
            None if beat.epoch == 0 => of_beat(beat, None),
            None => 0,
        }
    }
}

impl consumer::Member {
    /// Bytes that it has sent. The id is stored with each of its partitions.
    fn said_bytes(&self, id: &str) -> usize {
        let texts = [&self.instance, &self.rack, &self.pattern, &self.assignor];
        let texts: usize = texts.into_iter().map(|text| of_text(text.as_deref())).sum();
        HEAD_BYTES + id.len() + texts + self.client_id.len() + self.client_host.len() + self.names_bytes
    }

    fn bytes(&self, id: &str) -> usize {
        let held = self.assigned.len() + self.revoking.len();
        let key = self.matched_as.as_ref().map_or(0, of_key);
        self.said_bytes(id) + key + held * (2 * ENTRY_BYTES + id.len()) + self.target.len() * ENTRY_BYTES
    }
}

/// The member that comes of a heartbeat: what is not said stays.
fn of_beat(beat: &Beat, known: Option<&consumer::Member>) -> usize {
    let text = |said: &Option<String>, kept: Option<&Option<String>>| {
        of_text(said.as_deref().or_else(|| kept.and_then(|kept| kept.as_deref())))
    };
    let texts = text(&beat.instance, known.map(|member| &member.instance))
        + text(&beat.rack, known.map(|member| &member.rack))
        + text(&beat.pattern, known.map(|member| &member.pattern))
        + text(&beat.assignor, known.map(|member| &member.assignor));
    let names = beat.names.as_ref().map_or(known.map_or(0, |member| member.names_bytes), names_bytes);
    let id = if beat.member.is_empty() { ENTRY_BYTES } else { beat.member.len() };
    HEAD_BYTES + id + texts + beat.client_id.len() + beat.client_host.len() + names
}

impl Groups {
    pub(super) fn put(&mut self, id: String, group: Group) {
        self.take_out(&id);
        self.groups.insert(id.clone(), group);
        self.weigh(&id);
    }

    pub(super) fn take_out(&mut self, id: &str) {
        if let Some(mut group) = self.groups.remove(id) {
            self.held_bytes -= *group.weighed_bytes();
        }
    }

    /// Counts what a group takes up now.
    pub(super) fn weigh(&mut self, id: &str) {
        if let Some(group) = self.groups.get_mut(id) {
            let bytes = group.bytes();
            let before = std::mem::replace(group.weighed_bytes(), bytes);
            self.held_bytes = self.held_bytes - before + bytes;
        }
    }

    fn has_bytes(&self, more: usize) -> bool {
        more == 0 || self.held_bytes.saturating_add(more) <= self.limits.group_bytes
    }

    /// Whether the metadata of a member is small enough, and there is room for it.
    pub(super) fn has_bytes_for_join(&self, join: &Join) -> bool {
        let growth = match self.groups.get(&join.group) {
            Some(Group::Classic(group)) => group.growth(join),
            _ => Some(of_head(&join.group) + join.protocol_type.len() + of_join(join)),
        };
        growth
            .is_none_or(|growth| of_protocols(&join.protocols) <= MOST_MEMBER_BYTES && self.has_bytes(growth))
    }

    /// Whether each assignment is small enough, and there is room for them all.
    pub(super) fn has_bytes_for_plan(&self, group: &str, plan: &[(String, Vec<u8>)]) -> bool {
        let Some(Group::Classic(group)) = self.groups.get(group) else { return true };
        let mut brought = 0_usize;
        let mut replaced = 0_usize;
        for (id, assignment) in plan {
            let Some(member) = group.members.get(id) else { continue };
            if assignment.len() > MOST_MEMBER_BYTES {
                return false;
            }
            brought = brought.saturating_add(assignment.len());
            replaced += member.assignment.len();
        }
        self.has_bytes(brought.saturating_sub(replaced))
    }

    /// Whether a heartbeat adds to what is held; refuses one for which there is no room.
    pub(super) fn check_bytes_of_beat(&self, beat: &Beat) -> Result<bool, Refusal> {
        if beat.epoch < 0 {
            return Ok(false);
        }
        let names = beat.names.as_ref().map_or(0, names_bytes) + of_text(beat.pattern.as_deref());
        if names > MOST_MEMBER_BYTES {
            let message = format!(
                "{names} bytes of topic names or pattern exceed the maximum of {MOST_MEMBER_BYTES} of a \
                 member; subscribe to fewer topics, or use a pattern"
            );
            return Err((code::POLICY_VIOLATION, message));
        }
        let growth = match self.groups.get(&beat.group) {
            Some(Group::Consumer(group)) => group.growth(beat),
            _ if beat.epoch == 0 => of_head(&beat.group) + of_beat(beat, None),
            _ => 0,
        };
        if self.has_bytes(growth) {
            return Ok(growth > 0);
        }
        let message = format!(
            "the groups use {} bytes of at most {}, and this request needs {growth} more; close members, \
             or delete groups",
            self.held_bytes, self.limits.group_bytes
        );
        Err((code::POLICY_VIOLATION, message))
    }
}
