//! Sequential objects beyond registers: an object says what a call does to its state, and the same search judges it.
//!
//! Each object has its own file. `interned` turns it into a model with numbered states, and `judge` passes that to the
//! search.

pub mod bank;
mod counter;
pub mod foreign;
mod interned;
pub mod judge;
pub mod log;
pub mod multi_register;
mod mutexes;
mod queue;
mod reduce;
mod set;

use std::hash::Hash;

/// One call with what it returned: `f` numbers the object's functions, `args` are as that object's file says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub f: u8,
    pub args: Box<[i64]>,
}

/// Something that can only be seen after a certain kind of call made it: an element, or a register's value.
pub type Token = (i64, i64);

/// A sequential object. All but `initial`, `step` and `show` are promises that make the search shorter; what stands
/// here is always safe.
pub trait Object: Sync {
    type State: Clone + Eq + Hash + Send;

    fn initial(&self) -> Self::State;

    /// The state after `call` returned what it did, or None where `state` forbids that.
    fn step(&self, state: &Self::State, call: &Call) -> Option<Self::State>;

    /// The state in numbers, for people.
    fn show(&self, state: &Self::State) -> Vec<i64>;

    /// Bytes on the heap that a state takes.
    fn heap_bytes(&self, _state: &Self::State) -> usize {
        0
    }

    /// Whether `step` tells all that an order must keep. If not, it does of what `reduce` leaves.
    fn is_complete(&self) -> bool {
        true
    }

    /// `call` never changes any state.
    fn reads_only(&self, _call: &Call) -> bool {
        false
    }

    /// Of unknown outcome, it may be left out of every order that it stands in.
    fn is_spare(&self, call: &Call) -> bool {
        self.reads_only(call)
    }

    /// What `call` alone brings about. Of unknown outcome, it may be left out of every order in which nobody observes
    /// any of it.
    fn makes(&self, _call: &Call) -> Vec<Token> {
        Vec::new()
    }

    /// What must have been made before `call` takes effect.
    fn observes(&self, _call: &Call) -> Vec<Token> {
        Vec::new()
    }
}
