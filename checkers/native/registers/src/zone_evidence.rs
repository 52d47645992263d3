//! Choose the few operations that show a violation of zones, so that `zone_proof` can confirm it.

use std::collections::{HashMap, HashSet};

use super::zone_proof::{Piece, Proof};
use super::zones::{NONE, Violation, Zones};
use search::history::{Function, Ops};

/// The values of one block in their order, with what the operations on each come to.
struct Block {
    values: Vec<u32>,
    /// The return that first showed each.
    since: Vec<u32>,
    /// The last invoked operation on each, and after how many returns that was.
    latest: Vec<(u32, u32)>,
}

/// The operations that show `violation`, met after `passed` returns.
pub fn proof(zones: &Zones, ops: &(impl Ops + ?Sized), passed: usize, violation: Violation) -> Proof {
    let evidence = Evidence { zones, ops, now: passed as u32 + 1 };
    let pieces = match violation {
        Violation::Unmade { .. } => evidence.seen(),
        Violation::Early { value } => {
            let mut pieces = evidence.seen();
            pieces.push(Piece::Made(zones.values[value as usize].maker));
            pieces
        }
        Violation::Circular { value } => evidence.circle(value),
        Violation::Twice { value } => {
            let mut pieces = evidence.seen();
            pieces.extend(evidence.replaced(value));
            pieces
        }
        Violation::Replaced { value } => {
            let mut pieces = evidence.replaced(value);
            pieces.push(Piece::Whole(evidence.shower(evidence.now)));
            pieces
        }
        Violation::Pair { grown, other } => evidence.pair(grown, other),
    };
    Proof { pieces }
}

struct Evidence<'a, O: ?Sized> {
    zones: &'a Zones,
    ops: &'a O,
    now: u32,
}

