//! The schema of a damaged database, and the places of columns in records.

use shoal_sql::{Connection, Value, ValueRef};
use shoal_store::{PageKind, PageSet, Pgno, Salvage, SalvagedRow, Store};

use super::Stop;
use crate::dump;
use crate::failure::Failure;
use crate::query::{rows, text};
use crate::rows::literal::quoted;

/// A row of `sqlite_schema`.
pub(super) struct Definition {
    pub(super) kind: String,
    pub(super) name: String,
    /// `None` without a page in the file.
    pub(super) root: Option<Pgno>,
    pub(super) sql: String,
}

impl Definition {
    pub(super) fn is_virtual(&self) -> bool {
        self.kind == "table" && dump::is_virtual(&self.sql)
    }
}

/// A table, and the columns of its records.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// `None` for tables not made by a statement: `sqlite_sequence`.
    pub(crate) sql: Option<String>,
    pub(super) root: Option<Pgno>,
    pub(super) without_rowid: bool,
    /// The column for the rowid: an alias, or a name of the rowid itself.
    rowid: Option<String>,
    /// Columns in the order of records; `None` for generated values and the rowid.
    columns: Vec<Option<String>>,
}

/// Reads the schema, and claims its pages: from page 1, or from lost pages with its look.
pub(super) fn schema(
    salvage: &Salvage,
    (seen, chained): (&mut PageSet, &mut PageSet),
) -> Result<Vec<Definition>, Stop> {
    let mut definitions = Vec::new();
    let mut give = |row: SalvagedRow<'_>| -> Result<(), Stop> {
        definitions.extend(definition(salvage, row.values));
        Ok(())
    };
    salvage.tree(Pgno::FIRST, (seen, chained), &mut give)?;
    if !definitions.is_empty() {
        return Ok(definitions);
    }
    for page in salvage.pages() {
        if salvage.kind(page)? != Some(PageKind::TableLeaf) {
            continue;
        }
        let (mut found, mut others) = (Vec::new(), 0);
        let mut look = |row: SalvagedRow<'_>| -> Result<(), Stop> {
            match definition(salvage, row.values) {
                Some(known) => found.push(known),
                None => others += 1,
            }
            Ok(())
        };
        salvage.rows(page, &mut salvage.page_set(), &mut look)?;
        if others == 0 && !found.is_empty() {
            seen.insert(page);
            definitions.append(&mut found);
        }
    }
    Ok(definitions)
}

fn definition(salvage: &Salvage, values: &[ValueRef<'_>]) -> Option<Definition> {
    let word = |value: &ValueRef<'_>| match value {
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let [kind, name, _table, root, rest @ ..] = values else { return None };
    let kind =
        word(kind).filter(|kind| ["table", "index", "view", "trigger"].contains(&&**kind))?;
    let root = match root {
        ValueRef::Int(root) => u32::try_from(*root).ok().and_then(Pgno::new),
        _ => None,
    };
    Some(Definition {
        kind,
        name: word(name)?,
        root: root.filter(|root| root.get() <= salvage.page_count()),
        sql: rest.first().and_then(word).unwrap_or_default(),
    })
}

/// The tables whose definitions can be read, tried in an empty database.
pub(super) fn shapes(definitions: &[Definition]) -> Result<Vec<Shape>, Stop> {
    let scratch = Connection::open(Store::memory());
    let mut scratch = scratch.map_err(Failure::new)?;
    let mut shapes = Vec::new();
    for definition in definitions {
        if definition.kind != "table" || definition.is_virtual() {
            continue;
        }
        let name = definition.name.as_str();
        if name.eq_ignore_ascii_case("sqlite_sequence") {
            let columns = ["name", "seq"].map(|name| Some(name.to_owned())).to_vec();
            let (rowid, without_rowid) = (None, false);
            let (name, sql, root) = (name.to_owned(), None, definition.root);
            shapes.push(Shape { name, sql, root, without_rowid, rowid, columns });
            continue;
        }
        // Statistics are made again; anything else of the name is not known.
        if name.to_ascii_lowercase().starts_with("sqlite_") {
            continue;
        }
        let made = scratch.prepare(&definition.sql);
        if made.and_then(|mut made| scratch.execute(&mut made)).is_ok()
            && let Some(shape) = shape(&mut scratch, definition)
        {
            shapes.push(shape);
        }
    }
    // Counters are set once their tables are filled.
    shapes.sort_by_key(|shape| shape.sql.is_none());
    Ok(shapes)
}

fn shape(scratch: &mut Connection, definition: &Definition) -> Option<Shape> {
    let name = &definition.name;
    let (without_rowid, alias) = {
        let schema = scratch.schema().ok()?;
        let table = schema.table(name)?;
        (table.is_without_rowid(), table.rowid_alias())
    };
    let info = rows(scratch, &format!("PRAGMA table_xinfo({})", quoted(name)), &[]).ok()?;
    let number = |value: &Value| match value {
        Value::Int(int) => *int,
        _ => 0,
    };
    let names: Vec<String> = info.iter().map(|row| text(&row[1])).collect();
    let hidden = |place: usize| number(&info[place][6]);
    let mut order: Vec<usize> = (0..info.len()).collect();
    if without_rowid {
        order.sort_by_key(|&place| match number(&info[place][5]) {
            0 => i64::MAX,
            key => key,
        });
    }
    // 2 is virtual, in no record; 3 is stored.
    let columns = order
        .into_iter()
        .filter(|&place| hidden(place) != 2)
        .map(|place| (hidden(place) == 0 && alias != Some(place)).then(|| names[place].clone()));
    let is_free = |word: &&str| !names.iter().any(|name| name.eq_ignore_ascii_case(word));
    let rowid = match alias {
        Some(alias) => Some(names[alias].clone()),
        None if without_rowid => None,
        None => {
            ["_rowid_", "rowid", "oid"].iter().find(|it| is_free(it)).map(|it| (*it).to_owned())
        }
    };
    Some(Shape {
        name: name.clone(),
        sql: Some(definition.sql.clone()),
        root: definition.root,
        without_rowid,
        rowid,
        columns: columns.collect(),
    })
}

impl Shape {
    /// The table for rows without one, of so many values.
    pub(super) fn of_lost(name: &str, fields: usize) -> Shape {
        let fixed = ["rootpgno", "pgno", "nfield", "id"];
        let values = (0..fields).map(|number| format!("c{number}"));
        let names: Vec<String> = fixed.iter().map(|it| (*it).to_owned()).chain(values).collect();
        let list: Vec<String> =
            names
                .iter()
                .map(|name| {
                    if fixed.contains(&&**name) { format!("{name} INTEGER") } else { name.clone() }
                })
                .collect();
        Shape {
            name: name.to_owned(),
            sql: Some(format!("CREATE TABLE {}({})", quoted(name), list.join(", "))),
            root: None,
            without_rowid: false,
            rowid: None,
            columns: names.into_iter().map(Some).collect(),
        }
    }

    /// The columns present in a row, with their values.
    pub(super) fn values<'r>(&'r self, row: &SalvagedRow<'r>) -> Vec<(&'r str, ValueRef<'r>)> {
        let rowid = self.rowid.as_deref().zip(row.rowid.map(ValueRef::Int));
        let stored = self.columns.iter().zip(row.values);
        let stored = stored.filter_map(|(name, value)| Some((name.as_deref()?, *value)));
        rowid.into_iter().chain(stored).collect()
    }
}
