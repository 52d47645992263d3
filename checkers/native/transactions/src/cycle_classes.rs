//! The classes of cycles, each an anomaly.
//!
//! | class | its cycle (ww, wr, rw as in `graph::Kind`) |
//! | --- | --- |
//! | G0 | ww only |
//! | G1c | ww and wr, at least one wr |
//! | G-single | exactly one rw |
//! | G-nonadjacent | at least two rw, no two of them next to each other |
//! | G2-item | at least two rw, two of them next to each other |
//!
//! Each class also exists with process order and with real time; such a cycle has at least one step of that kind.
//!
//! Source: Adya, "Weak Consistency" (1999); Kingsbury & Alvaro (VLDB 2020).

use super::graph::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    G0,
    G1c,
    Single,
    Nonadjacent,
    G2Item,
}

pub const CLASSES: [Class; 5] = [Class::G0, Class::G1c, Class::Single, Class::Nonadjacent, Class::G2Item];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    None,
    Process,
    Realtime,
}

/// By class, without an order and with each.
const NAMES: [[&str; 3]; 5] = [
    ["G0", "G0-process", "G0-realtime"],
    ["G1c", "G1c-process", "G1c-realtime"],
    ["G-single", "G-single-process", "G-single-realtime"],
    ["G-nonadjacent", "G-nonadjacent-process", "G-nonadjacent-realtime"],
    ["G2-item", "G2-item-process", "G2-item-realtime"],
];

impl Class {
    pub fn name(self, order: Order) -> &'static str {
        NAMES[self as usize][order as usize]
    }

    pub fn has_rw(self) -> bool {
        !matches!(self, Self::G0 | Self::G1c)
    }

    /// Whether whatever forbids the other class forbids this one, too.
    pub fn is_worse(self, other: Self) -> bool {
        self.has_rw() == other.has_rw() && (self as u8) <= other as u8
    }

    pub fn allows(self, kind: Kind, order: Order) -> bool {
        (kind != Kind::Process || order == Order::Process) && self.step(State::default(), kind).is_some()
    }

    /// What a walk that has seen `state` has seen after one more edge; None where the class has no such cycle.
    pub fn step(self, state: State, kind: Kind) -> Option<State> {
        let mut next = state;
        match kind {
            Kind::Pass => return Some(state),
            Kind::Realtime => return None,
            Kind::Process => next.process = true,
            Kind::Ww => {}
            Kind::Wr if self == Self::G0 => return None,
            Kind::Wr => next.marked |= self == Self::G1c,
            Kind::Rw => match self {
                Self::G0 | Self::G1c => return None,
                Self::Single if state.rw == 1 => return None,
                Self::Nonadjacent if state.last_rw => return None,
                Self::G2Item => next.marked |= state.last_rw,
                Self::Single | Self::Nonadjacent => next.rw = (state.rw + 1).min(2),
            },
        }
        next.last_rw = kind == Kind::Rw && matches!(self, Self::Nonadjacent | Self::G2Item);
        Some(next)
    }

    /// Whether a path that began and ended beside a step of another kind makes the class.
    pub fn accepts(self, state: State) -> bool {
        match self {
            Self::G0 => true,
            Self::G1c | Self::G2Item => state.marked,
            Self::Single => state.rw == 1,
            Self::Nonadjacent => state.rw == 2,
        }
    }

    /// The kind of a cycle's first edge, if the walk is to begin with a telling one.
    pub fn first(self, order: Order) -> Kind {
        match (self, order) {
            (Self::G0, Order::Process) => Kind::Process,
            (Self::G0, _) => Kind::Ww,
            (Self::G1c, _) => Kind::Wr,
            _ => Kind::Rw,
        }
    }

    /// Whether a walk that began with `first` and came back by an edge of kind `last` makes the class.
    pub fn closes(self, state: State, last: Kind) -> bool {
        match self {
            Self::G0 | Self::G1c | Self::Single => true,
            Self::Nonadjacent => state.rw == 2 && last != Kind::Rw,
            Self::G2Item => last == Kind::Rw,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// 0, 1, or 2 for more.
    pub rw: u8,
    pub last_rw: bool,
    /// The wr of G1c; the adjacent pair of G2-item.
    pub marked: bool,
    pub process: bool,
}

pub const STATES: usize = 24;

impl State {
    pub fn code(self) -> usize {
        usize::from(self.rw)
            + 3 * usize::from(self.last_rw)
            + 6 * usize::from(self.marked)
            + 12 * usize::from(self.process)
    }

    pub fn of(code: usize) -> Self {
        Self { rw: (code % 3) as u8, last_rw: code / 3 % 2 == 1, marked: code / 6 % 2 == 1, process: code / 12 == 1 }
    }
}
