//! The schema of a file: its tables, indexes and views (file format §2.6).
//!
//! A [`Schema`] is read from `sqlite_schema` and stays valid while the file's schema cookie does.
//! Objects beyond this crate (a damaged definition, a virtual table) are kept with the reason, so
//! that they are refused by name and the rest stays readable.

mod databases;
mod key_samples;
mod load;
mod module;
mod narrowed;
mod row_sample;
mod seen_tables;
mod stats;
mod table;
mod txns;
mod virtual_table;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use shoal_store::{ByteOrder, KeyColumn, KeyOrder, Locking, Pgno, Store, Transaction};

pub(crate) use databases::{BESIDE, Beside, MAIN, Registered, TEMP};
pub(crate) use module::{MadeRows, Modules};
pub use module::{Module, ModuleContext, ModuleRows, Operator, OperatorRows, PAST_MODULE};
pub(crate) use narrowed::{NarrowedColumn, Narrowing, Searched, Writable};
pub use narrowed::{NarrowedTable, VisibleForeignKey, VisibleKeys, VisibleTable};
pub(crate) use row_sample::{RowSample, Rows as SampledRows};
pub use seen_tables::SeenTables;
pub(crate) use table::{Built, build as build_table, build_index, constant_default, view_table};
pub(crate) use txns::{AttachedSnapshots, Snapshot, Txns, transaction_of};
pub use virtual_table::{
    ChangedPages, ConstraintOp, Definition, IndexChoice, IndexConstraint, IndexOrder, IndexRequest,
    OnConflict, SeenState, ShadowBlob, ShadowRows, ShadowTable, TableModule, TableReads,
    TableWrites, Taken, VirtualColumn, VirtualCursor, VirtualDefinition, VirtualRow, VirtualTable,
    VirtualWriter, VisibleArguments, VisibleRowids,
};
pub(crate) use virtual_table::{Connected, Parts, TableModules, VirtualWriters};

use crate::functions::Own;
use crate::parse::ast;
use crate::value::{Affinity, Collation, Value};

/// The tables, views and indexes of a file.
#[derive(Debug, Default)]
pub struct Schema {
    cookie: u32,
    /// Encoding of the file's text, other than UTF-8.
    utf16: Option<ByteOrder>,
    /// The file's absolute path; empty for one in memory.
    file: String,
    settings: Settings,
    flags: Flags,
    /// In the order of `sqlite_schema`.
    objects: Vec<Object>,
    /// Folded name of a table or view to its place in `objects`.
    by_name: FxHashMap<String, usize>,
    /// The databases beside this one, the schema of `main`.
    attached: Vec<Beside>,
    /// The schema of `temp`, once temporary objects were made.
    temporary: Option<Arc<Schema>>,
    /// In the schema of `temp`: the triggers on tables and views of other databases, or on missing
    /// ones, the oldest first.
    far_triggers: Vec<Arc<Trigger>>,
    registered: Registered,
    /// Functions and collations of the program's own.
    own: Own,
    /// Built-in modules.
    modules: Modules,
    /// The modules of virtual tables.
    table_modules: TableModules,
    /// True for statements of a module: shadow tables may be written to.
    for_nested_writes: bool,
    /// `Some` for the schema of a narrowed connection.
    narrowing: Option<Arc<Narrowing>>,
    /// The schema of `temp`, made on first use.
    temp: OnceLock<Object>,
}

/// An object with rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Object {
    /// An ordinary table.
    Table(Arc<Table>),
    /// A view.
    View(Arc<View>),
    /// A virtual table, its module known or not.
    Virtual(Arc<VirtualDefinition>),
    /// A table as a principal may see it, in the schema of a narrowed connection.
    Narrowed(Arc<NarrowedTable>),
    /// A table or view whose definition cannot be used.
    Damaged {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

impl Object {
    /// The object's name as written.
    pub fn name(&self) -> &str {
        match self {
            Object::Table(table) => table.name(),
            Object::View(view) => &view.name,
            Object::Virtual(definition) => definition.name(),
            Object::Narrowed(table) => table.name(),
            Object::Damaged { name, .. } => name,
        }
    }

    /// The triggers run by changes of the object.
    pub(crate) fn triggers(&self) -> &Triggers {
        static NONE: Triggers = Triggers { list: Vec::new(), damaged: None };
        match self {
            Object::Table(table) => &table.triggers,
            Object::View(view) => &view.triggers,
            Object::Virtual(_) | Object::Narrowed(_) | Object::Damaged { .. } => &NONE,
        }
    }
}

/// A table with its columns and indexes.
#[derive(Debug)]
pub struct Table {
    pub(crate) name: String,
    /// The number of its database.
    pub(crate) database: usize,
    pub(crate) root: Pgno,
    pub(crate) columns: Vec<Column>,
    /// The column naming the rowid.
    pub(crate) rowid_alias: Option<usize>,
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
    pub(crate) autoincrement: bool,
    /// Every index with a b-tree of its own, in the order of `sqlite_schema`.
    pub(crate) indexes: Vec<Index>,
    /// Message naming a missing or unusable index: writes are refused, as they could not keep the
    /// index.
    pub(crate) missing_index: Option<String>,
    /// Index of the primary key, of a table without rowid: the table's own b-tree.
    pub(crate) own_index: Option<Index>,
    /// The columns of the primary key in key order; also of a rowid alias.
    pub(crate) primary_key: Vec<KeyPart>,
    /// Conflict clause of the rowid's column, or of the primary key of a table without rowid, for a
    /// second row with the same key.
    pub(crate) key_conflict: Option<ast::Conflict>,
    pub(crate) checks: Vec<Check>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) triggers: Triggers,
    /// Number of columns in a complete record.
    pub(crate) stored_columns: usize,
    pub(crate) stats: stats::TreeStats,
}

