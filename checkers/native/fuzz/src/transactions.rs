//! Transactions: whatever the numbers, a report or a refusal, the same twice; and renamed keys change nothing.

use ::transactions::{Asked, Assumed, Failure, Input, Kept, Level, Report, check_lists, check_registers, check_weak};

const BUDGET: u64 = 100_000;
const NIL: i64 = i64::MIN;
const KEYS: usize = 3;

#[derive(Default)]
struct Columns {
    process: Vec<i64>,
    outcome: Vec<i64>,
    invoked: Vec<i64>,
    completed: Vec<i64>,
    first: Vec<i64>,
    kind: Vec<i64>,
    key: Vec<i64>,
    value: Vec<i64>,
    start: Vec<i64>,
    elements: Vec<i64>,
}

impl Columns {
    fn input(&self) -> Input<'_> {
        Input {
            process: &self.process,
            outcome: &self.outcome,
            invoked: &self.invoked,
            completed: &self.completed,
            first: &self.first,
            kind: &self.kind,
            key: &self.key,
            value: &self.value,
            start: &self.start,
            elements: &self.elements,
        }
    }

    fn renamed(&self) -> Columns {
        Columns {
            process: self.process.clone(),
            outcome: self.outcome.clone(),
            invoked: self.invoked.clone(),
            completed: self.completed.clone(),
            first: self.first.clone(),
            kind: self.kind.clone(),
            key: self.key.iter().map(|key| KEYS as i64 - 1 - key).collect(),
            value: self.value.clone(),
            start: self.start.clone(),
            elements: self.elements.clone(),
        }
    }
}

/// Any numbers in any column: small ones, offsets that go back, the ends of the range.
fn arbitrary(data: &[u8]) -> Columns {
    let mut bytes = data.iter().copied();
    let mut column = || -> Vec<i64> {
        let length = usize::from(bytes.next().unwrap_or(0) % 9);
        let number = |byte: u8| match byte {
            255 => i64::MIN,
            254 => i64::MAX,
            253 => -1,
            byte => i64::from(byte % 16),
        };
        (0..length).map_while(|_| bytes.next().map(number)).collect()
    };
    Columns {
        process: column(),
        outcome: column(),
        invoked: column(),
        completed: column(),
        first: column(),
        kind: column(),
        key: column(),
        value: column(),
        start: column(),
        elements: column(),
    }
}

/// One store for all, from which each read is answered, truly or not: an older state, a value more, nothing.
fn simulated(data: &[u8], lists: bool) -> Columns {
    let mut columns = Columns { first: vec![0], start: vec![0], ..Columns::default() };
    let mut states: [Vec<i64>; KEYS] = Default::default();
    let mut bytes = data.iter().copied();
    while let Some(byte) = bytes.next() {
        let at = 4 * columns.process.len() as i64;
        columns.process.push(columns.process.len() as i64);
        columns.outcome.push(match byte >> 4 {
            15 => 1,
            13 | 14 => 2,
            _ => 0,
        });
        columns.invoked.push(at);
        columns.completed.push(at + 1 + 2 * i64::from(byte >> 2 & 7));
        for _ in 0..=byte & 3 {
            let Some(op) = bytes.next() else { break };
            let state = &mut states[usize::from(op) % KEYS];
            columns.key.push((usize::from(op) % KEYS) as i64);
            if op & 64 != 0 {
                let fresh = columns.kind.len() as i64 + 1;
                columns.kind.push(0);
                columns.value.push(fresh);
                state.push(fresh);
            } else {
                columns.kind.push(if op & 128 != 0 { 2 } else { 1 });
                let shown = state.len().saturating_sub(usize::from(op >> 2 & 3));
                let shown = if op & 48 == 48 { &state[shown..] } else { &state[..shown] };
                if lists {
                    columns.elements.extend(shown);
                }
                columns.value.push(if lists { 0 } else { shown.last().copied().unwrap_or(NIL) });
            }
            columns.start.push(columns.elements.len() as i64);
        }
        columns.first.push(columns.kind.len() as i64);
    }
    columns
}

fn judge(columns: &Columns, lists: bool, kept: Kept) -> Result<Report, String> {
    let all = Assumed { wfr: true, sequential: true, linearizable: matches!(kept, Kept::Realtime) };
    let found = if lists {
        check_lists(&columns.input(), kept, true, BUDGET)
    } else {
        check_registers(&columns.input(), all, kept, true, true, BUDGET)
    };
    found.map_err(|failure| match failure {
        Failure::MalformedInput(why) => why,
        Failure::Defect(defect) => panic!("{}", defect.0),
    })
}

/// What was found, without the rows: names of anomalies, whether there is a cycle, and whether there is an order. Which
/// of the classes less serious than another are shown may depend on the order of rows and keys.
fn summary(report: &Report) -> (Vec<&'static str>, bool, bool) {
    let mut anomalies: Vec<_> =
        report.anomalies.counts.iter().flat_map(|&(name, count)| [name].repeat(count)).collect();
    anomalies.sort_unstable();
    (anomalies, report.cycles.is_empty(), report.order.is_some())
}

pub fn try_one(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let lists = mode & 1 == 0;
    let kept = [Kept::Nothing, Kept::Process, Kept::Realtime, Kept::Realtime][usize::from(mode >> 1 & 3)];
    if mode & 8 == 0 {
        drop(judge(&arbitrary(data), lists, kept));
        return;
    }
    let columns = simulated(data, lists);
    let Ok(report) = judge(&columns, lists, kept) else { return };
    let level = [Level::Committed, Level::View, Level::Atomic, Level::Causal][usize::from(mode >> 4 & 3)];
    // Schedules are asked for of histories that show nothing that read committed forbids.
    let clean = report.anomalies.counts.is_empty()
        && report.cycles.iter().all(|cycle| !cycle.name.starts_with("G0") && !cycle.name.starts_with("G1"));
    for asked in [Asked::Commits { level, sessions: mode & 64 == 0 }, Asked::Snapshots(kept)] {
        if (clean || matches!(asked, Asked::Commits { .. }))
            && let Err(Failure::Defect(defect)) = check_weak(&columns.input(), lists, asked, BUDGET)
        {
            panic!("{} {asked:?} {:?}", defect.0, summary(&report));
        }
    }
    let again = judge(&columns, lists, kept).expect("it was judged before");
    assert_eq!(summary(&report), summary(&again));
    // Keys are numbered below the number of micro-operations.
    if report.unfinished.is_empty() && columns.kind.len() >= KEYS {
        let renamed = judge(&columns.renamed(), lists, kept).expect("only names differ");
        assert_eq!(summary(&report), summary(&renamed));
    }
}