impl<O: Ops + ?Sized> Evidence<'_, O> {
    fn maker(&self, value: u32) -> u32 {
        self.zones.values[value as usize].maker
    }

    /// The operation that returned at this moment.
    fn shower(&self, moment: u32) -> u32 {
        self.zones.returned_at(moment as usize)
    }

    /// The value that an operation belongs to.
    fn value_of(&self, op: u32) -> u32 {
        self.ops.at(op as usize).left()
    }

    /// What the operation that returns now saw: the compare-and-sets on the way to it, and itself.
    fn seen(&self) -> Vec<Piece> {
        let steps: Vec<u32> = self.zones.path.iter().rev().map(|&value| self.maker(value)).collect();
        let mut pieces = self.read(self.shower(self.now));
        if !steps.is_empty() {
            pieces.push(Piece::Steps(steps));
        }
        pieces
    }

    /// The operation if it is a read; what makes a value stands as such.
    fn read(&self, op: u32) -> Vec<Piece> {
        if self.ops.at(op as usize).function == Function::Read { vec![Piece::Whole(op)] } else { Vec::new() }
    }

    /// `value`, that it was replaced, and what showed that.
    fn replaced(&self, value: u32) -> Vec<Piece> {
        let next = self.zones.values[value as usize].next;
        let shower = self.shower(self.zones.values[next as usize].since);
        let mut steps = vec![self.maker(next)];
        let mut made = next;
        while made != self.value_of(shower) {
            made = self.zones.values[made as usize].next;
            steps.push(self.maker(made));
        }
        let mut pieces = self.read(shower);
        pieces.push(Piece::Steps(steps));
        pieces.extend(self.origin(value));
        pieces
    }

    /// What made `value`, as no more than that; nothing makes the initial one.
    fn origin(&self, value: u32) -> Option<Piece> {
        let maker = self.maker(value);
        (maker != NONE).then_some(Piece::Made(maker))
    }

    /// Compare-and-sets that make `value` of itself, and those from there to what was seen.
    fn circle(&self, value: u32) -> Vec<Piece> {
        let before = |value: u32| self.ops.at(self.maker(value) as usize).a;
        let mut around = vec![value];
        while before(around[around.len() - 1]) != value {
            around.push(before(around[around.len() - 1]));
        }
        let seen = self.shower(self.now);
        let mut after = vec![self.value_of(seen)];
        let on_circle: HashSet<u32> = around.iter().copied().collect();
        while !on_circle.contains(&after[after.len() - 1]) {
            after.push(before(after[after.len() - 1]));
        }
        let meeting = after.pop().unwrap_or(value);
        let start = around.iter().position(|&value| value == meeting).unwrap_or(0);
        around.rotate_left(start);
        let steps = |values: &[u32]| values.iter().rev().map(|&value| self.maker(value)).collect::<Vec<u32>>();
        let mut pieces = self.read(seen);
        pieces.push(Piece::Steps(steps(&around)));
        if !after.is_empty() {
            pieces.push(Piece::Steps(steps(&after)));
        }
        pieces
    }

    /// Of two blocks each of which must precede the other, the values on which that shows.
    fn pair(&self, grown: u32, other: u32) -> Vec<Piece> {
        let [a, b] = self.blocks([grown, other]);
        let b_first = b.since[0];
        let b_until = b.latest.iter().map(|&(until, _)| until).max().unwrap_or(0);
        let (a_from, a_to) = a.between(b_until, b_first);
        let (b_from, b_to) = b.between(a.latest[a_to].0, a.since[a_from]);
        let mut pieces = self.part(&a, a_from, a_to);
        pieces.extend(self.part(&b, b_from, b_to));
        pieces
    }

    /// Two blocks as they are with what the return now shows, which belongs to the first.
    fn blocks(&self, heads: [u32; 2]) -> [Block; 2] {
        let mut blocks = heads.map(|head| self.chain(head));
        let (a, b) = blocks.split_at_mut(1);
        let (a, b) = (&mut a[0], &mut b[0]);
        for &value in self.zones.path.iter().rev() {
            a.values.push(value);
            a.since.push(self.now);
        }
        let mut places: HashMap<u32, (usize, usize)> = HashMap::new();
        for (which, block) in [&mut *a, &mut *b].into_iter().enumerate() {
            places.extend(block.values.iter().enumerate().map(|(i, &value)| (value, (which, i))));
            block.latest = vec![(0, NONE); block.values.len()];
        }
        let now = self.shower(self.now);
        let stop = (self.ops.at(now as usize).returned, now);
        let mask = places.keys().fold(0u64, |mask, value| mask | 1 << (value % 64));
        for (i, op) in self.ops.iter().enumerate().take_while(|(_, op)| op.invoked <= stop.0) {
            let value = op.left();
            if mask >> (value % 64) & 1 == 0 {
                continue;
            }
            let shown = op.function != Function::Read || (op.returned, i as u32) <= stop;
            if !shown {
                continue;
            }
            let after = self.zones.invoked_after(&op);
            if let Some(&(which, place)) = places.get(&value) {
                let latest = &mut if which == 0 { &mut *a } else { &mut *b }.latest[place];
                *latest = (*latest).max((after, i as u32));
            }
        }
        blocks
    }

    fn chain(&self, head: u32) -> Block {
        let mut values = vec![head];
        loop {
            let next = self.zones.values[values[values.len() - 1] as usize].next;
            if next == NONE {
                break;
            }
            values.push(next);
        }
        let since = values.iter().map(|&value| self.zones.values[value as usize].since).collect();
        Block { values, since, latest: Vec::new() }
    }

    /// The operations of `block` that show when its value at `from` was first returned and when the last operation on
    /// its value at `to` was invoked, with the steps that tie these values together.
    fn part(&self, block: &Block, from: usize, to: usize) -> Vec<Piece> {
        let showers = [from, to].map(|place| self.shower(block.since[place]));
        let mut members = vec![block.latest[to].1];
        members.extend(showers);
        members.retain(|&op| op != NONE);
        members.sort_unstable();
        members.dedup();
        let place = |value: u32| block.values.iter().position(|&other| other == value);
        let mut points: Vec<usize> = members.iter().filter_map(|&op| place(self.value_of(op))).collect();
        points.extend([from, to]);
        points.sort_unstable();
        points.dedup();
        let mut pieces: Vec<Piece> = self.origin(block.values[points[0]]).into_iter().collect();
        for pair in points.windows(2) {
            let steps = block.values[pair[0] + 1..=pair[1]].iter().map(|&value| self.maker(value)).collect();
            pieces.push(Piece::Steps(steps));
        }
        pieces.extend(members.iter().flat_map(|&op| self.read(op)));
        pieces
    }
}

impl Block {
    /// A value that was first returned before `until` and one, the same if it can be, with an operation invoked after
    /// the return `since`.
    fn between(&self, until: u32, since: u32) -> (usize, usize) {
        let to = self.latest.iter().position(|&(after, _)| after > since).unwrap_or(0);
        if self.since[to] < until {
            return (to, to);
        }
        // The first value was returned before `until`, or the blocks would not be in each other's way.
        (self.since.partition_point(|&since| since < until).saturating_sub(1), to)
    }
}
