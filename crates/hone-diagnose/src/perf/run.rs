//! Samples as code that ran: each sampled instruction is a block of its own, without predecessor and successor.

use std::collections::HashMap;

use super::samples::{Lying, Samples, Thread, is_file};
use crate::image::Image;
use crate::model::{Block, Object, Part, Run};

/// Limit of counts over all parts, so that many threads of a large program do not fill the memory. The colder threads then become one part.
const MOST_COUNTS: usize = 16_000_000;
/// Name of that part.
const REST: &str = "other threads";

impl Samples {
    /// Model of the sampled user code, without the kernel's. `image` reads the file at a path; a file that was rebuilt since is not used.
    pub fn run(&self, image: impl Fn(&str) -> Option<Image>) -> Run {
        let mut model = Model::default();
        let mut parts: Vec<(String, u64, HashMap<u32, u64>)> = Vec::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for thread in &self.threads {
            let counts = self.counts(thread, &mut model, &image);
            if counts.is_empty() {
                continue;
            }
            let at = *names.entry(&thread.name).or_insert_with(|| {
                parts.push((thread.name.clone(), 0, HashMap::new()));
                parts.len() - 1
            });
            parts[at].1 += 1;
            counts.into_iter().for_each(|(block, count)| *parts[at].2.entry(block).or_insert(0) += count);
        }
        parts.sort_by_cached_key(|(name, _, counts)| {
            (std::cmp::Reverse(counts.values().sum::<u64>()), name.clone())
        });
        let Model { mut run, .. } = model;
        run.parts = dense(parts, run.blocks.len());
        run
    }

    /// Files whose names were used although no evidence shows that they are from the sampled build.
    pub fn of_unknown_builds<'a>(&self, run: &'a Run) -> Vec<&'a str> {
        let is_named =
            |object: &&Object| object.image.is_some() && !self.build_ids.contains_key(&object.path);
        run.objects.iter().filter(is_named).map(|object| object.path.as_str()).collect()
    }

    /// A thread's samples by block.
    fn counts(
        &self,
        thread: &Thread,
        model: &mut Model,
        image: &impl Fn(&str) -> Option<Image>,
    ) -> Vec<(u32, u64)> {
        let block = |(place, count): (&Lying, &u64)| {
            let block = match *place {
                Lying::Mapped(path, offset) => {
                    let path = self.paths.get(path as usize)?;
                    if is_file(path) {
                        model.of_file(self, path, offset, image)
                    } else {
                        model.of_none(thread.pid, offset)
                    }
                }
                Lying::Nowhere(address) => model.of_none(thread.pid, address),
                Lying::Kernel | Lying::Elsewhere => return None,
            };
            Some((block, *count))
        };
        thread.places.iter().filter_map(block).collect()
    }
}

#[derive(Default)]
struct Model {
    run: Run,
    objects: HashMap<String, u32>,
    /// By object, or process if there is none, and address.
    blocks: HashMap<(Option<u32>, u32, u64), u32>,
}

impl Model {
    fn of_file(
        &mut self,
        samples: &Samples,
        path: &str,
        offset: u64,
        image: &impl Fn(&str) -> Option<Image>,
    ) -> u32 {
        let object = match self.objects.get(path) {
            Some(known) => *known,
            None => self.object(path, samples.build_ids.get(path).map(String::as_str), image),
        };
        let linked =
            self.run.objects[object as usize].image.as_ref().and_then(|image| image.address_of(offset));
        self.block(Some(object), 0, linked.unwrap_or(offset))
    }

    fn of_none(&mut self, pid: u32, address: u64) -> u32 {
        self.block(None, pid, address)
    }

