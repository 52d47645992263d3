//! Check an order against the history independently, so that a `valid` does not rest on the search.

use super::model::Model;
use crate::history::Ops;

/// What is wrong with `order` (indexes into `ops`) as an explanation of `ops`, if anything.
pub fn refute<M: Model>(model: &M, ops: &(impl Ops + ?Sized), order: &[u32]) -> Option<String> {
    let mut placed = vec![false; ops.length()];
    let mut state = model.initial();
    let mut latest_invocation = i64::MIN;
    for &i in order {
        let op = &ops.at(i as usize);
        if std::mem::replace(&mut placed[i as usize], true) {
            return Some(format!("operation {} stands twice", op.id));
        }
        if op.returned < latest_invocation {
            return Some(format!("operation {} stands after one that was invoked when it had returned", op.id));
        }
        latest_invocation = latest_invocation.max(op.invoked);
        match model.step(state, op) {
            Some(next) => state = next,
            None => return Some(format!("operation {} cannot follow", op.id)),
        }
    }
    let missing = (0..ops.length()).find(|&i| !placed[i] && !ops.at(i).is_open_ended())?;
    Some(format!("operation {} is missing", ops.at(missing).id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CasRegister;
    use crate::history::{Function, NEVER, Op};

    #[test]
    fn an_order_is_refused_for_what_is_wrong_with_it() {
        let op = |id, function, a, invoked, returned| Op { id, blame: id, function, a, b: 0, invoked, returned };
        let ops = [
            op(10, Function::Write, 1, 0, 2),
            op(11, Function::Read, 0, 2, 4),
            op(12, Function::Read, 1, 3, 5),
            op(13, Function::Write, 2, 6, NEVER),
        ];
        let said = |order: &[u32]| refute(&CasRegister, &ops[..], order).unwrap_or_default();
        assert_eq!(said(&[1, 0, 2]), "", "what returns when another is invoked may follow it");
        assert_eq!(said(&[1, 0, 2, 3]), "");
        assert_eq!(said(&[1, 0]), "operation 12 is missing");
        assert_eq!(said(&[1, 0, 0, 2]), "operation 10 stands twice");
        assert_eq!(said(&[0, 1, 2]), "operation 11 cannot follow");
        assert_eq!(said(&[1, 3, 0, 2]), "operation 10 stands after one that was invoked when it had returned");
    }
}
