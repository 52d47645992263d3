//! Find an order that explains one object's operations, or a proof that there is none: the cheapest attempt first.
//!
//! A narrow walk goes first. If no configuration is left, there are two cases. Either no order passes the operation at
//! that point, which a window before it may prove (`bracket`). Or the walk kept the wrong configurations: then it goes
//! back and tries again, each time from further back and with more configurations, and becomes narrow again once it has
//! passed. The last attempt keeps all configurations and decides.

use super::bits::Bits;
use super::bracket;
use super::depth;
use super::events::{Events, is_return, operation};
use super::model::Model;
use super::walk::{Breadth, Walk};
use crate::history::Op;
use limits::{Limits, Stop};

#[derive(Debug)]
pub enum Finding<S> {
    /// One order that explains everything (indexes of operations).
    Explained {
        order: Vec<u32>,
    },
    /// No order passes `failed`, and none of the operations that returned before it is known to be impassable. `prefix`
    /// is an order that explains those, a longest one that was found; `states` holds every value that the object may
    /// have then and perhaps more, but none that would let `failed` pass; `open` are the operations that had not
    /// returned.
    Refuted {
        failed: u32,
        prefix: Vec<u32>,
        states: Vec<S>,
        open: Vec<u32>,
    },
    Stopped(Stop),
}

/// Where another walk ran dry: `prefix` is an order of all that returned before `failed`, and it found none past that.
#[derive(Debug)]
pub struct Dry {
    pub failed: u32,
    pub prefix: Vec<u32>,
}

/// Judge `ops`, sorted by invocation; also the steps that it took. What another walk ran `dry` at may be impossible, and
/// is asked for first.
pub fn judge<M: Model>(model: &M, ops: &[Op], dry: Option<Dry>, limits: Limits) -> (Finding<M::State>, u64) {
    let events = Events::new(model, ops);
    match events.widest.div_ceil(64) {
        0 | 1 => Search::<M, [u64; 1]>::new(model, ops, &events, 1, limits).judge(dry),
        2 => Search::<M, [u64; 2]>::new(model, ops, &events, 2, limits).judge(dry),
        3..=8 => Search::<M, [u64; 8]>::new(model, ops, &events, 8, limits).judge(dry),
        words => Search::<M, Vec<u64>>::new(model, ops, &events, words, limits).judge(dry),
    }
}

/// One attempt: how many events to go back, what to keep on the way, how long a window to try for a proof.
struct Attempt {
    back: usize,
    breadth: Breadth,
    window: usize,
}

/// How many events before the one that another walk ran dry at are tried for a proof, and with how many steps.
const WINDOWS: [(usize, u64); 2] = [(64, 20_000), (256, 100_000)];

/// Steps of the search depth first.
const DEEP: u64 = 300_000;

const NARROW: Breadth = Breadth { configs: 4, fewest: true, spare: 0 };
const ATTEMPTS: [Attempt; 5] = [
    Attempt { back: 64, breadth: Breadth { configs: 16, fewest: true, spare: 0 }, window: 0 },
    Attempt { back: 256, breadth: Breadth { configs: 64, fewest: true, spare: 1 }, window: 256 },
    Attempt { back: 1024, breadth: Breadth { configs: 256, fewest: true, spare: 1 }, window: 1024 },
    Attempt { back: 4096, breadth: Breadth { configs: 1024, fewest: true, spare: 2 }, window: 4096 },
    Attempt { back: 16384, breadth: Breadth { configs: 4096, fewest: false, spare: 4 }, window: usize::MAX },
];

struct Search<'a, M: Model, B: Bits> {
    model: &'a M,
    ops: &'a [Op],
    events: &'a Events,
    words: usize,
    limits: Limits,
    spent: u64,
    bits: std::marker::PhantomData<B>,
}

impl<'a, M: Model, B: Bits> Search<'a, M, B> {
    fn new(model: &'a M, ops: &'a [Op], events: &'a Events, words: usize, limits: Limits) -> Self {
        let memory_bytes = limits.memory_bytes.saturating_sub(events.bytes());
        let limits = Limits { memory_bytes, ..limits };
        Search { model, ops, events, words, limits, spent: 0, bits: std::marker::PhantomData }
    }

    fn judge(mut self, dry: Option<Dry>) -> (Finding<M::State>, u64) {
        let refuted = dry.map_or(Ok(None), |dry| self.refute(dry));
        let refuted = refuted.and_then(|refuted| refuted.map_or_else(|| self.go_deep(), |found| Ok(Some(found))));
        let finding = refuted.and_then(|found| found.map_or_else(|| self.decide(), Ok));
        (finding.unwrap_or_else(Finding::Stopped), self.spent)
    }

