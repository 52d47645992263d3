//! Snapshot isolation of lists: find a schedule of starts and commits, or prove that there is none.
//!
//! Lists show the order of their versions, so most constraints of a schedule are certain: a version's writer commits
//! before its reader starts and before the next writer starts, and a reader starts before the next writer commits
//! (Cerone & Gotsman, "Analysing Snapshot Isolation", PODC 2016). One thing is open: if two transactions appended to
//! one key and nobody read the appends, either of them may commit before the other starts.
//!
//! The events are put in an order that keeps what is certain, each commit when it is due and its start as late as
//! possible. If two such transactions overlap in it, one of them is chosen to commit first, and the order is repaired
//! in place (Marchetti-Spaccamela, Nanni & Rohnert, "Maintaining a topological order under edge insertions", 1996). If
//! neither choice is possible, the latest choice that contributes to the conflict is taken back, with those after it
//! (Prosser, "Hybrid algorithms for the constraint satisfaction problem", 1993).

use std::collections::HashMap;

use super::graph::{Edges, Graph, Kind, Target};
use super::input::{Input, Kept, NONE};
use super::lists::Lists;
use super::realtime;
use super::snapshot::Schedule;
use limits::interrupt;

/// Events looked at while choosing, beside some for each event.
const STEPS_LEAST: u64 = 20_000_000;
const STEPS_PER_EVENT: u64 = 256;

/// What the search for a schedule came to.
pub enum Scheduled {
    Schedule(Schedule),
    /// Every choice leads to a circle.
    Impossible,
    GivenUp,
}

fn start(t: u32) -> u32 {
    2 * t
}

fn commit(t: u32) -> u32 {
    2 * t + 1
}

/// `before`: per transaction that happened the one of its process before it.
pub fn schedule(input: &Input<'_>, lists: &Lists<'_>, before: &[u32], kept: Kept) -> Scheduled {
    let certain = certain(input, lists, before, kept);
    let due = input.by_completion(&lists.happened).into_iter().map(commit);
    let Some(order) = certain.just_in_time(due) else { return Scheduled::Impossible };
    let mut groups = Vec::new();
    let unseen = lists.unseen_appends();
    for group in unseen.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        groups.push(group.iter().map(|&(_, t)| t).collect());
    }
    let mut timeline = Timeline::new(certain, order);
    match timeline.choose(groups) {
        Some(true) => {
            timeline.order.retain(|&event| (event as usize) < 2 * input.len());
            Scheduled::Schedule(timeline.order)
        }
        Some(false) => Scheduled::Impossible,
        None => Scheduled::GivenUp,
    }
}

/// What every schedule keeps, by the later event.
fn certain(input: &Input<'_>, lists: &Lists<'_>, before: &[u32], kept: Kept) -> Graph {
    let n = input.len() as u32;
    let mut edges = Edges::new(input.len(), 2 * input.kind.len());
    lists.dependencies(&mut edges);
    let mut events = Edges::new(2 * n as usize, edges.len() + 5 * n as usize);
    events.nodes += edges.nodes - n;
    // Only many readers before many writers are told by virtual nodes.
    for (from, target) in edges.all() {
        let (to, kind) = (target.node(), target.kind());
        let from = match kind {
            _ if from >= n => n + from,
            Kind::Rw => start(from),
            _ => commit(from),
        };
        let to = match kind {
            _ if to >= n => n + to,
            Kind::Rw | Kind::Pass => commit(to),
            _ => start(to),
        };
        events.add(from, to, kind);
    }
    if kept == Kept::Realtime {
        realtime::add_between(&mut events, input, &input.by_invocation(), &lists.happened, commit, start);
    }
    for t in (0..n).filter(|&t| lists.happened[t as usize]) {
        if kept == Kept::Process && before[t as usize] != NONE {
            events.add(commit(before[t as usize]), start(t), Kind::Process);
        }
    }
    // Last, so that the walk backwards comes to a start right before its commit.
    for t in (0..n).filter(|&t| lists.happened[t as usize]) {
        events.add(start(t), commit(t), Kind::Pass);
    }
    let all: Vec<(u32, Target)> = events.all().collect();
    Graph::backwards(events.nodes as usize, all.iter().copied())
}

/// One of two transactions commits before the other starts.
struct Choice {
    pair: [u32; 2],
    /// How many of the two were tried to come first.
    tried: usize,
    /// The choices before it that keep those from coming first.
    blame: Vec<u32>,
}

/// Why a start cannot come after a commit.
enum Obstacle {
    /// It leads to it, by these choices.
    Circle(Vec<u32>),
    Spent,
}

struct Timeline {
    /// What comes before each event for certain.
    certain: Graph,
    /// Per start: commits that were chosen to come before it, and the number of the choice.
    chosen: HashMap<u32, Vec<(u32, u32)>>,
    order: Vec<u32>,
    /// Per event: where it stands in `order`.
    place: Vec<u32>,
    /// Per event: the last walk that came to it, from which event, and by which choice; and the number of walks.
    marks: Vec<u32>,
    from: Vec<(u32, u32)>,
    mark: u32,
    left: u64,
}