/// A `REFERENCES` clause.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub(crate) columns: Vec<usize>,
    pub(crate) parent: String,
    /// Empty for the parent's primary key.
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_update: &'static str,
    pub(crate) on_delete: &'static str,
    /// True where the constraint is checked when the transaction ends.
    pub(crate) deferred: bool,
}

/// The triggers of a table or view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triggers {
    /// In the order of firing: the newest first.
    pub(crate) list: Vec<Arc<Trigger>>,
    /// The name and the fault of an invalid trigger: nobody may write then.
    pub(crate) damaged: Option<(String, String)>,
}

/// A program run by changes of a table or view.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) name: String,
    /// The number of the trigger's database: `temp`'s, or its table's.
    pub(crate) database: usize,
    pub(crate) definition: ast::CreateTrigger,
}

/// A `CHECK` constraint.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// The constraint's name, or its text.
    pub(crate) label: String,
    pub(crate) expr: ast::Expr,
}

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) declared_type: String,
    pub(crate) affinity: Affinity,
    /// `Err` holds the name of an unknown collating sequence.
    pub(crate) collation: Result<Collation, String>,
    pub(crate) not_null: bool,
    pub(crate) not_null_conflict: Option<ast::Conflict>,
    pub(crate) default: Option<ast::Expr>,
    pub(crate) default_text: Option<String>,
    /// Value of the column in rows written before the column was added.
    pub(crate) missing_value: Value,
    pub(crate) generated: Option<Generated>,
    /// Place in the primary key from 1; 0 for other columns.
    pub(crate) primary_key_place: usize,
    /// Place in the record; `None` for a virtual column.
    pub(crate) stored: Option<usize>,
    /// True for a column of a virtual table left out by `*`.
    pub(crate) hidden: bool,
}

/// A generated column's expression.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub(crate) expr: ast::Expr,
    pub(crate) stored: bool,
}

/// A column within a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    pub(crate) column: usize,
    pub(crate) collation: Result<Collation, String>,
    pub(crate) descending: bool,
}

/// An index of a table.
#[derive(Debug)]
pub struct Index {
    pub(crate) name: String,
    pub(crate) root: Pgno,
    pub(crate) unique: bool,
    pub(crate) origin: IndexOrigin,
    pub(crate) conflict: Option<ast::Conflict>,
    /// Key columns first, then the columns making every entry unique: the rowid or the primary key.
    pub(crate) columns: Vec<IndexColumn>,
    /// Number of `columns` named by the definition.
    pub(crate) key_columns: usize,
    /// The condition of a partial index.
    pub(crate) filter: Option<ast::Expr>,
    pub(crate) stats: stats::TreeStats,
}

/// Why an index is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexOrigin {
    Create,
    Unique,
    PrimaryKey,
}

/// One column of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexColumn {
    pub(crate) source: IndexSource,
    pub(crate) collation: Result<Collation, String>,
    pub(crate) descending: bool,
}

/// The source of an index column's value.
#[derive(Clone, Debug)]
pub(crate) enum IndexSource {
    Column(usize),
    Rowid,
    Expr(ast::Expr),
}

/// A view: a query with a name.
#[derive(Debug)]
pub struct View {
    pub(crate) name: String,
    pub(crate) columns: Option<Vec<ast::Name>>,
    pub(crate) select: ast::Select,
    pub(crate) triggers: Triggers,
    /// False for a view left out of lists of tables.
    pub(crate) is_listed: bool,
}

