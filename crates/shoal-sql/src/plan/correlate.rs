//! What a query within an expression reads of the rows around it.

use rustc_hash::FxHashSet;

use crate::resolve::tree::{Body, Expr, Query, SelectId, SourceId, SourceKind};

/// The columns and results of enclosing queries that a query reads, and whether it depends on
/// nothing but those.
pub(crate) fn outer_reads(query: &Query) -> (Vec<Expr>, bool) {
    let mut own = Own::default();
    own.add(&query.body);
    let mut fixed = true;
    query.walk(&mut |expr| {
        if let Some(query) = expr.query() {
            own.add(&query.body);
        }
        if let Expr::Call { function, .. } = expr {
            fixed &= function.deterministic;
        }
    });
    let mut reads: Vec<Expr> = Vec::new();
    query.walk(&mut |expr| {
        let outer = match expr {
            Expr::Column { source, .. } => !own.sources.contains(source),
            Expr::Aggregate { select, .. } | Expr::Window { select, .. } => {
                !own.selects.contains(select)
            }
            _ => false,
        };
        if outer && !reads.iter().any(|known| known.is_same(expr)) {
            reads.push(expr.clone());
        }
    });
    (reads, fixed && !own.takes_rows)
}

/// The parts of a query.
#[derive(Default)]
struct Own {
    sources: FxHashSet<SourceId>,
    selects: FxHashSet<SelectId>,
    /// True where it reads the row that a recursion has taken.
    takes_rows: bool,
}

impl Own {
    fn add(&mut self, body: &Body) {
        match body {
            Body::Values(_) => {}
            Body::Compound { first, rest, .. } => {
                self.add(first);
                rest.iter().for_each(|(_, body)| self.add(body));
            }
            Body::Shared(shared) => self.add(&shared.query.body),
            Body::Recursive(recursion) => {
                self.add(&recursion.first);
                recursion.steps.iter().for_each(|body| self.add(body));
            }
            Body::Select(select) => {
                self.selects.insert(select.id);
                for source in &select.sources {
                    self.sources.insert(source.id);
                    match &source.kind {
                        SourceKind::Query(query) => self.add(&query.body),
                        SourceKind::Taken(_) => self.takes_rows = true,
                        SourceKind::Table(_)
                        | SourceKind::Virtual(_)
                        | SourceKind::Module { .. } => {}
                    }
                }
            }
        }
    }
}
