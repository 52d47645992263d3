//! Rows grouped by a number, in one allocation.

/// Rows grouped by a number: those of group g at `starts[g]..starts[g + 1]`.
pub struct Groups<T> {
    starts: Vec<u32>,
    pub rows: Vec<T>,
}

impl<T: Copy + Default> Groups<T> {
    /// Keeps the order of `rows` within a group.
    pub fn new(groups: usize, rows: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut starts = vec![0_u32; groups + 1];
        for (group, _) in rows.clone() {
            starts[group as usize + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut place = starts.clone();
        let mut grouped = vec![T::default(); starts[groups] as usize];
        for (group, row) in rows {
            grouped[place[group as usize] as usize] = row;
            place[group as usize] += 1;
        }
        Self { starts, rows: grouped }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn of(&self, group: u32) -> &[T] {
        &self.rows[self.starts[group as usize] as usize..self.starts[group as usize + 1] as usize]
    }
}
