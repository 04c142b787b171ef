//! Circles: files that use each other, directly or through others.

use super::modules::Crate;

/// Inside a crate no circle is larger than this.
pub(crate) const ALLOWED: usize = 3;

/// The circles of at least two files, the largest first.
pub(crate) fn circles(krate: &Crate) -> Vec<Vec<usize>> {
    circles_without(krate, None)
}

/// The circles that remain after a cut: the crate without the uses from one file to another.
pub(crate) fn circles_without(krate: &Crate, cut: Option<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut edges = vec![Vec::new(); krate.files.len()];
    for &(from, to) in krate.uses.keys().filter(|edge| Some(**edge) != cut) {
        edges[from].push(to);
    }
    let mut found = Tarjan::new(&edges).components();
    found.retain(|files| files.len() > 1);
    found.iter_mut().for_each(|files| files.sort_unstable());
    found.sort_by_key(|files| (usize::MAX - files.len(), files.first().copied()));
    found
}

/// The sizes of the circles that are larger than allowed, the largest first.
pub(crate) fn sizes(krate: &Crate) -> Vec<usize> {
    circles(krate).iter().map(Vec::len).filter(|size| *size > ALLOWED).collect()
}

/// Each file of a circle with one use that keeps it there.
pub(crate) fn described(krate: &Crate, circle: &[usize]) -> String {
    let mut text = format!("{}: a circle of {} files\n", krate.name, circle.len());
    for &file in circle {
        let inside = krate.uses.range((file, 0)..(file + 1, 0));
        let Some((&edge, _)) = inside.into_iter().find(|((_, to), _)| circle.contains(to)) else { continue };
        text += &format!("  {}\n", edge_described(krate, edge));
    }
    text
}

/// One file's use of another, with the first path by which it goes.
pub(crate) fn edge_described(krate: &Crate, (from, to): (usize, usize)) -> String {
    let uses = krate.uses.get(&(from, to)).map_or(&[][..], Vec::as_slice);
    let first = uses.first().map(|first| format!("`{}`, line {}", first.path, first.line));
    let more = if uses.len() > 1 { format!(", and {} more", uses.len() - 1) } else { String::new() };
    format!("{} -> {} by {}{more}", krate.files[from].path, krate.files[to].path, first.unwrap_or_default())
}

/// The effect of removing every use from one file to another.
pub(crate) struct Cut {
    pub(crate) edge: (usize, usize),
    /// The files in the largest circle that remains.
    pub(crate) largest: usize,
}

/// The uses whose removal shrinks the crate's largest circle most, the best first.
pub(crate) fn cuts(krate: &Crate) -> Vec<Cut> {
    let found = circles(krate);
    let Some(circle) = found.first() else { return Vec::new() };
    let inside = krate.uses.keys().filter(|(from, to)| circle.contains(from) && circle.contains(to));
    let mut cuts: Vec<Cut> = inside
        .map(|&edge| {
            let left = circles_without(krate, Some(edge));
            Cut { edge, largest: left.first().map_or(0, Vec::len) }
        })
        .filter(|cut| cut.largest < circle.len())
        .collect();
    cuts.sort_by_key(|cut| cut.largest);
    cuts
}

/// Tarjan's algorithm for strongly connected components.
struct Tarjan<'a> {
    edges: &'a [Vec<usize>],
    next: usize,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    is_on_stack: Vec<bool>,
    found: Vec<Vec<usize>>,
}

impl<'a> Tarjan<'a> {
    fn new(edges: &'a [Vec<usize>]) -> Self {
        let count = edges.len();
        let (stack, found) = (Vec::new(), Vec::new());
        let (order, low, is_on_stack) = (vec![None; count], vec![0; count], vec![false; count]);
        Self { edges, next: 0, order, low, stack, is_on_stack, found }
    }

    fn components(mut self) -> Vec<Vec<usize>> {
        for node in 0..self.edges.len() {
            if self.order[node].is_none() {
                self.visit(node);
            }
        }
        self.found
    }

    /// The recursion is no deeper than the number of files.
    fn visit(&mut self, node: usize) {
        self.order[node] = Some(self.next);
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.is_on_stack[node] = true;
        let edges = self.edges;
        for &to in &edges[node] {
            match self.order[to] {
                None => {
                    self.visit(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(order) if self.is_on_stack[to] => self.low[node] = self.low[node].min(order),
                Some(_) => {}
            }
        }
        if self.order[node] == Some(self.low[node]) {
            self.close(node);
        }
    }

    /// Takes the component whose first node this is off the stack.
    fn close(&mut self, first: usize) {
        let from = self.stack.iter().rposition(|node| *node == first).unwrap_or_default();
        let component = self.stack.split_off(from);
        component.iter().for_each(|node| self.is_on_stack[*node] = false);
        self.found.push(component);
    }
}
