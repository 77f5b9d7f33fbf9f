//! Kept from call to call: definitions of graphs and their snapshots, until somebody changes the
//! tables.

use std::sync::{Arc, Mutex, PoisonError};

use shoal_sql::{Error, ModuleContext, SeenTables};

use super::definition::MappedGraph;
use super::definitions::Definitions;
use super::named::NamedGraph;
use crate::algorithms::{KeptSnapshots, Snapshots, States};

/// Kept from call to call.
#[derive(Debug, Default)]
pub(super) struct Known {
    snapshots: Snapshots,
    pub(super) definitions: Definitions,
    followed: Mutex<Vec<Followed>>,
}

/// The tables of a graph, from the reading of a snapshot on.
#[derive(Debug)]
struct Followed {
    graph: String,
    definition: Option<Arc<MappedGraph>>,
    /// The states at the reading: the name of everything kept of the graph.
    first: States,
    /// The states at the last call; nobody had changed the tables.
    now: States,
    seen: SeenTables,
}

/// A graph, and the states that its snapshots are kept under.
pub(super) struct Opened<'s> {
    pub(super) graph: NamedGraph<'s>,
    states: Option<States>,
}

impl Known {
    /// The graph of a name.
    ///
    /// # Errors
    /// No such graph; a definition and a schema in disagreement.
    pub(super) fn open<'s>(
        &self,
        name: &str,
        context: &ModuleContext<'s>,
    ) -> Result<Opened<'s>, Error> {
        let now = context.states();
        if let Some(now) = &now
            && let Some((definition, first)) = self.followed(name, now, context)
        {
            let graph = NamedGraph::of(definition, context)?;
            return Ok(Opened { graph, states: Some(first) });
        }
        let definition = self.definitions.find(name, context)?;
        let graph = match (definition, NamedGraph::is_own(name)) {
            (None, false) => {
                return Err(super::named::refused(format!("no such property graph: {name}")));
            }
            (definition, _) => NamedGraph::of(definition, context)?,
        };
        Ok(Opened { graph, states: now })
    }

    /// The definition and the first states of a graph whose tables are as they were.
    fn followed(
        &self,
        name: &str,
        now: &States,
        context: &ModuleContext<'_>,
    ) -> Option<(Option<Arc<MappedGraph>>, States)> {
        let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|known| known.graph.eq_ignore_ascii_case(name))?;
        let known = &mut all[at];
        if known.now != *now {
            // Databases beside `main` are not followed.
            if known.now.get(1..) != now.get(1..) || !context.are_unchanged(&mut known.seen) {
                all.swap_remove(at);
                return None;
            }
            known.now.clone_from(now);
        }
        Some((known.definition.clone(), known.first.clone()))
    }

    /// Follows the tables of a graph whose snapshot was read.
    fn follow(&self, name: &str, opened: &Opened<'_>, context: &ModuleContext<'_>) {
        let Some(states) = &opened.states else { return };
        let is_known = |known: &Followed| known.graph.eq_ignore_ascii_case(name);
        if self.followed.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_known) {
            return;
        }
        let tables = opened.graph.followed();
        let tables: Vec<(&str, bool)> =
            tables.iter().map(|(table, with_rows)| (&**table, *with_rows)).collect();
        // Whatever cannot be followed is read again behind the next commit.
        if let Ok(Some(seen)) = context.see_tables(&tables) {
            let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|known| !is_known(known));
            all.push(Followed {
                graph: name.to_owned(),
                definition: opened.graph.definition(),
                first: states.clone(),
                now: states.clone(),
                seen,
            });
        }
    }

    /// The snapshots that are kept.
    #[cfg(test)]
    pub(super) fn snapshots(&self) -> Vec<Arc<crate::algorithms::Snapshot>> {
        self.snapshots.all()
    }

    /// Calls `run` with the place where snapshots of a graph are kept; with none without a state to
    /// name them by.
    pub(super) fn with_kept<T>(
        &self,
        name: &str,
        opened: &Opened<'_>,
        context: &ModuleContext<'_>,
        run: impl FnOnce(Option<KeptSnapshots<'_>>) -> T,
    ) -> T {
        let has_read = || self.follow(name, opened, context);
        run(opened.states.as_ref().map(|states| KeptSnapshots {
            snapshots: &self.snapshots,
            states,
            graph: name,
            has_read: &has_read,
        }))
    }
}