/// A file whose schema is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOf<'a> {
    pub(crate) txn: &'a Transaction,
    pub(crate) store: &'a Store,
    /// The number of the database in the connection.
    pub(crate) database: usize,
}

/// Settings of a connection's pragmas with an effect on the preparing of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// True where a trigger's changes may run the trigger again.
    pub(crate) recursive_triggers: bool,
    /// Whether foreign keys are enforced.
    pub(crate) foreign_keys: bool,
    /// True where virtual tables may be declared in `sqlite_schema`, and their parts written.
    pub(crate) writable_schema: bool,
}

/// Settings of an open file, as shown by pragmas.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) exclusive: bool,
}

impl Settings {
    fn of(store: &Store) -> Settings {
        Settings { exclusive: store.options().locking == Locking::Exclusive }
    }
}

impl Schema {
    /// The schema of a file without any table, as of a new file.
    fn empty(file: &FileOf<'_>) -> Schema {
        let FileOf { txn, store, database } = *file;
        let utf16 = txn.utf16();
        let is_in_memory = store.path() == Path::new(":memory:");
        let path = store.real_path().to_string_lossy();
        let mut schema = Schema {
            cookie: txn.schema_cookie(),
            utf16,
            file: if is_in_memory { String::new() } else { path.into_owned() },
            settings: Settings::of(store),
            ..Schema::default()
        };
        let mut table = table::schema_table();
        table.belong(database, utf16);
        schema.add(Object::Table(Arc::new(table)));
        schema
    }

    /// The schema of the same database without any table, as of a writing transaction.
    fn like(&self, txn: &Transaction) -> Schema {
        let mut schema = Schema {
            cookie: txn.schema_cookie(),
            utf16: self.utf16,
            file: self.file.clone(),
            settings: self.settings,
            flags: self.flags,
            registered: self.registered.clone(),
            modules: self.modules.clone(),
            table_modules: self.table_modules.clone(),
            for_nested_writes: self.for_nested_writes,
            ..Schema::default()
        };
        let mut table = table::schema_table();
        table.belong(MAIN, self.utf16);
        schema.add(Object::Table(Arc::new(table)));
        schema
    }

    /// The same schema for statements of a virtual table's module.
    pub(crate) fn for_nested_writes(self) -> Schema {
        Schema { for_nested_writes: true, ..self }
    }

    /// True where shadow tables may be written to.
    pub(crate) fn is_for_nested_writes(&self) -> bool {
        self.for_nested_writes
    }

    /// The settings of the connection's pragmas.
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// The same schema for a connection with other settings.
    pub(crate) fn with_flags(self, flags: Flags) -> Schema {
        Schema { flags, ..self }
    }

    /// The same schema, just read, for a connection with functions and collations of its own.
    pub(crate) fn with_own(mut self, own: Own) -> Schema {
        for object in &mut self.objects {
            if let Object::Table(table) = object
                && let Some(table) = Arc::get_mut(table)
            {
                table.adopt(&own);
            }
        }
        Schema { own, ..self }
    }

    /// Functions and collations of the program's own.
    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// Settings of the open file.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// The file's path; empty for one in memory.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The file's schema cookie this was read at.
    pub fn cookie(&self) -> u32 {
        self.cookie
    }

    /// Encoding of the file's text, other than UTF-8.
    pub(crate) fn utf16(&self) -> Option<ByteOrder> {
        self.utf16
    }

    /// Every object with rows, in the file's order; `sqlite_schema` itself comes first.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The table or view called `name`, in any case. `sqlite_master` is `sqlite_schema`.
    pub fn object(&self, name: &str) -> Option<&Object> {
        let folded = name.to_ascii_lowercase();
        let folded = if folded == "sqlite_master" { "sqlite_schema" } else { &folded };
        self.by_name.get(folded).map(|&index| &self.objects[index])
    }