    fn object(&mut self, path: &str, build_id: Option<&str>, image: &impl Fn(&str) -> Option<Image>) -> u32 {
        // perf's table pads short ids with zeros.
        let is_same = |image: &Image| match (&image.build_id, build_id) {
            (Some(own), Some(recorded)) => recorded.starts_with(own.as_str()),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        let index = self.run.objects.len() as u32;
        self.run.objects.push(Object { path: path.to_owned(), image: image(path).filter(is_same) });
        self.objects.insert(path.to_owned(), index);
        index
    }

    fn block(&mut self, object: Option<u32>, owner: u32, address: u64) -> u32 {
        let run = &mut self.run;
        *self.blocks.entry((object, owner, address)).or_insert_with(|| {
            run.blocks.push(Block { object, address, size: 1, instructions: 1, last: 0, repeats: false });
            run.blocks.len() as u32 - 1
        })
    }
}

fn dense(parts: Vec<(String, u64, HashMap<u32, u64>)>, blocks: usize) -> Vec<Part> {
    let apart = (MOST_COUNTS / blocks.max(1)).max(1);
    let mut made: Vec<Part> = Vec::new();
    for (index, (name, threads, counts)) in parts.into_iter().enumerate() {
        if index <= apart {
            let name = if index == apart { REST.to_owned() } else { name };
            made.push(Part { name, counts: vec![0; blocks], ..Part::default() });
        }
        let Some(part) = made.last_mut() else { continue };
        part.threads += threads;
        counts.into_iter().for_each(|(block, count)| part.counts[block as usize] += count);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let thread = |tid, name: &str, places: &[(Lying, u64)]| Thread {
            pid: 1,
            tid,
            name: name.to_owned(),
            program: Some(0),
            places: places.iter().copied().collect(),
            ..Thread::default()
        };
        let busy = [
            (Lying::Mapped(0, 16), 6),
            (Lying::Mapped(1, 32), 2),
            (Lying::Kernel, 9),
            (Lying::Mapped(2, 64), 1),
        ];
        Samples {
            samples: 19,
            paths: ["/bin/x", "/lib/y", "//anon"].map(str::to_owned).into(),
            build_ids: [("/bin/x".to_owned(), "ab00".to_owned())].into(),
            threads: vec![
                thread(1, "busy", &busy),
                thread(2, "busy", &[(Lying::Mapped(0, 16), 1)]),
                thread(3, "idle", &[(Lying::Kernel, 1)]),
            ],
            ..Samples::default()
        }
    }

    #[test]
    fn user_code_becomes_blocks_and_the_kernels_does_not() {
        let run = samples().run(|_| None);
        assert_eq!((run.parts.len(), run.parts[0].threads, run.parts[0].instructions(&run)), (1, 2, 10));
        assert_eq!(run.objects.len(), 2);
        assert_eq!(run.blocks.iter().filter(|block| block.object.is_none()).count(), 1);
        assert!(run.parts[0].edges.is_empty());
    }

    #[test]
    fn shares_are_told_by_whose_code_it_is() {
        let samples = samples();
        assert_eq!(
            samples.whole(None),
            super::super::Split { program: 7, libraries: 2, generated: 0, kernel: 10, unknown: 1 }
        );
        let other = samples.split(&samples.threads[0], Some("/lib/y"));
        assert_eq!((other.program, other.libraries), (2, 6));
    }

    fn image_with_id(id: &str) -> Image {
        let mut image = Image::default();
        image.build_id = Some(id.to_owned());
        image
    }

    #[test]
    fn a_file_that_was_built_anew_gives_no_names() {
        let found = |id: &str| samples().run(|_| Some(image_with_id(id))).objects[0].image.is_some();
        assert!(found("ab") && found("ab00") && !found("cd"));
        assert!(samples().run(|_| Some(Image::default())).objects[0].image.is_none(), "it had an id then");
    }

    #[test]
    fn names_of_a_file_whose_build_was_not_recorded_are_told_apart() {
        let run = samples().run(|_| Some(image_with_id("ab")));
        assert_eq!(samples().of_unknown_builds(&run), ["/lib/y"]);
        let run = samples().run(|_| None);
        assert!(samples().of_unknown_builds(&run).is_empty(), "what gives no names gives no wrong ones");
    }

    #[test]
    fn many_threads_of_a_large_program_are_bounded() {
        let parts = (0..9).map(|at| (at.to_string(), 1, HashMap::from([(0, 9 - at)]))).collect();
        let made = dense(parts, MOST_COUNTS / 2);
        assert_eq!((made.len(), made[2].name.as_str(), made[2].threads, made[2].counts[0]), (3, REST, 7, 28));
    }
}
