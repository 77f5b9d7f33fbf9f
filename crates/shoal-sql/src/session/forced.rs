//! Choices made by a test or the lab in place of the planner and the executor.
//!
//! A query has one answer, however its rows are found, joined, carried and counted. [`Forced`] is a
//! plain value handed by [`Connection::force`](crate::Connection::force) to planning and running: a
//! test asks for the same answer by every way. A choice a query leaves no room for (a seek without
//! an index, a hash join without an equality) is made as always.

/// The way of finding a table's rows, with no row of another source known.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedAccess {
    /// Every row of the table, or every entry of an index.
    Scan,
    /// A seek by the rowid or the first columns of an index.
    Seek,
}

/// The way of finding a source's rows matching a row of the sources before.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedJoin {
    /// A lookup of each by its rowid or an index.
    Lookup,
    /// A hash of the rows' keys.
    Hash,
    /// A nested loop: all rows are read for each row before.
    NestedLoop,
}

/// The form of rows between the pages and their reader.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedCarrier {
    /// As positions on their pages, decoded on demand.
    Pages,
    /// As columns of a batch, for vectorised expressions.
    Columns,
    /// As registers, one row after the other.
    Registers,
}

/// One choice.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedChoice {
    /// The way rows are found.
    Access(ForcedAccess),
    /// The way rows are joined.
    Join(ForcedJoin),
    /// The form rows are carried in.
    Carrier(ForcedCarrier),
    /// Most rows taken together, from 1 to 128.
    BatchRows(usize),
    /// Number of parts of a table read side by side: 1, or more wherever parts can be put together.
    Threads(usize),
    /// Most bytes a statement may keep, as a limit of the connection.
    MemoryBytes(u64),
    /// Most rows behind a step of a watched join: one more has the statement planned anew.
    PlansAgain(u64),
    /// Whether groups are made below joins where they can be.
    GroupsBelow(bool),
    /// Whether joins are bushy where they can be.
    Bushy(bool),
    /// Whether keys of a filtered table are asked of subqueries joined with it.
    KeysBelow(bool),
}

impl ForcedChoice {
    /// All choices, with the numbers tried by tests.
    pub const ALL: [ForcedChoice; 21] = [
        ForcedChoice::Access(ForcedAccess::Scan),
        ForcedChoice::Access(ForcedAccess::Seek),
        ForcedChoice::Join(ForcedJoin::Lookup),
        ForcedChoice::Join(ForcedJoin::Hash),
        ForcedChoice::Join(ForcedJoin::NestedLoop),
        ForcedChoice::Carrier(ForcedCarrier::Pages),
        ForcedChoice::Carrier(ForcedCarrier::Columns),
        ForcedChoice::Carrier(ForcedCarrier::Registers),
        ForcedChoice::BatchRows(1),
        ForcedChoice::BatchRows(2),
        ForcedChoice::BatchRows(128),
        ForcedChoice::Threads(1),
        ForcedChoice::Threads(2),
        ForcedChoice::MemoryBytes(70_000),
        ForcedChoice::PlansAgain(3),
        ForcedChoice::GroupsBelow(true),
        ForcedChoice::GroupsBelow(false),
        ForcedChoice::Bushy(true),
        ForcedChoice::Bushy(false),
        ForcedChoice::KeysBelow(true),
        ForcedChoice::KeysBelow(false),
    ];
}

/// The choices made; `None` leaves one to the planner.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    /// The way rows are found.
    pub access: Option<ForcedAccess>,
    /// The way rows are joined.
    pub join: Option<ForcedJoin>,
    /// The form rows are carried in.
    pub carrier: Option<ForcedCarrier>,
    /// Most rows taken together.
    pub batch_rows: Option<usize>,
    /// In how many parts a table is read side by side.
    pub threads: Option<usize>,
    /// Most bytes a statement may keep.
    pub memory_bytes: Option<u64>,
    /// Most rows behind a step of a watched join.
    pub plans_again: Option<u64>,
    /// Whether groups are made below joins where they can be.
    pub groups_below: Option<bool>,
    /// Whether joins are bushy where they can be.
    pub bushy: Option<bool>,
    /// Whether keys of a filtered table are asked of subqueries joined with it.
    pub keys_below: Option<bool>,
}

impl FromIterator<ForcedChoice> for Forced {
    /// The last of two choices of one kind counts.
    fn from_iter<I: IntoIterator<Item = ForcedChoice>>(choices: I) -> Forced {
        choices.into_iter().fold(Forced::default(), Forced::with)
    }
}

impl Forced {
    /// The choices with one more, in place of another one of the same kind.
    #[must_use]
    pub fn with(mut self, choice: ForcedChoice) -> Forced {
        match choice {
            ForcedChoice::Access(access) => self.access = Some(access),
            ForcedChoice::Join(join) => self.join = Some(join),
            ForcedChoice::Carrier(carrier) => self.carrier = Some(carrier),
            ForcedChoice::BatchRows(rows) => self.batch_rows = Some(rows),
            ForcedChoice::Threads(threads) => self.threads = Some(threads),
            ForcedChoice::MemoryBytes(bytes) => self.memory_bytes = Some(bytes),
            ForcedChoice::PlansAgain(rows) => self.plans_again = Some(rows),
            ForcedChoice::GroupsBelow(below) => self.groups_below = Some(below),
            ForcedChoice::Bushy(bushy) => self.bushy = Some(bushy),
            ForcedChoice::KeysBelow(below) => self.keys_below = Some(below),
        }
        self
    }

