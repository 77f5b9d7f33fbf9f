//! `EXPLAIN QUERY PLAN` drawn as `sqlite3`'s tree.

use std::io::{self, Write};

use shoal_sql::ValueRef;

/// The lines of one plan: a number, the parent's number, the words.
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

    /// Draws the tree. Parents come before their children.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        out.write_all(b"QUERY PLAN\n")?;
        // The ancestors of the current line, the innermost last: each with true when siblings
        // follow.
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
