//! Sequential specifications: the search knows an object only by these four questions.

use std::hash::Hash;

use crate::history::{Function, Op};

/// `reads_only` and `overwrites` are promises that the search's shortcuts rest on; answering `false` is always safe.
pub trait Model: Sync {
    type State: Copy + Eq + Ord + Hash + Send;

    fn initial(&self) -> Self::State;

    /// The state after `op`, or None where `state` forbids it.
    fn step(&self, state: Self::State, op: &Op) -> Option<Self::State>;

    /// `op` never changes any state.
    fn reads_only(&self, op: &Op) -> bool;

    /// `op` is allowed in every state, and the state after it does not depend on the one before.
    fn overwrites(&self, op: &Op) -> bool;

    /// The state that `op` leaves, whatever was before; None where it leaves the one that it found.
    ///
    /// Only asked where `is_register`.
    fn made(&self, _op: &Op) -> Option<Self::State> {
        None
    }

    /// The one state that allows `op`; None where every state does. Only asked where `is_register`.
    fn seen(&self, _op: &Op) -> Option<Self::State> {
        None
    }

    /// Whether `made` and `seen` tell all there is to tell of every operation; answering `false` is always safe.
    fn is_register(&self) -> bool {
        false
    }
}

/// The state after an operation that overwrites; after others any.
pub fn result<M: Model>(model: &M, op: &Op) -> M::State {
    model.step(model.initial(), op).unwrap_or_else(|| model.initial())
}

/// A register that holds one value, 0 at first; compare-and-set included, since a plain register is one without.
pub struct CasRegister;

impl Model for CasRegister {
    type State = u32;

    fn initial(&self) -> u32 {
        0
    }

    #[inline]
    fn step(&self, state: u32, op: &Op) -> Option<u32> {
        let is_found = (op.function == Function::Write) | (state == op.a);
        (is_found & (op.function != Function::Call)).then_some(op.left())
    }

    #[inline]
    fn reads_only(&self, op: &Op) -> bool {
        op.function == Function::Read
    }

    #[inline]
    fn overwrites(&self, op: &Op) -> bool {
        op.function == Function::Write
    }

    fn made(&self, op: &Op) -> Option<u32> {
        op.made()
    }

    fn seen(&self, op: &Op) -> Option<u32> {
        op.observed()
    }

    fn is_register(&self) -> bool {
        true
    }
}
