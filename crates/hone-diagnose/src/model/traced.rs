//! Model of the tracers' files.

use std::collections::HashMap;

use super::run::{Block, Edge, Object, Part, Run, Simulated, Window};
use crate::cache::MODELS;
use crate::image::Image;
use crate::trace::{Thread, Trace, Translated};

/// Combines the processes of a run. `image` reads the file at a path. A removed file has a path that ends with ` (deleted)`.
pub fn of_traces(traces: &[Trace], image: impl Fn(&str) -> Option<Image>) -> Run {
    let mut gathered = Gathered::default();
    for (process, trace) in traces.iter().enumerate() {
        let objects: Vec<u32> = trace.objects.iter().map(|path| gathered.object(path, &image)).collect();
        let blocks: Vec<u32> =
            trace.blocks.iter().map(|block| gathered.block(process, block, &objects)).collect();
        let has_data = trace.facts.get("data").is_some_and(|value| value == "true");
        for thread in &trace.threads {
            gathered.thread(thread, &blocks, has_data);
        }
        let first = gathered.threads;
        gathered.threads += trace.threads.len() as u32;
        let windows = trace.windows.iter().map(|window| Window {
            thread: first + window.thread,
            warm_up: window.warm_up as usize,
            blocks: window.blocks.iter().map(|&index| blocks[index as usize]).collect(),
        });
        gathered.run.windows.extend(windows);
    }
    gathered.finish()
}

/// Identity of code: its object, or its process if it has none; address and size.
type CodeKey = (Option<u32>, usize, u64, u32);

#[derive(Default)]
struct Gathered {
    run: Run,
    objects: HashMap<String, u32>,
    blocks: HashMap<CodeKey, u32>,
    groups: HashMap<String, Group>,
    /// Threads of the processes so far.
    threads: u32,
}

/// The threads of one name.
#[derive(Default)]
struct Group {
    threads: u64,
    edges: HashMap<(u32, u32), u64>,
    simulated: Option<Simulated>,
}

impl Gathered {
    fn object(&mut self, path: &str, image: &impl Fn(&str) -> Option<Image>) -> u32 {
        if let Some(known) = self.objects.get(path) {
            return *known;
        }
        let index = self.run.objects.len() as u32;
        self.run.objects.push(Object { path: path.to_owned(), image: image(path) });
        self.objects.insert(path.to_owned(), index);
        index
    }

    fn block(&mut self, process: usize, block: &Translated, objects: &[u32]) -> u32 {
        let object = block.object.map(|index| objects[index as usize]);
        let linked = |object: u32| {
            let image = self.run.objects[object as usize].image.as_ref();
            image.and_then(|image| image.address_of(block.offset)).unwrap_or(block.offset)
        };
        let address = object.map_or(block.address, linked);
        let owner = if object.is_some() { 0 } else { process };
        let run = &mut self.run;
        *self.blocks.entry((object, owner, address, block.size)).or_insert_with(|| {
            run.blocks.push(Block {
                object,
                address,
                size: block.size,
                instructions: block.instructions,
                last: block.last,
                repeats: block.repeats,
            });
            run.blocks.len() as u32 - 1
        })
    }

    fn thread(&mut self, thread: &Thread, blocks: &[u32], has_data: bool) {
        let group = self.groups.entry(thread.names.clone()).or_default();
        group.threads += 1;
        for &(from, to, count) in &thread.transitions {
            let sum = group.edges.entry((blocks[from as usize], blocks[to as usize])).or_insert(0);
            *sum = sum.saturating_add(count);
        }
        // A tracer without simulation has no fetches.
        if thread.fetched > 0 && thread.misses.len() == MODELS.len() {
            let of = |&(_, to, count): &(u32, u32, u64)| {
                let block = &self.run.blocks[blocks[to as usize] as usize];
                count.saturating_mul(u64::from(block.instructions))
            };
            let simulated = Simulated {
                instructions: thread.transitions.iter().map(of).fold(0, u64::saturating_add),
                fetched: thread.fetched,
                misses: std::array::from_fn(|model| thread.misses[model]),
                has_data,
            };
            let so_far = group.simulated.unwrap_or_default();
            group.simulated = Some(so_far.and(&simulated));
        }
    }

    fn finish(mut self) -> Run {
        let all = self.run.blocks.len();
        let groups = std::mem::take(&mut self.groups);
        self.run.parts = groups.into_iter().map(|(name, group)| group.part(name, all)).collect();
        let run = &self.run;
        let mut parts: Vec<(u64, Part)> =
            run.parts.iter().map(|part| (part.instructions(run), part.clone())).collect();
        parts.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.name.cmp(&right.1.name)));
        // Threads that did nothing since the reset are not parts.
        self.run.parts =
            parts.into_iter().filter(|(instructions, _)| *instructions > 0).map(|(_, part)| part).collect();
        self.run
    }
}

impl Group {
    fn part(self, name: String, blocks: usize) -> Part {
        let mut counts = vec![0_u64; blocks];
        // A block runs as often as a transition leads to it; the first block of a thread runs once more.
        for (&(_, to), count) in &self.edges {
            let sum = &mut counts[to as usize];
            *sum = sum.saturating_add(*count);
        }
        let mut edges: Vec<Edge> =
            self.edges.into_iter().map(|((from, to), count)| Edge { from, to, count }).collect();
        edges.sort_unstable();
        Part { name, threads: self.threads, counts, edges, simulated: self.simulated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Stretch;

    fn translated(object: Option<u32>, offset: u64, address: u64) -> Translated {
        Translated { object, instructions: 2, size: 8, last: 4, repeats: false, offset, address }
    }

    fn thread(names: &str, transitions: &[(u32, u32, u64)]) -> Thread {
        Thread {
            names: names.to_owned(),
            fetched: 10,
            misses: vec![5; MODELS.len()],
            transitions: transitions.to_vec(),
            ..Thread::default()
        }
    }

    #[test]
    fn processes_share_files_and_nothing_else() {
        let trace = |address| Trace {
            objects: vec!["/bin/x".to_owned()],
            blocks: vec![translated(Some(0), 0x40, address), translated(None, 0, 0x7000)],
            threads: vec![thread("x", &[(0, 1, 3), (1, 0, 3)])],
            windows: vec![Stretch { thread: 0, warm_up: 1, blocks: vec![0, 1, 0] }],
            ..Trace::default()
        };
        let run = of_traces(&[trace(0x5000), trace(0x6000)], |_| None);
        assert_eq!((run.objects.len(), run.blocks.len()), (1, 3));
        assert_eq!(run.parts.len(), 1);
        let part = &run.parts[0];
        assert_eq!((part.threads, &part.counts[..]), (2, &[6, 3, 3][..]));
        assert_eq!(part.instructions(&run), 24);
        let simulated = part.simulated.unwrap();
        assert_eq!((simulated.instructions, simulated.misses[0], simulated.fetched), (24, 10, 20));
        assert_eq!(run.windows[1].blocks, [0, 2, 0]);
        assert_eq!(run.blocks[0].address, 0x40, "without its file an address is the place in it");
    }

    #[test]
    fn the_busiest_threads_come_first_and_idle_ones_not_at_all() {
        let trace = Trace {
            blocks: vec![translated(None, 0, 0x7000)],
            threads: vec![thread("idle", &[]), thread("few", &[(0, 0, 1)]), thread("many", &[(0, 0, 9)])],
            ..Trace::default()
        };
        let run = of_traces(&[trace], |_| None);
        let names: Vec<&str> = run.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["many", "few"]);
    }
}
