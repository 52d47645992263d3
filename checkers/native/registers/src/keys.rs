//! Judge many objects (keys) in parallel under one budget, with an answer that does not depend on timing.
//!
//! Steps are assigned in rounds. In the first round every key gets an equal share. Keys that run out then share the
//! steps that others left, as long as that at least doubles their share. A key may use 1/16 of the memory, since up to
//! 16 run at once; keys that need more run alone at the end with all of it. So the result of each key depends only on
//! counts.
//!
//! The deadline is the one exception. It protects against a machine that is too slow, and it can only replace an answer
//! by none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::portfolio::{Judged, Scratch, judge_one};
use limits::{Deadline, Defect, Limits, Stop, catch};
use search::history::Ops;
use search::{Finding, Model};

const THREADS_MAX: usize = 16;
/// Below this many operations threads cost more than they save.
pub const WORTH_THREADS: usize = 2_000;

pub struct Budget {
    pub steps: u64,
    pub memory_bytes: usize,
    pub deadline: Deadline,
    pub threads: usize,
}

/// Judge each of `subhistories` (each sorted by invocation).
pub fn judge_keys(
    model: &impl Model<State = u32>,
    subhistories: &[impl Ops + Sync],
    budget: &Budget,
) -> Result<Vec<Judged<u32>>, Defect> {
    let mut results: Vec<Option<Judged<u32>>> = (0..subhistories.len()).map(|_| None).collect();
    let mut remaining = budget.steps;
    let mut waiting: Vec<usize> = (0..subhistories.len()).collect();
    let mut short_of_memory: Vec<usize> = Vec::new();
    let mut share = 0;
    while !waiting.is_empty() && remaining / waiting.len() as u64 >= (2 * share).max(1) {
        share = remaining / waiting.len() as u64;
        let limits =
            Limits { steps: share, memory_bytes: budget.memory_bytes / THREADS_MAX, deadline: budget.deadline };
        for (key, judged) in in_parallel(model, subhistories, &waiting, limits, budget.threads)? {
            remaining = remaining.saturating_sub(judged.steps);
            if matches!(judged.finding, Finding::Stopped(Stop::Memory)) {
                short_of_memory.push(key);
            }
            results[key] = Some(judged);
        }
        let stopped =
            |&key: &usize| matches!(results[key], Some(Judged { finding: Finding::Stopped(Stop::Steps), .. }));
        waiting.retain(stopped);
    }
    for (done, &key) in short_of_memory.iter().enumerate() {
        let steps = remaining / (short_of_memory.len() - done) as u64;
        if steps == 0 {
            break;
        }
        let limits = Limits { steps, memory_bytes: budget.memory_bytes, deadline: budget.deadline };
        let judged = catch(|| judge_one(model, &subhistories[key], limits, &mut Scratch::default()))?
            .unwrap_or_else(contradicted);
        remaining = remaining.saturating_sub(judged.steps);
        results[key] = Some(judged);
    }
    let nothing_left = || Judged::stopped(0, 0, "", Stop::Steps);
    Ok(results.into_iter().map(|result| result.unwrap_or_else(nothing_left)).collect())
}

/// One key's defect leaves the answers about the others.
fn contradicted(_: Defect) -> Judged<u32> {
    Judged::stopped(0, 0, "", Stop::Contradicted)
}

fn in_parallel(
    model: &impl Model<State = u32>,
    subhistories: &[impl Ops + Sync],
    keys: &[usize],
    limits: Limits,
    threads: usize,
) -> Result<Vec<(usize, Judged<u32>)>, Defect> {
    let total: usize = keys.iter().map(|&key| subhistories[key].length()).sum();
    let threads = if total < WORTH_THREADS { 1 } else { threads.clamp(1, THREADS_MAX).min(keys.len()) };
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Judged<u32>)>, Defect> {
        let mut done = Vec::new();
        let mut scratch = Scratch::default();
        while let Some(&key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let judged = catch(|| judge_one(model, &subhistories[key], limits, &mut scratch))?;
            done.push((key, judged.unwrap_or_else(contradicted)));
        }
        Ok(done)
    };
    let mut all = if threads == 1 {
        work()?
    } else {
        let parts = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
        });
        let mut all = Vec::with_capacity(keys.len());
        for part in parts {
            all.extend(part.unwrap_or_else(|panic| Err(Defect::of_panic(&*panic)))?);
        }
        all
    };
    all.sort_unstable_by_key(|&(key, _)| key);
    Ok(all)
}