    /// The ordinary table called `name`, in any case.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        match self.object(name) {
            Some(Object::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// The index called `name`, in any case, behind its table.
    pub fn index(&self, name: &str) -> Option<(&Arc<Table>, &Index)> {
        self.objects.iter().find_map(|object| match object {
            Object::Table(table) => table
                .indexes
                .iter()
                .chain(&table.own_index)
                .find(|index| index.name.eq_ignore_ascii_case(name))
                .map(|index| (table, index)),
            _ => None,
        })
    }

    /// The trigger called `name`, in any case, behind its table or view; without `temp`'s triggers
    /// on other databases ([`Schema::kept_trigger`]).
    pub(crate) fn trigger(&self, name: &str) -> Option<(&Object, &Arc<Trigger>)> {
        self.objects.iter().find_map(|object| {
            let is = |trigger: &&Arc<Trigger>| trigger.name.eq_ignore_ascii_case(name);
            object.triggers().list.iter().find(is).map(|trigger| (object, trigger))
        })
    }

    fn add(&mut self, object: Object) {
        let folded = object.name().to_ascii_lowercase();
        let place = self.objects.len();
        // The first of two objects with one name wins, as in a scan of the schema.
        self.by_name.entry(folded).or_insert(place);
        self.objects.push(object);
    }
}

impl Table {
    /// Puts the table into its database, whose text may be UTF-16: `BINARY` is another order then.
    fn belong(&mut self, database: usize, utf16: Option<ByteOrder>) {
        self.database = database;
        let Some(order) = utf16 else { return };
        for collation in self.collations().flatten() {
            if *collation == Collation::Binary {
                *collation = Collation::Utf16(order);
            }
        }
    }

    /// The collations of columns, keys and indexes.
    fn collations(&mut self) -> impl Iterator<Item = &mut Result<Collation, String>> {
        let columns = self.columns.iter_mut().map(|column| &mut column.collation);
        let keys = self.primary_key.iter_mut().map(|part| &mut part.collation);
        let indexes = self.indexes.iter_mut().chain(&mut self.own_index);
        let entries = indexes.flat_map(|index| &mut index.columns);
        let entries = entries.map(|column| &mut column.collation);
        columns.chain(keys).chain(entries)
    }

    /// Takes up the collations of the program's own.
    fn adopt(&mut self, own: &Own) {
        self.collations().for_each(|collation| own.adopt(collation));
    }

    /// The same table, just built, with the collations of the program's own.
    pub(crate) fn with_own(mut self, own: &Own) -> Table {
        self.adopt(own);
        self
    }

    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns in the order of their definition.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The indexes with a b-tree of their own.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// True where an index of the table has a condition of its own.
    pub(crate) fn has_partial_index(&self) -> bool {
        self.indexes.iter().any(|index| index.filter.is_some())
    }

    /// The column naming the rowid.
    pub fn rowid_alias(&self) -> Option<usize> {
        self.rowid_alias
    }

    /// True where rows are kept by their primary key and have no rowid.
    pub fn is_without_rowid(&self) -> bool {
        self.without_rowid
    }

    /// True for a table declared `STRICT`.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The place of the column called `name`, in any case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The order of the b-tree of a table without rowid.
    pub(crate) fn primary_key_order(&self) -> KeyOrder {
        KeyOrder::new(self.primary_key.iter().map(KeyPart::key_column).collect())
    }
}

impl KeyPart {
    fn key_column(&self) -> KeyColumn {
        KeyColumn {
            collation: self.collation.as_ref().copied().unwrap_or_default(),
            descending: self.descending,
        }
    }
}

impl Index {
    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True where no two rows may have equal keys.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// True where a condition picks the rows in the index.
    pub fn is_partial(&self) -> bool {
        self.filter.is_some()
    }

    /// The key's columns of the table; `None` stands for an expression.
    pub fn key(&self) -> impl Iterator<Item = Option<usize>> {
        self.columns[..self.key_columns].iter().map(|column| match column.source {
            IndexSource::Column(index) => Some(index),
            _ => None,
        })
    }

    /// True where every collating sequence of the key is known, and so the order of the entries.
    pub(crate) fn has_known_order(&self) -> bool {
        self.columns.iter().all(|column| column.collation.is_ok())
    }

    /// The same index, just built, with the collations of the program's own.
    pub(crate) fn with_own(mut self, own: &Own) -> Index {
        self.columns.iter_mut().for_each(|column| own.adopt(&mut column.collation));
        self
    }

    /// The order of the index's b-tree.
    pub(crate) fn order(&self) -> KeyOrder {
        let column = |column: &IndexColumn| KeyColumn {
            collation: column.collation.as_ref().copied().unwrap_or_default(),
            descending: column.descending,
        };
        KeyOrder::new(self.columns.iter().map(column).collect())
    }
}

impl Column {
    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declared type as written; empty when there is none.
    pub fn declared_type(&self) -> &str {
        &self.declared_type
    }

    /// The column's affinity: its preferred class of values.
    pub fn affinity(&self) -> Affinity {
        self.affinity
    }

    /// True where NULL is refused.
    pub fn is_not_null(&self) -> bool {
        self.not_null
    }

    /// Place in the primary key from 1; 0 for other columns.
    pub fn primary_key_place(&self) -> usize {
        self.primary_key_place
    }

    /// True where the value is computed from other columns.
    pub fn is_generated(&self) -> bool {
        self.generated.is_some()
    }
}

impl View {
    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }
}
