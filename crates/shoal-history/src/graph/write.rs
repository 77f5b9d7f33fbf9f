//! The changes of a graph on their way into a document chunk, as rows: nothing is rebuilt.

use super::ChangeGraph;
use crate::chunk::{ChangeRow, GraphRows};
use crate::{ActorId, ActorIdx, ChangeHash, DocumentWriter};

impl DocumentWriter<'_> {
    /// Appends all changes of a graph, before any other change. Cost: no change is rebuilt or
    /// looked up, and only heads are named by hashes.
    pub fn push_graph(&mut self, graph: &ChangeGraph) {
        self.push_rows(graph);
    }
}

impl GraphRows for ChangeGraph {
    fn actors(&self) -> &[ActorId] {
        self.actors()
    }

    fn visit_rows<E>(
        &self,
        mut visit: impl FnMut(ActorIdx, &ChangeRow<'_>, &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let inner = &*self.inner;
        if let Some(base) = &inner.base {
            let table = &base.table;
            for row in 0..table.len() {
                let deps = table.deps_at(row);
                let change = ChangeRow {
                    seq: table.seqs[row],
                    max_op: table.max_ops[row],
                    time: table.times[row],
                    message: table.message(row),
                    extra: table.extra(row),
                    dep_count: deps.len(),
                };
                visit(table.actors[row], &change, deps)?;
            }
        }
        for (place, (change, node)) in
            (inner.base_len..).zip(inner.changes.iter().zip(&inner.nodes))
        {
            let deps = inner.deps_at(place);
            let row = ChangeRow {
                seq: change.seq(),
                max_op: node.max_op,
                time: change.time(),
                message: change.message().unwrap_or_default(),
                extra: change.extra_bytes(),
                dep_count: deps.len(),
            };
            visit(node.author, &row, deps)?;
        }
        Ok(())
    }

    fn head_places(&self) -> impl Iterator<Item = (ChangeHash, u32)> {
        self.inner.heads.iter()
    }
}
