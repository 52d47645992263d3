//! The operations of many keys as columns, and the rows of each key.
//!
//! Keys are usually numbered densely, and rows usually come in the order of invocation, so counting replaces sorting.
//! The columns stay where they are: a list of all operations would need the same memory again.

use super::operation::{Function, NEVER, Op, Ops};

#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub key: &'a [i64],
    pub f: &'a [i64],
    pub a: &'a [i64],
    pub b: &'a [i64],
    pub invoked: &'a [i64],
    pub returned: &'a [i64],
}

/// The distinct keys in ascending order, and the rows of each, by invocation.
pub struct Subhistories<'a> {
    pub keys: Vec<i64>,
    rows: Rows<'a>,
    /// All rows, key after key; None if they are in that order already.
    order: Option<Vec<u32>>,
    /// The end of each key's rows.
    ends: Vec<usize>,
}

/// The operations of one key.
pub struct Subhistory<'a> {
    rows: Rows<'a>,
    order: Option<&'a [u32]>,
}

impl Subhistories<'_> {
    pub fn each(&self) -> Vec<Subhistory<'_>> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let order = |start, end| self.order.as_ref().map(|order| &order[start..end]);
        let of = |(&start, &end): (&usize, &usize)| Subhistory { rows: self.rows, order: order(start, end) };
        starts.zip(&self.ends).map(of).collect()
    }
}

impl Ops for Subhistory<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.order.map_or(self.rows.key.len(), <[u32]>::len)
    }

    #[inline(always)]
    fn at(&self, i: usize) -> Op {
        self.rows.operation(self.order.map_or(i, |order| order[i] as usize))
    }
}

/// Keys that span more numbers than this per row are sorted.
const SPAN_PER_ROW: u64 = 4;

