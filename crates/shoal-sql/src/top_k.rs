//! The best rows of a query by a score from the caller.

use crate::Error;
use crate::rows::{Row, Rows};
use crate::value::Value;

/// A row and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The scorer's result; lower is better.
    pub score: f64,
    /// The row's values.
    pub row: Vec<Value>,
}

impl Rows<'_> {
    /// The `k` rows with the lowest scores, the best first; of equal scores the row that came
    /// first. A row whose score is not a number is left out.
    ///
    /// Cost: one call of `score` for each row; only rows among the best so far are copied.
    ///
    /// ```
    /// # use shoal_sql::Connection;
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// let mut statement = connection.prepare(
    ///     "SELECT column1, column2 FROM (VALUES ('a', 3.0), ('b', -1.0), ('c', 2.0))",
    /// )?;
    /// let near_two = connection.query(&mut statement)?.top_k(2, |row| match row.get(1) {
    ///     shoal_sql::ValueRef::Real(place) => (place - 2.0).abs(),
    ///     _ => f64::NAN,
    /// })?;
    /// let names: Vec<_> = near_two.iter().map(|best| best.row[0].clone()).collect();
    /// assert_eq!(names, [shoal_sql::Value::text("c"), shoal_sql::Value::text("a")]);
    /// # Ok::<(), shoal_sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Rows::next`].
    pub fn top_k(
        mut self,
        k: usize,
        mut score: impl FnMut(&Row<'_>) -> f64,
    ) -> Result<Vec<Scored>, Error> {
        let mut best: Vec<Scored> = Vec::new();
        while let Some(row) = self.next()? {
            let score = score(&row);
            let full = best.len() >= k;
            let worst = best.last().map_or(f64::INFINITY, |worst| worst.score);
            if score.is_nan() || k == 0 || full && score >= worst {
                continue;
            }
            let place = best.partition_point(|known| known.score <= score);
            // The dropped row lends its memory to the new one.
            let mut values = match full {
                true => best.pop().map(|last| last.row).unwrap_or_default(),
                false => Vec::new(),
            };
            values.clear();
            values.extend(row.values().map(Value::from));
            best.insert(place, Scored { score, row: values });
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, ValueRef};

    #[test]
    fn the_lowest_scores_in_order() {
        let mut connection = Connection::open(shoal_store::Store::memory()).unwrap();
        let sql = "SELECT value, value * 7919 % 101 FROM generate_series(1, 300)";
        let mut statement = connection.prepare(sql).unwrap();
        let mut top = |k: usize| {
            let rows = connection.query(&mut statement).unwrap();
            let best = rows.top_k(k, |row| match row.get(1) {
                ValueRef::Int(0) => f64::NAN,
                ValueRef::Int(score) => score as f64,
                other => panic!("{other:?}"),
            });
            let number = |best: Scored| match best.row[0] {
                Value::Int(number) => (best.score, number),
                ref other => panic!("{other:?}"),
            };
            best.unwrap().into_iter().map(number).collect::<Vec<_>>()
        };
        let mut all: Vec<(f64, i64)> =
            (1..=300).map(|it| ((it * 7919 % 101) as f64, it)).filter(|it| it.0 != 0.0).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for k in [0, 1, 7, 100, 1000] {
            assert_eq!(top(k), all[..k.min(all.len())], "{k}");
        }
    }
}
