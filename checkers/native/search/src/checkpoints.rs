//! Points to which a walk can go back: its state at some events, further apart the older they are.

use super::bits::Bits;
use super::configs::Config;
use super::pending::Pending;

/// Events between two checkpoints.
const EVERY: usize = 32;
const COUNT_MAX: usize = 24;
/// Of more configurations no checkpoints are made: these are too many to keep.
const CONFIGS_MAX: usize = 4096;

pub struct Checkpoint<S, B> {
    /// The number of the event.
    pub at: usize,
    pub narrowed: bool,
    pub pending: Pending<S, B>,
    pub live: Vec<Config<S, B>>,
}

/// Oldest first.
pub struct Checkpoints<S, B> {
    list: Vec<Checkpoint<S, B>>,
}

impl<S: Copy, B: Bits> Checkpoints<S, B> {
    pub fn new() -> Self {
        Checkpoints { list: Vec::new() }
    }

    /// Whether to make one at an event, with so many configurations, in a walk that began at the event `from`.
    pub fn is_due(&self, at: usize, from: usize, configs: usize) -> bool {
        at - self.list.last().map_or(from, |checkpoint| checkpoint.at) >= EVERY && configs <= CONFIGS_MAX
    }

    pub fn keep(&mut self, checkpoint: Checkpoint<S, B>) {
        let now = checkpoint.at;
        self.list.push(checkpoint);
        if self.list.len() > COUNT_MAX {
            let place = |i: usize| self.list[i].at;
            let spread = |&i: &usize| (place(i + 1) - place(i - 1)) as f64 / (now - place(i - 1)) as f64;
            let least = (1..self.list.len() - 1).min_by(|a, b| spread(a).total_cmp(&spread(b)));
            least.into_iter().for_each(|i| drop(self.list.remove(i)));
        }
    }

    /// The last one that is not after the event `target`, if any; those after it are dropped.
    pub fn back_to(&mut self, target: usize) -> Option<&Checkpoint<S, B>> {
        while self.list.last().is_some_and(|checkpoint| checkpoint.at > target) {
            self.list.pop();
        }
        self.list.last()
    }

    pub fn configs(&self) -> impl Iterator<Item = &Config<S, B>> {
        self.list.iter().flat_map(|checkpoint| &checkpoint.live)
    }

    pub fn configs_mut(&mut self) -> impl Iterator<Item = &mut Config<S, B>> {
        self.list.iter_mut().flat_map(|checkpoint| &mut checkpoint.live)
    }

    pub fn bytes(&self) -> usize {
        let each = |checkpoint: &Checkpoint<S, B>| {
            let heap = checkpoint.live.first().map_or(0, |config| config.used.heap_bytes());
            checkpoint.live.len() * (size_of::<Config<S, B>>() + heap) + checkpoint.pending.bytes()
        };
        self.list.iter().map(each).sum()
    }
}
