//! Sums samples by thread and address while they are read.

use std::collections::{BTreeMap, HashMap};

use super::head::Head;
use super::record::{Mode, ProcessEvent, Sample};
use super::samples::{Lying, Samples, Thread, is_file};
use super::space::Spaces;

/// Largest number of separate addresses; code of some hundred megabytes has fewer.
const MOST_PLACES: usize = 4_000_000;
/// Largest number of threads.
const MOST_THREADS: usize = 200_000;
/// Largest number of files and other mapped names.
const MOST_PATHS: usize = 200_000;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) samples: u64,
    pub(super) others: u64,
    pub(super) lost: u64,
    pub(super) broken: u64,
    spaces: Spaces,
    paths: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Build-id by path; empty for a path with several.
    build_ids: HashMap<String, String>,
    threads: Vec<Thread>,
    known: HashMap<(u32, u32), u32>,
    names: HashMap<u32, String>,
    places: HashMap<(u32, Lying), u64>,
    /// Thread of the last sample, which is mostly the next one's, too.
    last: Option<((u32, u32), u32)>,
    crowded: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Counts {
    pub(super) fn process_event(&mut self, event: ProcessEvent) {
        match event {
            // The kernel's own mappings have an impossible process id.
            ProcessEvent::Mapped { pid: u32::MAX, .. } => {}
            ProcessEvent::Mapped { pid, begin, bytes, offset, path, build_id } => {
                let is_file = is_file(&path);
                if let Some(build_id) = build_id {
                    self.is_of(&path, build_id);
                }
                if let Some(path) = self.number(path) {
                    self.spaces.map(pid, begin, bytes, offset, path, is_file);
                }
            }
            ProcessEvent::Named { pid, tid, name, is_new_program } => {
                if is_new_program {
                    self.spaces.clear(pid);
                }
                self.name(pid, tid, name);
            }
            ProcessEvent::Forked { pid, tid, parent_pid, parent_tid } => {
                self.spaces.fork(parent_pid, pid);
                if let Some(name) = self.names.get(&parent_tid).cloned() {
                    self.name(pid, tid, name);
                }
            }
        }
    }

    pub(super) fn sample(&mut self, sample: &Sample) {
        self.samples += 1;
        if sample.time > 0 {
            self.first_ns = Some(self.first_ns.map_or(sample.time, |first| first.min(sample.time)));
            self.last_ns = self.last_ns.max(sample.time);
        }
        let place = match sample.mode {
            Mode::Kernel => Lying::Kernel,
            Mode::Other => Lying::Elsewhere,
            Mode::User => match self.spaces.find(sample.pid, sample.address) {
                Some((path, offset)) if self.paths.get(path as usize).is_some_and(|path| is_file(path)) => {
                    Lying::Mapped(path, offset)
                }
                _ => Lying::Nowhere(sample.address),
            },
        };
        let thread = self.thread(sample.pid, sample.tid);
        if let Some(count) = self.places.get_mut(&(thread, place)) {
            *count += 1;
        } else if self.places.len() < MOST_PLACES {
            self.places.insert((thread, place), 1);
        } else {
            self.crowd(thread, place);
        }
    }

    /// Too many addresses: this sample counts for its file only.
    fn crowd(&mut self, thread: u32, place: Lying) {
        self.crowded += 1;
        match place {
            Lying::Mapped(path, _) => {
                *self.threads[thread as usize].crowded.entry(path).or_insert(0) += 1;
            }
            other => {
                let of_all = if let Lying::Nowhere(_) = other { Lying::Nowhere(0) } else { other };
                *self.threads[thread as usize].places.entry(of_all).or_insert(0) += 1;
            }
        }
    }

    fn number(&mut self, path: String) -> Option<u32> {
        if let Some(known) = self.numbers.get(&path) {
            return Some(*known);
        }
        if self.paths.len() >= MOST_PATHS {
            self.spaces.left_out += 1;
            return None;
        }
        let number = self.paths.len() as u32;
        self.paths.push(path.clone());
        self.numbers.insert(path, number);
        Some(number)
    }

    /// Build of a path. A path that was rebuilt meanwhile has none, since its addresses are mixed up.
    fn is_of(&mut self, path: &str, build_id: String) {
        let is_full = self.build_ids.len() >= MOST_PATHS;
        match self.build_ids.get_mut(path) {
            Some(known) if *known == build_id => {}
            Some(known) => known.clear(),
            None if is_full => {}
            None => drop(self.build_ids.insert(path.to_owned(), build_id)),
        }
    }

    fn name(&mut self, pid: u32, tid: u32, name: String) {
        if let Some(thread) = self.known.get(&(pid, tid)) {
            self.threads[*thread as usize].name.clone_from(&name);
        }
        if self.names.len() < MOST_THREADS || self.names.contains_key(&tid) {
            self.names.insert(tid, name);
        }
    }

    fn thread(&mut self, pid: u32, tid: u32) -> u32 {
        if let Some((of, thread)) = self.last
            && of == (pid, tid)
        {
            return thread;
        }
        let known = self.known.get(&(pid, tid)).copied();
        let thread = known.unwrap_or_else(|| self.new_thread(pid, tid));
        // A program that starts again has other mappings; the last ones count.
        if let Some(program) = self.spaces.program(pid) {
            self.threads[thread as usize].program = Some(program);
        }
        self.last = Some(((pid, tid), thread));
        thread
    }

    fn new_thread(&mut self, pid: u32, tid: u32) -> u32 {
        // Too many threads: this one counts with the last.
        if self.threads.len() >= MOST_THREADS {
            return MOST_THREADS as u32 - 1;
        }
        let number = self.threads.len() as u32;
        let name = self.names.get(&tid).cloned().unwrap_or_else(|| format!("thread {tid}"));
        self.threads.push(Thread { pid, tid, name, ..Thread::default() });
        self.known.insert((pid, tid), number);
        number
    }

    /// The result, the threads sorted by samples.
    pub(super) fn samples(mut self, head: Head, breaks_off: bool, was_cut: bool) -> Samples {
        for ((thread, place), count) in std::mem::take(&mut self.places) {
            *self.threads[thread as usize].places.entry(place).or_insert(0) += count;
        }
        let notes = self.notes(breaks_off, was_cut);
        // The kernel saw the mapping itself, and perf's table has only the state at the end.
        let mut build_ids = head.build_ids.clone();
        build_ids.extend(std::mem::take(&mut self.build_ids));
        let mut threads = std::mem::take(&mut self.threads);
        threads.sort_by_cached_key(|thread| (std::cmp::Reverse(thread.samples()), thread.pid, thread.tid));
        Samples {
            event: head.event(),
            is_time: head.is_time(),
            sees_kernel: head.sees_kernel(),
            samples: self.samples,
            others: self.others,
            lost: self.lost,
            span_ns: self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns)),
            paths: self.paths,
            build_ids,
            generated: BTreeMap::new(),
            threads,
            notes,
        }
    }

    fn notes(&self, breaks_off: bool, was_cut: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if breaks_off {
            notes.push(
                "the data has no proper end (perf was killed, or is still writing): everything before the \
                 end is used"
                    .to_owned(),
            );
        }
        let counted = [
            (self.lost, "records were lost, since perf did not keep up"),
            (self.others, "samples belong to other events and are left out"),
            (self.broken, "records are broken and left out"),
            (self.spaces.left_out, "mappings exceed the limit: their contents are unknown"),
            (self.crowded, "samples are at too many addresses: they count for their file only"),
        ];
        let counted = counted.iter().filter(|(count, _)| *count > 0);
        notes.extend(counted.map(|(count, what)| format!("{count} {what}")));
        if was_cut {
            notes.push("the data has no order marks: mappings may count slightly late".to_owned());
        }
        notes
    }

    #[cfg(test)]
    pub(super) fn by_path(&self) -> std::collections::BTreeMap<String, u64> {
        let mut sums = std::collections::BTreeMap::new();
        for ((_, place), count) in &self.places {
            if let Lying::Mapped(path, _) = place {
                *sums.entry(self.paths[*path as usize].clone()).or_insert(0) += count;
            }
        }
        sums
    }
}