    /// The number of rows taken together; `usual` without a choice.
    pub(crate) fn batch_rows(self, usual: usize) -> usize {
        self.batch_rows.map_or(usual, |rows| rows.clamp(1, usual.max(1)))
    }

    /// True where rows may be carried in the form `carrier`.
    pub(crate) fn allows(self, carrier: ForcedCarrier) -> bool {
        match self.carrier {
            None | Some(ForcedCarrier::Pages) => true,
            Some(ForcedCarrier::Columns) => carrier != ForcedCarrier::Pages,
            Some(ForcedCarrier::Registers) => carrier == ForcedCarrier::Registers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use shoal_store::vfs::MemVfs;
    use shoal_store::{Access, Store};

    use super::*;
    use crate::connection::statement::Compiled;
    use crate::plan::Scan;
    use crate::plan::node::{GroupSource, Node};
    use crate::plan::pipeline::Pipeline;
    use crate::{Connection, Statement, ValueRef};

    /// A table with an index and another one, with a few rows each.
    fn connection() -> Connection {
        let store = Store::open(Arc::new(MemVfs::new()), Path::new("test.db"), Access::Create);
        let mut connection = Connection::open(store.unwrap()).unwrap();
        for sql in [
            "create table t(a integer primary key, b, c)",
            "create index tb on t(b)",
            "create table u(d integer primary key, e)",
            "insert into t values (1, 3, 'x'), (2, 2, 'y'), (3, 1, 'z'), (9, 1, 'w')",
            "insert into u select a, b from t",
        ] {
            let mut statement = connection.prepare(sql).unwrap();
            connection.execute(&mut statement).unwrap();
        }
        connection
    }

    fn prepared(connection: &mut Connection, choice: ForcedChoice, sql: &str) -> Statement {
        connection.force(Forced::from_iter([choice]));
        connection.prepare(sql).unwrap()
    }

    /// The lines of `EXPLAIN QUERY PLAN` about the sources.
    fn told(connection: &mut Connection, choice: ForcedChoice, sql: &str) -> Vec<String> {
        let mut statement = prepared(connection, choice, &format!("explain query plan {sql}"));
        let mut rows = connection.query(&mut statement).unwrap();
        let mut out = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let ValueRef::Text(detail) = row.get(3) else { unreachable!() };
            out.push(String::from_utf8(detail.to_vec()).unwrap());
        }
        out
    }

    #[test]
    fn access_and_join_are_what_was_chosen() {
        let mut connection = connection();
        let access = |choice| ForcedChoice::Access(choice);
        let by_key = "select c from t where b = 1";
        assert_eq!(told(&mut connection, access(ForcedAccess::Scan), by_key), ["SCAN t"]);
        let sought = ["SEARCH t USING INDEX tb (b=?)"];
        assert_eq!(told(&mut connection, access(ForcedAccess::Seek), by_key), sought);
        let join = |choice| ForcedChoice::Join(choice);
        let joined = "select c from u cross join t where t.b = u.e";
        assert_eq!(told(&mut connection, join(ForcedJoin::Lookup), joined)[1], sought[0]);
        let looped = ["SCAN u", "SCAN t"];
        assert_eq!(told(&mut connection, join(ForcedJoin::NestedLoop), joined), looped);
        let hashed = told(&mut connection, join(ForcedJoin::Hash), joined);
        assert!(hashed[1].contains("AUTOMATIC"), "{hashed:?}");
    }

    /// How a plan carries its rows, and its pipeline where they stay on their pages.
    fn carried(node: &Node) -> (ForcedCarrier, Option<&Pipeline>) {
        match node {
            Node::Pages(pages) => (ForcedCarrier::Pages, Some(&pages.pipeline)),
            Node::Computed(_) => (ForcedCarrier::Columns, None),
            Node::Project(project) => carried(&project.input),
            Node::Loops(loops) => match loops.levels[0].scan {
                Scan::Columns(_) => (ForcedCarrier::Columns, None),
                _ => (ForcedCarrier::Registers, None),
            },
            Node::Group(group) => match &group.source {
                GroupSource::Pages(pipeline) => (ForcedCarrier::Pages, Some(pipeline)),
                GroupSource::Columns { .. } => (ForcedCarrier::Columns, None),
                GroupSource::Loops(_) => (ForcedCarrier::Registers, None),
            },
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn carriers_batches_and_threads_are_what_was_chosen() {
        let mut connection = connection();
        let sql = "select c from t where b > 0";
        let mut seen = Vec::new();
        for choice in ForcedChoice::ALL {
            let statement = prepared(&mut connection, choice, sql);
            let Compiled::Query(program) = &statement.plan.compiled else { unreachable!() };
            let (carrier, pipeline) = carried(&program.root.node);
            let wanted = match choice {
                ForcedChoice::Carrier(carrier) => carrier,
                _ => ForcedCarrier::Pages,
            };
            assert_eq!(carrier, wanted);
            if let (Some(pipeline), Some(rows)) = (pipeline, program.forced.batch_rows) {
                assert_eq!(pipeline.batch_rows(), rows);
                seen.push(rows);
            }
        }
        assert_eq!(seen, [1, 2, 128]);
        let sql = "select count(c) from t";
        for (threads, parts) in [(1, 0), (2, 2), (3, 3)] {
            let statement = prepared(&mut connection, ForcedChoice::Threads(threads), sql);
            let Compiled::Query(program) = &statement.plan.compiled else { unreachable!() };
            let txn = connection.store().begin(shoal_store::Mode::Read).unwrap();
            let ranges = carried(&program.root.node).1.unwrap().ranges(&txn);
            assert_eq!(ranges.len(), parts, "{ranges:?}");
        }
    }
}
