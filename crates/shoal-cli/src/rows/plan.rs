//! `EXPLAIN QUERY PLAN` as the tree that `sqlite3` draws.

use std::io::{self, Write};

use shoal_sql::ValueRef;

/// The lines of one plan: number, that of the line above it in the tree, words.
#[derive(Debug, Default)]
pub(super) struct Plan {
    lines: Vec<(i64, i64, Vec<u8>)>,
}

impl Plan {
    /// Takes a row: `id`, `parent`, `notused`, `detail`.
    pub(super) fn row(&mut self, row: &[ValueRef<'_>]) {
        if let [ValueRef::Int(id), ValueRef::Int(parent), _, ValueRef::Text(detail)] = row {
            self.lines.push((*id, *parent, detail.to_vec()));
        }
    }

    /// Draws the tree. Every line comes before those below it.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        out.write_all(b"QUERY PLAN\n")?;
        // For every line above the current one whether more follow it, the innermost last.
        let mut above: Vec<(i64, bool)> = Vec::new();
        for (place, (id, parent, detail)) in lines.iter().enumerate() {
            let kept = above.iter().position(|(known, _)| known == parent);
            above.truncate(kept.map_or(0, |kept| kept + 1));
            let more = lines[place + 1..].iter().any(|(_, other, _)| other == parent);
            for (_, more) in &above {
                out.write_all(if *more { b"|  " } else { b"   " })?;
            }
            out.write_all(if more { b"|--" } else { b"`--" })?;
            out.write_all(detail)?;
            out.write_all(b"\n")?;
            above.push((*id, more));
        }
        Ok(())
    }
}