impl Timeline {
    fn new(certain: Graph, order: Vec<u32>) -> Self {
        let nodes = certain.nodes();
        let mut place = vec![NONE; nodes];
        for (at, &event) in order.iter().enumerate() {
            place[event as usize] = at as u32;
        }
        Self {
            certain,
            chosen: HashMap::new(),
            order,
            place,
            marks: vec![0; nodes],
            from: vec![(NONE, NONE); nodes],
            mark: 0,
            left: STEPS_LEAST + STEPS_PER_EVENT * nodes as u64,
        }
    }

    /// Have no two of a group overlap; false where that cannot be, None when the budget ended.
    fn choose(&mut self, mut groups: Vec<Vec<u32>>) -> Option<bool> {
        let mut choices: Vec<Choice> = Vec::new();
        let (mut at, mut clean) = (0, 0);
        while clean < groups.len() {
            let Some(pair) = self.overlap(&mut groups[at])? else {
                (at, clean) = ((at + 1) % groups.len(), clean + 1);
                continue;
            };
            clean = 0;
            choices.push(Choice { pair, tried: 0, blame: Vec::new() });
            if !self.settle(&mut choices)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Carry out the last choice, or take back one that is to blame and carry out that; false where none is left.
    fn settle(&mut self, choices: &mut Vec<Choice>) -> Option<bool> {
        while let Some(number) = choices.len().checked_sub(1) {
            let choice = &mut choices[number];
            if choice.tried < 2 {
                let (first, second) = (choice.pair[choice.tried], choice.pair[1 - choice.tried]);
                choice.tried += 1;
                match self.put(commit(first), start(second), number as u32) {
                    Ok(()) => return Some(true),
                    Err(Obstacle::Circle(blame)) => choice.blame.extend(blame),
                    Err(Obstacle::Spent) => return None,
                }
                continue;
            }
            let blame = choices.pop().map_or_else(Vec::new, |choice| choice.blame);
            let Some(&latest) = blame.iter().max() else { return Some(false) };
            for choice in choices.drain(latest as usize + 1..).rev() {
                self.take_back(&choice);
            }
            if let Some(choice) = choices.last_mut() {
                self.take_back(choice);
                choice.blame.extend(blame.into_iter().filter(|&other| other != latest));
                choice.blame.sort_unstable();
                choice.blame.dedup();
            }
        }
        Some(false)
    }

    /// The two of a group that overlap first; None when the budget ended.
    fn overlap(&mut self, group: &mut [u32]) -> Option<Option<[u32; 2]>> {
        self.spend(group.len())?;
        group.sort_by_key(|&t| self.place[start(t) as usize]);
        let overlaps = |pair: &&[u32]| self.place[commit(pair[0]) as usize] > self.place[start(pair[1]) as usize];
        Some(group.windows(2).find(overlaps).map(|pair| [pair[0], pair[1]]))
    }

    /// Have a commit come before a start for good: whatever leads to the commit, from the start's place on, goes there.
    fn put(&mut self, commit: u32, start: u32, choice: u32) -> Result<(), Obstacle> {
        let (begin, end) = (self.place[start as usize], self.place[commit as usize]);
        if end > begin {
            self.mark_before(commit, start)?;
            self.spend((end - begin) as usize).ok_or(Obstacle::Spent)?;
            let range = begin as usize..end as usize + 1;
            let (mut earlier, later): (Vec<u32>, Vec<u32>) =
                self.order[range.clone()].iter().partition(|&&event| self.marks[event as usize] == self.mark);
            earlier.extend(later);
            for (at, &event) in range.clone().zip(&earlier) {
                self.place[event as usize] = at as u32;
            }
            self.order[range].copy_from_slice(&earlier);
        }
        self.chosen.entry(start).or_default().push((commit, choice));
        Ok(())
    }

    /// Mark a commit and what leads to it from the place of a start on; refused where that start does.
    fn mark_before(&mut self, commit: u32, start: u32) -> Result<(), Obstacle> {
        self.mark += 1;
        let first = self.place[start as usize];
        let mut waiting = vec![commit];
        self.marks[commit as usize] = self.mark;
        while let Some(event) = waiting.pop() {
            let certain = self.certain.from(event).iter().map(|target| (target.node(), NONE));
            let chosen = self.chosen.get(&event).into_iter().flatten().copied();
            let mut steps = 1;
            for (earlier, choice) in certain.chain(chosen) {
                steps += 1;
                if self.place[earlier as usize] < first || self.marks[earlier as usize] == self.mark {
                    continue;
                }
                self.marks[earlier as usize] = self.mark;
                self.from[earlier as usize] = (event, choice);
                if earlier == start {
                    return Err(Obstacle::Circle(self.blame(start, commit)));
                }
                waiting.push(earlier);
            }
            self.spend(steps).ok_or(Obstacle::Spent)?;
        }
        Ok(())
    }

    /// The choices on the way that a walk took from `end` back to `event`.
    fn blame(&self, mut event: u32, end: u32) -> Vec<u32> {
        let mut choices = Vec::new();
        while event != end {
            let (next, choice) = self.from[event as usize];
            if choice != NONE {
                choices.push(choice);
            }
            event = next;
        }
        choices
    }

    /// What was carried out last for a start.
    fn take_back(&mut self, choice: &Choice) {
        let second = choice.pair[2 - choice.tried];
        if let Some(chosen) = self.chosen.get_mut(&start(second)) {
            chosen.pop();
        }
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = interrupt::spend(self.left, steps as u64);
        (self.left > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transactions of which `pairs` say: what the one reads, the other overwrites.
    fn timeline(transactions: u32, pairs: &[(u32, u32)]) -> Timeline {
        let mut backwards: Vec<(u32, Target)> =
            pairs.iter().map(|&(a, b)| (commit(b), Target::new(start(a), Kind::Rw))).collect();
        backwards.extend((0..transactions).map(|t| (commit(t), Target::new(start(t), Kind::Pass))));
        let certain = Graph::new(2 * transactions as usize, backwards.iter().copied());
        let order = certain.just_in_time((0..transactions).map(commit)).unwrap_or_default();
        Timeline::new(certain, order)
    }

    fn keeps_apart(timeline: &Timeline, group: &[u32]) -> bool {
        let place = |event: u32| timeline.place[event as usize];
        let apart = |a: u32, b: u32| place(commit(a)) < place(start(b)) || place(commit(b)) < place(start(a));
        group.iter().all(|&a| group.iter().all(|&b| a == b || apart(a, b)))
    }

    #[test]
    fn who_reads_what_the_other_overwrites_may_overlap_but_two_appenders_may_not() {
        let mut two = timeline(2, &[(0, 1), (1, 0)]);
        assert_eq!(two.choose(vec![]), Some(true));
        assert_eq!(two.choose(vec![vec![0, 1]]), Some(false));
        // Each of three starts before the next commits: two of them may be apart.
        let mut ring = timeline(3, &[(0, 1), (1, 2), (2, 0)]);
        assert_eq!(ring.choose(vec![vec![0, 1]]), Some(true));
        assert!(keeps_apart(&ring, &[0, 1]));
        assert_eq!(ring.choose(vec![vec![0, 1], vec![1, 2]]), Some(false));
    }

    #[test]
    fn choices_agree_with_all_choices_tried() {
        let mut state = 1_u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % below
        };
        let mut seen = [0; 2];
        for _ in 0..3000 {
            let transactions = 3 + random(4);
            let pairs: Vec<(u32, u32)> =
                (0..random(9)).map(|_| (random(transactions), random(transactions))).filter(|(a, b)| a != b).collect();
            let mut groups: Vec<Vec<u32>> = vec![Vec::new(); 3];
            for t in 0..transactions {
                for group in &mut groups {
                    if random(2) == 0 {
                        group.push(t);
                    }
                }
            }
            let wanted = possible(transactions, &pairs, &groups, &mut vec![], &mut vec![0; transactions as usize]);
            let mut found = timeline(transactions, &pairs);
            assert_eq!(found.choose(groups.clone()), Some(wanted), "{pairs:?} {groups:?}");
            if wanted {
                assert!(groups.iter().all(|group| keeps_apart(&found, group)));
                let place = |event: u32| found.place[event as usize];
                assert!(pairs.iter().all(|&(a, b)| place(start(a)) < place(commit(b))));
                assert!((0..transactions).all(|t| place(start(t)) < place(commit(t))));
            }
            seen[usize::from(wanted)] += 1;
        }
        assert!(seen[0] > 300 && seen[1] > 300, "{seen:?}");
    }

    /// Whether some order of all events will do: `done` is 0, 1 for started, 2 for committed.
    fn possible(n: u32, pairs: &[(u32, u32)], groups: &[Vec<u32>], open: &mut Vec<u32>, done: &mut Vec<u8>) -> bool {
        if done.iter().all(|&state| state == 2) {
            return true;
        }
        for t in 0..n {
            let shares = |other: u32| groups.iter().any(|group| group.contains(&t) && group.contains(&other));
            match done[t as usize] {
                0 if !open.iter().any(|&other| shares(other)) => {
                    open.push(t);
                    done[t as usize] = 1;
                    let found = possible(n, pairs, groups, open, done);
                    open.retain(|&other| other != t);
                    done[t as usize] = 0;
                    if found {
                        return true;
                    }
                }
                1 if pairs.iter().all(|&(a, b)| b != t || done[a as usize] > 0) => {
                    open.retain(|&other| other != t);
                    done[t as usize] = 2;
                    let found = possible(n, pairs, groups, open, done);
                    open.push(t);
                    done[t as usize] = 1;
                    if found {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}
