//! Reading `sqlite_schema`.
//!
//! Every row is read on its own: an invalid one damages its table or index and nothing else.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_store::{Pgno, Record, Transaction, ValueRef};

use super::table::{self, Constraint};
use super::{
    FileOf, MAIN, Object, Schema, TEMP, Table, Trigger, Triggers, View, VirtualDefinition,
};
use crate::Error;
use crate::parse::ast::{CreateTableBody, CreateVirtualTable, Stmt};
use crate::parse::parse;

/// The prefix of an automatic index's name, before the table's name.
const AUTOINDEX: &str = "sqlite_autoindex_";

/// A table while its indexes are being gathered.
struct Draft {
    table: Table,
    constraints: Vec<Option<Constraint>>,
}

enum Pending {
    Table(Box<Draft>),
    Done(Object),
}

#[derive(Default)]
struct Loader {
    /// In the order of the rows.
    objects: Vec<Pending>,
    by_name: FxHashMap<String, usize>,
    indexes: Vec<IndexRow>,
    triggers: Vec<TriggerRow>,
}

struct IndexRow {
    name: String,
    table: String,
    root: Option<Pgno>,
    sql: Option<String>,
}

struct TriggerRow {
    name: String,
    table: String,
    sql: Option<String>,
}

impl Schema {
    /// Reads the schema seen by a transaction.
    ///
    /// # Errors
    /// [`Error::Store`] when the schema's own pages are damaged or cannot be read.
    pub(crate) fn load(file: &FileOf<'_>) -> Result<Schema, Error> {
        let loader = Loader::read(file.txn)?;
        let mut schema = Schema::empty(file);
        let (objects, far_triggers) = loader.finish(file.txn, file.database);
        for object in objects {
            schema.add(object);
        }
        schema.far_triggers = far_triggers;
        schema.read_statistics(file.txn);
        Ok(schema)
    }

    /// The same database's schema as the transaction with the changes sees the database now,
    /// without other databases.
    ///
    /// # Errors
    /// As [`Schema::load`].
    pub(crate) fn reread(&self, txn: &Transaction) -> Result<Schema, Error> {
        let mut schema = self.like(txn);
        let (objects, _) = Loader::read(txn)?.finish(txn, MAIN);
        for object in objects {
            schema.add(object);
        }
        Ok(schema)
    }
}

impl Loader {
    fn read(txn: &Transaction) -> Result<Loader, Error> {
        let mut loader = Loader::default();
        if txn.page_count() > 0 {
            let mut cursor = txn.table(Pgno::FIRST)?;
            let mut more = cursor.first()?;
            while more {
                loader.row(cursor.payload()?)?;
                more = cursor.next()?;
            }
        }
        Ok(loader)
    }

