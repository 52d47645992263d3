//! How each live configuration came to be, as a tree of steps that share their beginnings.
//!
//! Dead branches are dropped whenever the tree has doubled, so it grows with what is alive.

const ROOT: u32 = u32::MAX;
const ABSORBED: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Node {
    /// Index of the operation; the top bit says that it went in just before the last overwriting one.
    step: u32,
    parent: u32,
}

pub struct Trace {
    nodes: Vec<Node>,
    collect_at: usize,
}

impl Trace {
    pub const START: u32 = ROOT;

    pub fn new() -> Self {
        Trace { nodes: Vec::new(), collect_at: 1 << 16 }
    }

    #[inline]
    pub fn push(&mut self, parent: u32, op: u32) -> u32 {
        self.nodes.push(Node { step: op, parent });
        (self.nodes.len() - 1) as u32
    }

    #[inline]
    pub fn push_absorbed(&mut self, parent: u32, op: u32) -> u32 {
        self.push(parent, op | ABSORBED)
    }

    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    pub fn wants_collection(&self) -> bool {
        self.nodes.len() >= self.collect_at
    }

    /// Drop every step that no root leads back to; the roots are moved along.
    pub fn collect<'a>(&mut self, roots: impl Iterator<Item = &'a mut u32>) {
        let mut live = vec![false; self.nodes.len()];
        let roots: Vec<&mut u32> = roots.collect();
        for root in &roots {
            let mut at = **root;
            while at != ROOT && !live[at as usize] {
                live[at as usize] = true;
                at = self.nodes[at as usize].parent;
            }
        }
        let mut moved = vec![ROOT; self.nodes.len()];
        let mut kept: Vec<Node> = Vec::with_capacity(live.iter().filter(|&&alive| alive).count());
        for (i, node) in self.nodes.iter().enumerate() {
            if live[i] {
                moved[i] = kept.len() as u32;
                let parent = if node.parent == ROOT { ROOT } else { moved[node.parent as usize] };
                kept.push(Node { step: node.step, parent });
            }
        }
        for root in roots {
            if *root != ROOT {
                *root = moved[*root as usize];
            }
        }
        self.collect_at = (kept.len() * 2).max(1 << 16);
        self.nodes = kept;
    }

    pub fn length(&self, mut at: u32) -> usize {
        let mut length = 0;
        while at != ROOT {
            length += 1;
            at = self.nodes[at as usize].parent;
        }
        length
    }

    /// The operations that lead to `at`, in order.
    pub fn order(&self, mut at: u32, overwrites: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut steps = Vec::new();
        while at != ROOT {
            steps.push(self.nodes[at as usize].step);
            at = self.nodes[at as usize].parent;
        }
        let mut order = Vec::with_capacity(steps.len());
        let mut last_overwrite = 0;
        for step in steps.into_iter().rev() {
            let op = step & !ABSORBED;
            if step & ABSORBED != 0 {
                order.insert(last_overwrite, op);
                last_overwrite += 1;
            } else {
                if overwrites(op) {
                    last_overwrite = order.len();
                }
                order.push(op);
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collection_keeps_the_living() {
        let mut trace = Trace::new();
        let a = trace.push(Trace::START, 1);
        let _dead = trace.push(a, 9);
        let b = trace.push(a, 2);
        let mut c = trace.push_absorbed(b, 3);
        trace.collect([&mut c].into_iter());
        assert_eq!(trace.nodes.len(), 3);
        assert_eq!(trace.length(c), 3);
        // 1 and 2 overwrite; 3 was taken in just before 2.
        assert_eq!(trace.order(c, |op| op < 3), vec![1, 3, 2]);
    }
}
