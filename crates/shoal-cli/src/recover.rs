//! The rest of a damaged database: tables by the schema as far as both can be read, and a table
//! `lost_and_found` for rows of pages outside all known trees.

mod plan;
pub(crate) mod sink;

use std::collections::HashMap;

use shoal_sql::ValueRef;
use shoal_store::{PageKind, PageSet, Pgno, Salvage, SalvagedRow};

use crate::failure::Failure;
use plan::{Definition, Shape, schema, shapes};
use sink::Sink;

/// Columns of `lost_and_found` for values: SQLite's limit for a table, less the others.
const LOST_FIELDS_MAX: usize = 1996;

/// Counts of saved rows.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) tables: u64,
    pub(crate) rows: u64,
    /// Rows in `lost_and_found`.
    pub(crate) lost: u64,
}

/// Failures of reading pages, and of the sink.
pub(crate) enum Stop {
    Read(shoal_store::Error),
    Sink(Failure),
}

impl From<shoal_store::Error> for Stop {
    fn from(error: shoal_store::Error) -> Stop {
        Stop::Read(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Sink(failure)
    }
}

/// Saves the rest of a file. `look` is told of each page done.
pub(crate) fn recover(
    salvage: &Salvage,
    skips_freelist: bool,
    sink: &mut impl Sink,
    look: &mut impl FnMut(),
) -> Result<Saved, Stop> {
    let mut saved = Saved::default();
    let (mut seen, mut chained) = (salvage.page_set(), salvage.page_set());
    let definitions = schema(salvage, (&mut seen, &mut chained))?;
    let shapes = shapes(&definitions)?;
    sink.begin(salvage.header(), salvage.page_size())?;
    for shape in shapes.iter().filter(|shape| shape.sql.is_some()) {
        sink.table(shape)?;
        saved.tables += 1;
    }
    for shape in &shapes {
        if shape.sql.is_none() {
            // Rows so far have set counters of their own.
            sink.table(shape)?;
        }
        let Some(root) = shape.root else { continue };
        let mut give = |row: SalvagedRow<'_>| -> Result<(), Stop> {
            look();
            if row.rowid.is_none() == shape.without_rowid {
                saved.rows += u64::from(sink.row(shape, &row)?);
            }
            Ok(())
        };
        salvage.tree(root, (&mut seen, &mut chained), &mut give)?;
    }
    // Entries of indexes repeat rows of tables; the trees are claimed, and nothing else.
    for definition in &definitions {
        if let (true, Some(root)) = (definition.kind == "index", definition.root) {
            let mut pass = |_: SalvagedRow<'_>| -> Result<(), Stop> { Ok(()) };
            salvage.tree(root, (&mut seen, &mut chained), &mut pass)?;
        }
    }
    if skips_freelist {
        let free = salvage.freelist()?;
        salvage.pages().filter(|&page| free.contains(page)).for_each(|page| {
            seen.insert(page);
        });
    }
    lost(salvage, &seen, &chained, (sink, &shapes), look, &mut saved)?;
    finish(&definitions, sink)?;
    sink.end(salvage.header())?;
    Ok(saved)
}

/// Rows of pages in no known tree.
fn lost(
    salvage: &Salvage,
    seen: &PageSet,
    chained: &PageSet,
    (sink, shapes): (&mut impl Sink, &[Shape]),
    look: &mut impl FnMut(),
    saved: &mut Saved,
) -> Result<(), Stop> {
    let mut pages = Vec::new();
    let mut parents = HashMap::new();
    for page in salvage.pages().filter(|&page| !seen.contains(page)) {
        let Some(kind) = salvage.kind(page)? else { continue };
        if !kind.is_leaf() {
            for child in salvage.children(page)? {
                if child != page && !seen.contains(child) {
                    parents.entry(child).or_insert(page);
                }
            }
        }
        if kind != PageKind::TableInterior {
            pages.push(page);
        }
    }
    let mut fields = 0;
    // Chains are walked twice; each walk has its own set.
    let mut walked = chained.clone();
    for &page in &pages {
        let mut count = |row: SalvagedRow<'_>| -> Result<(), Stop> {
            fields = fields.max(row.values.len());
            Ok(())
        };
        salvage.rows(page, &mut walked, &mut count)?;
    }
    if fields == 0 {
        return Ok(());
    }
    let fields = fields.min(LOST_FIELDS_MAX);
    let taken = |name: &str| shapes.iter().any(|shape| shape.name.eq_ignore_ascii_case(name));
    let names = std::iter::once("lost_and_found".to_owned());
    let mut names = names.chain((0..).map(|number: u32| format!("lost_and_found_{number}")));
    let name = names.find(|name| !taken(name)).expect("names are without end");
    let shape = Shape::of_lost(&name, fields);
    sink.table(&shape)?;
    let mut walked = chained.clone();
    for &page in &pages {
        let root = root_of(page, &parents);
        let int = |page: Pgno| ValueRef::Int(page.get().into());
        let mut give = |row: SalvagedRow<'_>| -> Result<(), Stop> {
            look();
            let count = i64::try_from(row.values.len()).unwrap_or(i64::MAX);
            let id = row.rowid.map_or(ValueRef::Null, ValueRef::Int);
            let mut values = vec![int(root), int(page), ValueRef::Int(count), id];
            values.extend(row.values.iter().take(fields));
            let row = SalvagedRow { page, rowid: None, values: &values };
            saved.lost += u64::from(sink.row(&shape, &row)?);
            Ok(())
        };
        salvage.rows(page, &mut walked, &mut give)?;
    }
    Ok(())
}

/// The topmost page above a page, among the lost ones.
fn root_of(page: Pgno, parents: &HashMap<Pgno, Pgno>) -> Pgno {
    let mut root = page;
    // A circle has no top: any of its pages will do.
    for _ in 0..64 {
        match parents.get(&root) {
            Some(&parent) if parent != page => root = parent,
            _ => break,
        }
    }
    root
}

/// Indexes, views and triggers; virtual tables, whose rows are in their shadow tables.
fn finish(definitions: &[Definition], sink: &mut impl Sink) -> Result<(), Stop> {
    for kind in ["index", "view", "trigger"] {
        for definition in definitions.iter().filter(|it| it.kind == kind && !it.sql.is_empty()) {
            sink.definition(&definition.name, &definition.sql)?;
        }
    }
    for definition in definitions.iter().filter(|it| it.is_virtual()) {
        sink.virtual_table(&definition.name, &definition.sql)?;
    }
    Ok(())
}