impl<'a> Rows<'a> {
    pub fn split(&self) -> Result<Subhistories<'a>, String> {
        let n = self.key.len();
        let rest = [self.f, self.a, self.b, self.invoked, self.returned];
        if rest.iter().any(|column| column.len() != n) {
            return Err(format!("the columns differ in length: key has {n}"));
        }
        u32::try_from(n).ok().filter(|&n| n < 1 << 30).ok_or("more than 2^30 rows")?;
        // Without a branch for each row; which one is wrong is asked only if any is.
        if !(0..n).fold(true, |sound, row| sound & self.is_sound(row)) {
            (0..n).try_for_each(|row| self.judge(row))?;
        }
        let (Some(&low), Some(&high)) = (self.key.iter().min(), self.key.iter().max()) else {
            return Ok(Subhistories { keys: Vec::new(), rows: *self, order: None, ends: Vec::new() });
        };
        let is_sorted = self.invoked.is_sorted();
        if low == high {
            let order = (!is_sorted).then(|| {
                let mut order: Vec<u32> = (0..n as u32).collect();
                order.sort_by_key(|&row| self.invoked[row as usize]);
                order
            });
            return Ok(Subhistories { keys: vec![low], rows: *self, order, ends: vec![n] });
        }
        let (keys, ends, mut order) = if high.abs_diff(low) < SPAN_PER_ROW * n as u64 {
            self.counted(low, high.abs_diff(low) as usize + 1)
        } else {
            self.sorted()
        };
        if !is_sorted {
            let mut start = 0;
            for &end in &ends {
                order[start..end].sort_by_key(|&row| self.invoked[row as usize]);
                start = end;
            }
        }
        Ok(Subhistories { keys, rows: *self, order: Some(order), ends })
    }

    /// The keys, where each ends in the order of keys, and that order of rows.
    fn counted(&self, low: i64, span: usize) -> (Vec<i64>, Vec<usize>, Vec<u32>) {
        let place = |key: i64| key.abs_diff(low) as usize;
        let mut next = vec![0u32; span];
        for &key in self.key {
            next[place(key)] += 1;
        }
        let (mut keys, mut ends, mut end) = (Vec::new(), Vec::new(), 0);
        for (i, next) in next.iter_mut().enumerate() {
            let count = std::mem::replace(next, end);
            if count > 0 {
                end += count;
                keys.push(low + i as i64);
                ends.push(end as usize);
            }
        }
        let mut order = vec![0u32; self.key.len()];
        for (row, &key) in self.key.iter().enumerate() {
            let next = &mut next[place(key)];
            order[*next as usize] = row as u32;
            *next += 1;
        }
        (keys, ends, order)
    }

    fn sorted(&self) -> (Vec<i64>, Vec<usize>, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.key.len() as u32).collect();
        order.sort_by_key(|&row| self.key[row as usize]);
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        for (i, &row) in order.iter().enumerate() {
            let key = self.key[row as usize];
            if keys.last() == Some(&key) {
                ends.pop();
            } else {
                keys.push(key);
            }
            ends.push(i + 1);
        }
        (keys, ends, order)
    }

    #[inline]
    fn is_sound(&self, row: usize) -> bool {
        const VALUES: i64 = u32::MAX as i64;
        let (invoked, returned) = (self.invoked[row], self.returned[row]);
        (0..=2).contains(&self.f[row])
            & (0..=VALUES).contains(&self.a[row])
            & (0..=VALUES).contains(&self.b[row])
            & ((returned < 0) | (returned >= invoked))
            & (returned != NEVER)
    }

    /// Describe what is wrong with a row.
    fn judge(&self, row: usize) -> Result<(), String> {
        if !(0..=2).contains(&self.f[row]) {
            return Err(format!("row {row}: f is {}; expected 0 read, 1 write or 2 cas", self.f[row]));
        }
        let (invoked, returned) = (self.invoked[row], self.returned[row]);
        if returned >= 0 && returned < invoked {
            return Err(format!("row {row}: returned at {returned}, before it was invoked at {invoked}"));
        }
        if returned == NEVER {
            return Err(format!("row {row}: returned at {returned}; expected less, or -1 where that is unknown"));
        }
        for (name, given) in [("a", self.a[row]), ("b", self.b[row])] {
            u32::try_from(given).map_err(|_| format!("row {row}: {name} is {given}; expected 0 to 2^32 - 1"))?;
        }
        Ok(())
    }

    /// All columns are of one length, so one of them tells whether there is such a row; the others are then only read
    /// where they are asked for.
    #[inline(always)]
    fn operation(&self, row: usize) -> Op {
        let function = match self.f[row] {
            0 => Function::Read,
            1 => Function::Write,
            _ => Function::CompareAndSet,
        };
        let of = |column: &[i64]| column.get(row).copied().unwrap_or_default();
        let returned = of(self.returned);
        Op {
            id: row as u32,
            blame: row as u32,
            function,
            a: of(self.a) as u32,
            b: of(self.b) as u32,
            invoked: of(self.invoked),
            returned: if returned < 0 { NEVER } else { returned },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with the rows of each, by the rows' keys and invocations.
    fn split(key: &[i64], invoked: &[i64]) -> Vec<(i64, Vec<u32>)> {
        let zeros = vec![0; key.len()];
        let never = vec![-1; key.len()];
        let rows = Rows { key, f: &zeros, a: &zeros, b: &zeros, invoked, returned: &never };
        let split = rows.split().expect("nothing is wrong");
        let rows_of = |ops: &Subhistory| ops.iter().map(|op| op.id).collect();
        split.keys.iter().copied().zip(split.each().iter().map(rows_of)).collect()
    }

    #[test]
    fn rows_go_to_their_keys_by_invocation() {
        assert_eq!(split(&[], &[]), []);
        assert_eq!(split(&[7, 7, 7], &[2, 1, 2]), [(7, vec![1, 0, 2])]);
        let times = [1, 9, 3, 2, 0];
        assert_eq!(split(&[5, 3, 5, 5, 3], &times), [(3, vec![4, 1]), (5, vec![0, 3, 2])]);
        let far = [i64::MAX, i64::MIN, i64::MAX, i64::MAX, i64::MIN];
        assert_eq!(split(&far, &times), [(i64::MIN, vec![4, 1]), (i64::MAX, vec![0, 3, 2])]);
    }
}
