//! The contenders: built engines, and names of the missing ones.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::dataset;
use crate::engine::document::Kind;
use crate::engine::hash::Costs;
use crate::engine::table::{Access, Cell, Fields, TableSpec};
use crate::engine::{About, DbEngine, DocEngine, HashEngine, Miss, TableEngine};
use crate::workload::{Bench, Context, Family, Row, Sampler, db, document, hash, table};

type PrepareRow = Box<dyn Fn(&str, &Context) -> Option<Result<Sampler, Miss>> + Send + Sync>;
type Generate = Box<dyn Fn(&Dataset<'_>, &mut dyn FnMut(u64)) -> Result<(), Miss> + Send + Sync>;

/// A database made once and kept.
pub(crate) enum Dataset<'a> {
    /// Users and orders, as many of each, at this path.
    Users(&'a Path, u64),
    /// TPC-H's tables, in the run's cache.
    Tpch(&'a Context, dataset::tpch::Variant),
    /// The history of a repository, in the run's cache.
    History(&'a Context),
}

/// One contender of one family.
pub(crate) struct Contender {
    pub(crate) family: Family,
    pub(crate) about: About,
    /// `None` for an engine not built: every row of its family is then missed for `why`.
    prepare: Option<PrepareRow>,
    why: Option<Miss>,
}

impl Contender {
    /// Makes the sampler of a row.
    pub(crate) fn prepare(&self, row: &str, cx: &Context) -> Result<Sampler, Miss> {
        match (&self.prepare, &self.why) {
            (Some(prepare), _) => prepare(row, cx)
                .unwrap_or_else(|| Err(Miss::NotRun("the contender knows no such row".into()))),
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Err(Miss::not_built()),
        }
    }

    /// The reason, if the contender cannot run at all.
    pub(crate) fn absence(&self) -> Option<&Miss> {
        self.why.as_ref()
    }
}

/// The contenders of a program, in the order of reports.
#[derive(Default)]
pub struct Contenders {
    pub(crate) all: Vec<Contender>,
    generate: Option<Generate>,
}

impl Contenders {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document engine.
    pub fn document<E: DocEngine>(&mut self, engine: E) {
        let about = engine.about();
        self.add(Family::Doc, about, prepared(document::rows::<E>(), engine));
    }

    /// Adds a table engine.
    pub fn table<E: TableEngine>(&mut self, engine: E) {
        let about = engine.about();
        self.add(Family::Table, about, prepared(table::rows::<E>(), engine));
    }

    /// Adds a table engine to the rows of sealed files: a sealing engine, or it on plain files.
    pub fn sealed<E: TableEngine>(&mut self, engine: E) {
        let about = engine.about();
        self.add(Family::Seal, about, prepared(table::sealed_rows::<E>(), engine));
    }

    /// Adds a database of documents.
    pub fn database<E: DbEngine>(&mut self, engine: E) {
        let about = engine.about();
        self.add(Family::Db, about, prepared(db::rows::<E>(), engine));
    }

    /// Adds an Argon2 engine.
    pub fn hash<E: HashEngine>(&mut self, engine: E) {
        let about = engine.about();
        self.add(Family::Argon, about, prepared(hash::rows::<E>(), engine));
    }

    /// Names an expected contender missing from this build, to keep the tables complete.
    pub fn absent(&mut self, family: Family, about: About, why: Miss) {
        self.all.push(Contender { family, about, prepare: None, why: Some(why) });
    }

    /// Names the writer of the generated databases: an engine whose files are SQLite's. The first
    /// engine named stays the writer.
    pub fn generate_with<E: TableEngine>(&mut self, engine: E) {
        if self.generate.is_none() {
            self.generate = Some(Box::new(move |dataset, progress| match dataset {
                Dataset::Users(path, rows) => dataset::generate(&engine, path, *rows, progress),
                Dataset::Tpch(cx, variant) => {
                    dataset::tpch::generate(&engine, cx, *variant, progress)
                }
                Dataset::History(cx) => dataset::history::generate(&engine, cx),
            }));
        }
    }

    /// Makes a generated database; a miss when no engine can.
    pub(crate) fn generate(
        &self,
        dataset: &Dataset<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Miss> {
        match &self.generate {
            Some(generate) => generate(dataset, progress),
            None => Err(Miss::NotRun("no engine here writes SQLite files".into())),
        }
    }

    fn add(&mut self, family: Family, about: About, prepare: PrepareRow) {
        self.all.push(Contender { family, about, prepare: Some(prepare), why: None });
    }
}

fn prepared<E: Send + Sync + 'static>(bench: Bench<E>, engine: E) -> PrepareRow {
    let engine = Arc::new(engine);
    let by_id: HashMap<String, _> =
        bench.workloads.into_iter().map(|(row, prepare)| (row.id, prepare)).collect();
    Box::new(move |row, cx| by_id.get(row).map(|prepare| prepare(&engine, cx)))
}

/// Every row, in the order of the reports.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(document::rows::<Nobody>().workloads.into_iter().map(|(row, _)| row));
    rows.extend(table::rows::<Nobody>().workloads.into_iter().map(|(row, _)| row));
    rows.extend(table::sealed_rows::<Nobody>().workloads.into_iter().map(|(row, _)| row));
    rows.extend(db::rows::<Nobody>().workloads.into_iter().map(|(row, _)| row));
    rows.extend(hash::rows::<Nobody>().workloads.into_iter().map(|(row, _)| row));
    rows
}

/// The engine without any operation: asks for the list of rows, the same for all engines.
struct Nobody;

impl DocEngine for Nobody {
    type Doc = ();
    type Tx<'a> = ();
    type Obj = ();
    type Heads = ();
    type Cursor = ();
    type Session = ();

    fn about(&self) -> About {
        About::peer("nobody", "", "")
    }

    fn create(&self, _actor: u16) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn transact<R>(
        &self,
        _doc: &mut (),
        _work: impl FnOnce(&mut ()) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        Err(Miss::not_built())
    }

    fn put_object(&self, _tx: &mut (), _obj: &(), _key: &str, _kind: Kind) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn splice(
        &self,
        _tx: &mut (),
        _obj: &(),
        _place: usize,
        _delete: usize,
        _insert: &str,
    ) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn text(&self, _doc: &(), _obj: &()) -> Result<String, Miss> {
        Err(Miss::not_built())
    }
}

impl Fields for () {
    fn cell(&self, _index: usize) -> Cell<'_> {
        Cell::Null
    }
}

impl TableEngine for Nobody {
    type Db = ();
    type Statement = ();
    type Reader = ();
    type Row<'a> = ();

    fn about(&self) -> About {
        About::peer("nobody", "", "")
    }

    fn open(&self, _path: &Path, _access: Access, _scratch: &Path) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn reader(&self, _db: &mut (), _table: &TableSpec, _columns: &[usize]) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn seek(
        &self,
        _db: &mut (),
        _reader: &mut (),
        _rowid: i64,
        _visit: impl FnMut(&()),
    ) -> Result<(), Miss> {
        Err(Miss::not_built())
    }

    fn scan(
        &self,
        _db: &mut (),
        _table: &TableSpec,
        _columns: &[usize],
        _visit: impl FnMut(&()),
    ) -> Result<(), Miss> {
        Err(Miss::not_built())
    }
}

impl DbEngine for Nobody {
    fn about(&self) -> About {
        About::peer("nobody", "", "")
    }
}

impl HashEngine for Nobody {
    type Arena = ();

    fn about(&self) -> About {
        About::peer("nobody", "", "")
    }

    fn hash(
        &self,
        _costs: Costs,
        _password: &[u8],
        _salt: &[u8],
        _tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        Err(Miss::not_built())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn row_ids_are_unique_and_rows_of_all_families_exist() {
        let rows = rows();
        let ids: HashSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), rows.len());
        for family in Family::ALL {
            assert!(rows.iter().any(|row| row.family == family));
        }
    }
}