    /// Look depth first, where that is not what a register's own walks do better.
    fn go_deep(&mut self) -> Result<Option<Finding<M::State>>, Stop> {
        if self.model.is_register() {
            return Ok(None);
        }
        let limits = Limits { steps: self.limits.steps.min(DEEP), ..self.limits };
        let (found, steps) = depth::search::<M, B>(self.model, self.ops, self.events, self.words, limits);
        self.spent += steps;
        match found {
            Err(Stop::Steps | Stop::Memory) => Ok(None),
            other => other,
        }
    }

    /// Refute what another walk ran dry at by a short window before it, if one will do.
    fn refute(&mut self, dry: Dry) -> Result<Option<Finding<M::State>>, Stop> {
        let Dry { failed, prefix } = dry;
        let returned = |&event: &u32| is_return(event) && operation(event) == failed;
        let at = self.events.list.iter().position(returned).expect("what returned has an event");
        for (window, steps) in WINDOWS {
            if let Some(states) = self.bracketed(at, window, steps, 0)? {
                return Ok(Some(self.refuted(at, prefix, states)));
            }
        }
        Ok(None)
    }

    fn decide(&mut self) -> Result<Finding<M::State>, Stop> {
        let end = self.events.list.len();
        let mut walk = Walk::<M, B>::new(self.model, self.ops, self.events, self.words, self.limits);
        walk.steps = self.spent;
        let mut attempts = ATTEMPTS.iter();
        let mut passed_at = end;
        let mut breadth = NARROW;
        loop {
            let dry = walk.run(passed_at, breadth);
            self.spent = self.spent.max(walk.steps);
            let Some(dry) = dry? else {
                if passed_at == end {
                    return Ok(Finding::Explained { order: walk.explanation() });
                }
                (attempts, breadth, passed_at) = (ATTEMPTS.iter(), NARROW, end);
                continue;
            };
            if !walk.narrowed {
                return Ok(self.refuted(dry, walk.prefix(), walk.states()));
            }
            let Some(attempt) = attempts.next() else { break };
            if attempt.window > 0 {
                let share = 1_000_000 + self.spent;
                let states = self.bracketed(dry, attempt.window, share, walk.bytes())?;
                walk.steps = self.spent;
                if let Some(states) = states {
                    return Ok(self.refuted(dry, walk.prefix(), states));
                }
            }
            breadth = attempt.breadth;
            passed_at = dry.saturating_add(attempt.back).min(end);
            walk.go_back(attempt.back);
        }
        drop(walk);
        let mut walk = Walk::<M, B>::new(self.model, self.ops, self.events, self.words, self.limits);
        walk.steps = self.spent;
        let dry = walk.run(end, Breadth::ALL);
        self.spent = walk.steps;
        Ok(match dry? {
            None => Finding::Explained { order: walk.explanation() },
            Some(dry) => self.refuted(dry, walk.prefix(), walk.states()),
        })
    }

    /// The states at the event `dry`, if a window of events before it proves that no order passes it, with so many steps
    /// and beside so many bytes.
    fn bracketed(
        &mut self,
        dry: usize,
        window: usize,
        steps: u64,
        held_bytes: usize,
    ) -> Result<Option<Vec<M::State>>, Stop> {
        let limits = Limits {
            steps: steps.min(self.limits.steps.saturating_sub(self.spent)),
            memory_bytes: self.limits.memory_bytes.saturating_sub(held_bytes),
            deadline: self.limits.deadline,
        };
        let range = (dry.saturating_sub(window), dry + 1);
        let bracketed = bracket::search::<M, B>(self.model, self.ops, self.events, self.words, range, limits);
        let Some(bracket) = bracketed else { return Ok(None) };
        self.spent += bracket.steps;
        match bracket.failed {
            Err(stop @ (Stop::Deadline | Stop::Interrupted | Stop::Contradicted)) => Err(stop),
            Ok(Some((failed, states))) => {
                // The walk has passed what comes before.
                assert!(failed == dry, "a window refuted what an order passes");
                Ok(Some(states))
            }
            Ok(None) | Err(Stop::Steps | Stop::Memory) => Ok(None),
        }
    }

    fn refuted(&self, dry: usize, prefix: Vec<u32>, states: Vec<M::State>) -> Finding<M::State> {
        let failed = operation(self.events.list[dry]);
        let open = self.events.open(dry).into_iter().filter(|&i| i != failed).collect();
        Finding::Refuted { failed, prefix, states, open }
    }
}