    fn row(&mut self, payload: &[u8]) -> Result<(), Error> {
        let record = Record::new(payload).map_err(shoal_store::Error::from)?;
        let column = |index| record.column(index).map_err(shoal_store::Error::from);
        let text = |value: Option<ValueRef<'_>>| match value {
            Some(ValueRef::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let kind = text(column(0)?).unwrap_or_default();
        let name = text(column(1)?).unwrap_or_default();
        let table = text(column(2)?).unwrap_or_default();
        let root = match column(3)? {
            Some(ValueRef::Int(root)) => u32::try_from(root).ok().and_then(Pgno::new),
            _ => None,
        };
        // Text outside of UTF-8 cannot be parsed; a lossy conversion would mean something else.
        let sql = match column(4)? {
            Some(ValueRef::Text(bytes)) => Some(std::str::from_utf8(bytes).map(str::to_owned)),
            _ => None,
        };
        let sql = match sql {
            Some(Err(_)) => {
                self.add(damaged(&name, "its text is not UTF-8"));
                return Ok(());
            }
            Some(Ok(sql)) => Some(sql),
            None => None,
        };
        match kind.as_str() {
            "table" => self.table(&name, root, sql.as_deref()),
            "view" => self.view(&name, sql.as_deref()),
            "index" => self.indexes.push(IndexRow { name, table, root, sql }),
            "trigger" => self.triggers.push(TriggerRow { name, table, sql }),
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, object: Object) {
        self.by_name.entry(object.name().to_ascii_lowercase()).or_insert(self.objects.len());
        self.objects.push(Pending::Done(object));
    }

    fn table(&mut self, name: &str, root: Option<Pgno>, sql: Option<&str>) {
        let Some(sql) = sql else {
            return self.add(damaged(name, "it has no definition"));
        };
        let def = match parse(sql).map(|parsed| parsed.stmt) {
            Ok(Stmt::CreateTable(def)) => def,
            Ok(Stmt::CreateVirtualTable(create)) => {
                let CreateVirtualTable { module, arguments, .. } = *create;
                let definition = VirtualDefinition::new(name, module.text, arguments);
                return self.add(Object::Virtual(Arc::new(definition)));
            }
            Ok(_) => return self.add(damaged(name, "its definition is no CREATE TABLE")),
            Err(error) => return self.add(damaged(name, &error.to_string())),
        };
        let CreateTableBody::Columns { columns, constraints, without_rowid, strict } = &def.body
        else {
            return self.add(damaged(name, "its definition has no columns"));
        };
        let Some(root) = root else {
            return self.add(damaged(name, "it has no root page"));
        };
        match table::build(name, root, columns, constraints, *without_rowid, *strict) {
            Ok(built) => {
                self.by_name.entry(name.to_ascii_lowercase()).or_insert(self.objects.len());
                let constraints = built.constraints.into_iter().map(Some).collect();
                let draft = Draft { table: built.table, constraints };
                self.objects.push(Pending::Table(Box::new(draft)));
            }
            Err(why) => self.add(damaged(name, &why)),
        }
    }

    fn view(&mut self, name: &str, sql: Option<&str>) {
        let object = match sql.map(parse) {
            Some(Ok(parsed)) => match parsed.stmt {
                Stmt::CreateView(def) => Object::View(Arc::new(View {
                    name: name.to_owned(),
                    columns: def.columns,
                    select: def.select,
                    triggers: Triggers::default(),
                    is_listed: true,
                })),
                _ => damaged(name, "its definition is no CREATE VIEW"),
            },
            Some(Err(error)) => damaged(name, &error.to_string()),
            None => damaged(name, "it has no definition"),
        };
        self.add(object);
    }

    /// The objects, and the triggers of `temp` on other databases' objects.
    fn finish(mut self, txn: &Transaction, database: usize) -> (Vec<Object>, Vec<Arc<Trigger>>) {
        let schema_format = txn.header().schema_format;
        for row in std::mem::take(&mut self.indexes) {
            let place = self.by_name.get(&row.table.to_ascii_lowercase());
            if let Some(Pending::Table(draft)) = place.map(|&place| &mut self.objects[place]) {
                // An index out of use only costs speed, but writers must know: they would leave the
                // index stale.
                if let Err(why) = draft.index(&row) {
                    draft.table.missing_index = Some(format!("index {}: {why}", row.name));
                }
            }
        }
        let mut triggers = std::mem::take(&mut self.triggers);
        let mut far = Vec::new();
        if database == TEMP {
            triggers.retain(|row| match self.far_trigger(row) {
                Some(trigger) => {
                    far.push(Arc::new(trigger));
                    false
                }
                None => true,
            });
        }
        // The newest trigger fires first.
        for row in triggers.into_iter().rev() {
            let place = self.by_name.get(&row.table.to_ascii_lowercase());
            let triggers = match place.map(|&place| &mut self.objects[place]) {
                Some(Pending::Table(draft)) => &mut draft.table.triggers,
                Some(Pending::Done(Object::View(view))) => match Arc::get_mut(view) {
                    Some(view) => &mut view.triggers,
                    None => continue,
                },
                _ => continue,
            };
            match row.sql.as_deref().map(|sql| parse(sql).map(|parsed| parsed.stmt)) {
                Some(Ok(Stmt::CreateTrigger(definition))) => {
                    let (name, definition) = (row.name, *definition);
                    triggers.list.push(Arc::new(Trigger { name, database, definition }));
                }
                Some(Ok(_)) => {
                    let why = "its definition is no CREATE TRIGGER".to_owned();
                    triggers.damaged = Some((row.name, why));
                }
                Some(Err(error)) => triggers.damaged = Some((row.name, error.to_string())),
                None => {
                    let why = "it has no definition".to_owned();
                    triggers.damaged = Some((row.name, why));
                }
            }
        }
        let done = |pending| match pending {
            Pending::Done(object) => object,
            Pending::Table(draft) => {
                let mut table = draft.finish(schema_format);
                table.belong(database, txn.utf16());
                Object::Table(Arc::new(table))
            }
        };
        (self.objects.into_iter().map(done).collect(), far)
    }

    /// The trigger of a row of `temp`'s schema, unless the trigger is on one of `temp`'s own tables
    /// or views.
    fn far_trigger(&self, row: &TriggerRow) -> Option<Trigger> {
        let Stmt::CreateTrigger(definition) = parse(row.sql.as_deref()?).ok()?.stmt else {
            return None;
        };
        let on = &definition.table;
        let is_own = match &on.database {
            Some(named) => named.is("temp"),
            None => self.by_name.contains_key(&on.name.text.to_ascii_lowercase()),
        };
        let (name, database) = (row.name.clone(), TEMP);
        (!is_own).then_some(Trigger { name, database, definition: *definition })
    }
}

impl Draft {
    fn index(&mut self, row: &IndexRow) -> Result<(), String> {
        let root = row.root.ok_or("it has no root page")?;
        let index = match &row.sql {
            Some(sql) => match parse(sql).map(|parsed| parsed.stmt) {
                Ok(Stmt::CreateIndex(def)) => table::build_index(&def, root, &self.table)?,
                Ok(_) => return Err("its definition is no CREATE INDEX".to_owned()),
                Err(error) => return Err(error.to_string()),
            },
            None => {
                let number = row
                    .name
                    .get(..AUTOINDEX.len())
                    .filter(|prefix| prefix.eq_ignore_ascii_case(AUTOINDEX))
                    .and_then(|_| row.name.rsplit_once('_'))
                    .and_then(|(_, number)| number.parse::<usize>().ok())
                    .and_then(|number| number.checked_sub(1))
                    .ok_or("it has no definition")?;
                let constraint = self.constraints.get_mut(number).and_then(Option::take);
                let constraint = constraint.ok_or("it belongs to no constraint")?;
                constraint.index(&row.name, root, &self.table)
            }
        };
        self.table.indexes.push(index);
        Ok(())
    }

    fn finish(self, schema_format: u32) -> Table {
        let mut table = self.table;
        let own_tree = |constraint: &Constraint| {
            table.without_rowid && constraint.origin == super::IndexOrigin::PrimaryKey
        };
        if self.constraints.iter().flatten().any(|constraint| !own_tree(constraint))
            && table.missing_index.is_none()
        {
            table.missing_index =
                Some("a UNIQUE or PRIMARY KEY constraint has no index".to_owned());
        }
        let own = self.constraints.iter().enumerate().find_map(|(number, constraint)| {
            let constraint = constraint.as_ref().filter(|constraint| own_tree(constraint))?;
            let name = format!("{AUTOINDEX}{}_{}", table.name, number + 1);
            Some(constraint.own_index(&name, &table))
        });
        table.own_index = own;
        // File formats before 4 keep the word `DESC` and ignore it.
        if schema_format < 4 {
            for index in &mut table.indexes {
                index.columns.iter_mut().for_each(|column| column.descending = false);
            }
            table.primary_key.iter_mut().for_each(|part| part.descending = false);
        }
        table
    }
}

fn damaged(name: &str, why: &str) -> Object {
    Object::Damaged { name: name.to_owned(), why: why.to_owned() }
}
