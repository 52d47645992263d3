//! Check an order against the history by itself: the search is not believed when it says `valid`.

use crate::model::Model;
use crate::operation::Ops;

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
