//! The schema of a narrowed connection: tables as a principal may see them, and nothing else.
//!
//! What is not granted is not in the schema, so that no statement can name it. The tables of the
//! file are in a second schema, for rules alone.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use super::{
    Connected, IndexSource, MAIN, Modules, Object, Registered, Schema, Table, Triggers, View,
    VirtualDefinition,
};
use crate::Error;
use crate::entitlement::{Entitlement, Granted, WrittenColumns, fault};
use crate::parse::ast::{Expr, Stmt};
use crate::parse::parse;
use crate::value::Collation;

/// Built-in table-valued functions of narrowed connections: they read their arguments, or the
/// narrowed schema.
const MODULES: [&str; 8] = [
    "generate_series",
    "json_each",
    "json_tree",
    "pragma_collation_list",
    "pragma_function_list",
    "pragma_table_info",
    "pragma_table_list",
    "pragma_table_xinfo",
];

/// The rules of a narrowed schema, and the schema that they are about.
#[derive(Debug)]
pub(crate) struct Narrowing {
    pub(crate) entitlement: Arc<Entitlement>,
    /// The file's own schema, without functions and objects of the program's.
    pub(crate) whole: Schema,
    searched: MakeSearched,
}

/// Makes a virtual table of the visible rows of another, whose rows are read at the first search;
/// `None` where the module knows no such table.
pub(crate) type MakeSearched = fn(&Schema, &NarrowedTable) -> Result<Option<Searched>, Error>;

/// A virtual table to be searched in the place of one with hidden rows or columns.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) connected: Arc<Connected>,
    /// True where rows have the rowids of the table behind.
    pub(crate) keeps_rowids: bool,
}

impl Narrowing {
    /// What `MATCH` and the module's own functions read of a virtual table: the table itself where
    /// nothing of it is hidden, or else one of its visible rows; `None` where the module's tables
    /// are read row by row alone.
    ///
    /// # Errors
    /// Tables whose rows cannot be read back.
    pub(crate) fn searched<'a>(
        &'a self,
        table: &'a NarrowedTable,
    ) -> Result<Option<(&'a Arc<Connected>, bool)>, Error> {
        if table.searched.get().is_none() {
            let made = (self.searched)(&self.whole, table)?;
            let _ = table.searched.set(made);
        }
        let made = table.searched.get().and_then(Option::as_ref);
        Ok(made.map(|made| (&made.connected, made.keeps_rowids && table.shows_rowid)))
    }
}

/// A table as a principal may see it: some columns of the rows that meet a predicate.
#[derive(Debug)]
pub struct NarrowedTable {
    /// The table; of a virtual table its columns, without a b-tree.
    pub(crate) table: Arc<Table>,
    /// The virtual table behind, read by full scans and by conditions that may be asked of hidden
    /// rows: neither `MATCH` nor auxiliary functions reach the module, unless all is granted.
    pub(crate) behind: Option<(Arc<VirtualDefinition>, Arc<Connected>)>,
    /// What is searched in the place of the virtual table behind, made when a statement first needs
    /// it.
    searched: OnceLock<Option<Searched>>,
    /// In the order of the table.
    pub(crate) columns: Vec<NarrowedColumn>,
    /// The predicate of visible rows.
    pub(crate) rows: Option<Arc<Expr>>,
    /// The value of `:principal`.
    pub(crate) principal: Arc<str>,
    /// True where the names of the rowid mean something.
    pub(crate) shows_rowid: bool,
    pub(crate) is_listed: bool,
    /// The columns of new rows open to values.
    pub(crate) inserts: Option<Writable>,
    pub(crate) updates: Option<Writable>,
    pub(crate) deletes: bool,
}

/// The columns open to values: visible ones without masks.
#[derive(Debug)]
pub(crate) struct Writable {
    /// Places in the table.
    columns: Vec<usize>,
    /// True where the rowid may be given by its own names.
    rowid: bool,
}

impl Writable {
    /// True where a column may be given a value; `None` stands for the rowid by its own names.
    pub(crate) fn allows(&self, column: Option<usize>) -> bool {
        column.map_or(self.rowid, |column| self.columns.contains(&column))
    }
}

/// A visible column.
#[derive(Debug)]
pub(crate) struct NarrowedColumn {
    /// The place in the table.
    pub(crate) column: usize,
    /// An expression in the place of the value.
    pub(crate) mask: Option<Arc<Expr>>,
}

impl NarrowedTable {
    /// The table's name as written.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    fn new(table: &Arc<Table>, granted: &Granted, principal: Arc<str>) -> Result<Self, Error> {
        let rule = |why: String| Err(fault(table.name(), why));
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        let mut names = granted.columns.iter().flatten().filter(|name| !is(name, "rowid"));
        let masked = granted.masks.iter().map(|(name, _)| name);
        if let Some(name) =
            names.by_ref().chain(masked).find(|name| table.column_index(name).is_none())
        {
            return rule(format!("no such column: {name}"));
        }
        for (place, (name, _)) in granted.masks.iter().enumerate() {
            if granted.masks[..place].iter().any(|(other, _)| is(name, other)) {
                return rule(format!("column {name} has two masks"));
            }
        }
        let is_granted = |name: &str| match &granted.columns {
            None => true,
            Some(names) => names.iter().any(|granted| is(granted, name)),
        };
        let mask = |name: &str| granted.masks.iter().find(|(masked, _)| is(masked, name));
        let mut columns = Vec::new();
        for (column, known) in table.columns.iter().enumerate() {
            let mask = mask(&known.name).map(|(_, expr)| Arc::clone(expr));
            // A mask is a grant, of what it shows.
            if is_granted(&known.name) || mask.is_some() {
                columns.push(NarrowedColumn { column, mask });
            }
        }
        columns.retain(|shown| !table.columns[shown.column].hidden);
        if columns.is_empty() {
            return rule("a rule grants at least one column".to_owned());
        }
        let shows_rowid = !table.without_rowid
            && match table.rowid_alias {
                Some(alias) => {
                    columns.iter().any(|shown| shown.column == alias && shown.mask.is_none())
                }
                None => is_granted("rowid"),
            };
        let mut narrowed = NarrowedTable {
            table: Arc::clone(table),
            behind: None,
            searched: OnceLock::new(),
            columns,
            rows: granted.rows.clone(),
            principal,
            shows_rowid,
            is_listed: granted.is_listed,
            inserts: None,
            updates: None,
            deletes: granted.writes.delete,
        };
        let writable = |columns: &Option<WrittenColumns>| {
            columns.as_ref().map(|columns| narrowed.writable(columns)).transpose()
        };
        let (inserts, updates) =
            (writable(&granted.writes.insert)?, writable(&granted.writes.update)?);
        narrowed.inserts = inserts;
        narrowed.updates = updates;
        Ok(narrowed)
    }

    /// The virtual table behind, where nothing of it is hidden.
    pub(crate) fn whole_virtual(&self) -> Option<&Arc<Connected>> {
        let (_, connected) = self.behind.as_ref()?;
        let shows = |column: usize| connected.hidden.contains(&column) || self.shows(column);
        let is_whole =
            self.rows.is_none() && self.shows_rowid && (0..self.table.columns.len()).all(shows);
        is_whole.then_some(connected)
    }

    /// True for a column visible as stored.
    pub(crate) fn shows(&self, column: usize) -> bool {
        self.columns.iter().any(|shown| shown.column == column && shown.mask.is_none())
    }

    /// True where every column is visible as stored.
    pub(crate) fn shows_all(&self) -> bool {
        (0..self.table.columns.len()).all(|column| self.shows(column))
    }

    /// The place of a visible column, masked ones too.
    pub(crate) fn visible_column(&self, name: &str) -> Option<usize> {
        let column = self.table.column_index(name)?;
        self.columns.iter().any(|shown| shown.column == column).then_some(column)
    }

    fn writable(&self, columns: &WrittenColumns) -> Result<Writable, Error> {
        let names = match columns {
            WrittenColumns::Visible => {
                let all = 0..self.table.columns.len();
                let columns = all.filter(|column| self.shows(*column)).collect();
                return Ok(Writable { columns, rowid: self.shows_rowid });
            }
            WrittenColumns::Only(names) => names,
        };
        let mut writable = Writable { columns: Vec::new(), rowid: false };
        for name in names {
            match self.table.column_index(name) {
                Some(column) if self.shows(column) => writable.columns.push(column),
                None if self.shows_rowid && name.eq_ignore_ascii_case("rowid") => {
                    writable.rowid = true;
                    writable.columns.extend(self.table.rowid_alias);
                }
                _ => {
                    let why = format!("column {name} is not visible as stored: nobody writes it");
                    return Err(fault(self.name(), why));
                }
            }
        }
        Ok(writable)
    }

    /// The table's definition with nothing but what is visible: names, types, collations, and the
    /// name of the rowid.
    fn sql(&self) -> String {
        let mut sql = format!("CREATE TABLE {}(", quoted(self.name()));
        for (place, shown) in self.columns.iter().enumerate() {
            let column = &self.table.columns[shown.column];
            let comma = if place == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}{}", quoted(&column.name));
            if !column.declared_type.is_empty() {
                let _ = write!(sql, " {}", column.declared_type);
            }
            if self.names_rowid(shown) {
                sql.push_str(" PRIMARY KEY");
            }
            match &column.collation {
                Ok(Collation::Binary | Collation::Utf16(_)) | Err(_) => {}
                Ok(known) => {
                    let _ = write!(sql, " COLLATE {}", known.name());
                }
            }
        }
        sql.push(')');
        sql
    }

    /// The table in the sight of the principal.
    pub(crate) fn visible(&self) -> VisibleTable {
        let stays =
            |column: usize| self.shows(column) && !self.table.columns[column].is_generated();
        let names = self.columns.iter().map(|shown| self.table.columns[shown.column].name.clone());
        VisibleTable {
            name: self.name().to_owned(),
            columns: names.collect(),
            keys: self.keys(),
            is_whole: self.behind.is_none() && (0..self.table.columns.len()).all(stays),
        }
    }

    /// The keys over columns visible as stored.
    fn keys(&self) -> VisibleKeys {
        let table = &*self.table;
        let name = |column: usize| table.columns[column].name.clone();
        let rowid = match table.rowid_alias {
            Some(alias) => Some(name(alias)),
            None => ["rowid", "_rowid_", "oid"]
                .iter()
                .find(|rowid| table.column_index(rowid).is_none())
                .map(|rowid| (*rowid).to_owned()),
        };
        let key = table.primary_key.iter().map(|part| part.column);
        let primary_key = match key.clone().all(|column| self.shows(column)) {
            true => key.map(name).collect(),
            false => Vec::new(),
        };
        let begins = table.indexes.iter().filter(|index| index.filter.is_none());
        let begins = begins.filter_map(|index| match index.columns.first()?.source {
            IndexSource::Column(column) if self.shows(column) => Some(name(column)),
            _ => None,
        });
        let seen = table.foreign_keys.iter();
        let seen = seen.filter(|key| key.columns.iter().all(|column| self.shows(*column)));
        let foreign_keys = seen.map(|key| VisibleForeignKey {
            parent: key.parent.clone(),
            columns: key.columns.iter().map(|column| name(*column)).collect(),
            references: key.parent_columns.clone(),
        });
        VisibleKeys {
            rowid: rowid.filter(|_| self.shows_rowid),
            primary_key,
            indexed: begins.collect(),
            foreign_keys: foreign_keys.collect(),
        }
    }

    /// True for the column that names the rowid, where the rowid is visible.
    pub(crate) fn names_rowid(&self, shown: &NarrowedColumn) -> bool {
        self.shows_rowid && self.table.rowid_alias == Some(shown.column)
    }
}

/// A table in the sight of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleTable {
    /// The name as written.
    pub name: String,
    /// The visible columns in the order of the table, masked ones too.
    pub columns: Vec<String>,
    /// The visible keys.
    pub keys: VisibleKeys,
    /// True of an ordinary table whose columns are all visible as they are stored.
    pub is_whole: bool,
}

/// The keys of a narrowed table, of columns visible as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleKeys {
    /// The name of the rowid; `None` in a table without one, and where the rowid is hidden.
    pub rowid: Option<String>,
    /// The columns of the primary key in its order; none where one of them is hidden.
    pub primary_key: Vec<String>,
    /// Columns that an index of all rows begins with.
    pub indexed: Vec<String>,
    /// References to other tables.
    pub foreign_keys: Vec<VisibleForeignKey>,
}

/// A reference of a narrowed table, all of whose columns are visible as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleForeignKey {
    /// The table referred to.
    pub parent: String,
    /// The columns of the reference.
    pub columns: Vec<String>,
    /// The columns referred to; none for the primary key.
    pub references: Vec<String>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Schema {
    /// The rules of a narrowed schema.
    pub(crate) fn narrowing(&self) -> Option<&Narrowing> {
        self.narrowing.as_deref()
    }

    /// The schema as a principal may see it: `self` is that of the file.
    ///
    /// # Errors
    /// None as a whole; for each table whose rule does not fit there is a damaged object, whose
    /// fault goes to `faults`.
    pub(crate) fn narrowed(
        &self,
        entitlement: &Arc<Entitlement>,
        searched: MakeSearched,
        faults: &mut Vec<Error>,
    ) -> Schema {
        let mut whole = self.with_others(Vec::new(), None, Registered::default());
        whole.own = self.own.without_functions();
        let modules = self.modules.0.iter();
        let modules = modules.filter(|module| MODULES.contains(&module.name())).cloned().collect();
        let registered = self.registered.modules.iter().filter(|module| module.reads_by_queries());
        let registered = Registered { views: Vec::new(), modules: registered.cloned().collect() };
        let mut schema = Schema {
            cookie: self.cookie,
            utf16: self.utf16,
            own: whole.own.clone(),
            modules: Modules(modules),
            registered,
            ..Schema::default()
        };
        let mut objects = Vec::new();
        for object in whole.objects() {
            let is = |granted: &&Granted| granted.table.eq_ignore_ascii_case(object.name());
            let Some(granted) = entitlement.tables.iter().find(is) else { continue };
            let narrowed = narrow(&whole, object, granted, entitlement.shared_principal());
            objects.push(narrowed.unwrap_or_else(|error| {
                faults.push(error);
                unfit(object.name())
            }));
        }
        schema.add(schema_of_schema(&objects));
        objects.into_iter().for_each(|object| schema.add(object));
        schema.narrowing =
            Some(Arc::new(Narrowing { entitlement: Arc::clone(entitlement), whole, searched }));
        schema
    }

    /// True for the part that a principal sees.
    pub fn is_narrowed(&self) -> bool {
        self.narrowing().is_some()
    }

    /// The visible keys of a narrowed table, listed or not; `None` for any other name.
    pub fn visible_keys(&self, table: &str) -> Option<VisibleKeys> {
        match self.object(table)? {
            Object::Narrowed(table) => Some(table.keys()),
            _ => None,
        }
    }

    /// The same narrowed schema without a table whose rule does not fit.
    pub(crate) fn withdraw(&mut self, name: &str) {
        for object in &mut self.objects {
            if object.name().eq_ignore_ascii_case(name) {
                *object = unfit(name);
            }
        }
    }
}

/// A table that cannot be read because of its rule.
fn unfit(name: &str) -> Object {
    let why = "its rule does not fit the table as it is now".to_owned();
    Object::Damaged { name: name.to_owned(), why }
}

fn narrow(
    whole: &Schema,
    object: &Object,
    granted: &Granted,
    principal: Arc<str>,
) -> Result<Object, Error> {
    let name = object.name();
    match object {
        Object::Table(table) => {
            let narrowed = NarrowedTable::new(table, granted, principal)?;
            Ok(Object::Narrowed(Arc::new(narrowed)))
        }
        Object::View(view) => {
            let is_whole = granted.columns.is_none()
                && granted.rows.is_none()
                && granted.masks.is_empty()
                && granted.writes.is_none();
            if !is_whole {
                let why = "a view is granted as a whole; its tables have rules of their own";
                return Err(fault(name, why));
            }
            let view = View {
                name: view.name.clone(),
                columns: view.columns.clone(),
                select: view.select.clone(),
                triggers: Triggers::default(),
                is_listed: granted.is_listed,
            };
            Ok(Object::View(Arc::new(view)))
        }
        Object::Virtual(definition) => {
            if !granted.writes.is_none() {
                return Err(fault(name, "a virtual table is read under rules, and never written"));
            }
            let connected = definition.connect(whole, MAIN).map_err(|why| fault(name, why))?;
            let narrowed = NarrowedTable::new(&connected.table, granted, principal)?;
            let behind = Some((Arc::clone(definition), Arc::clone(connected)));
            Ok(Object::Narrowed(Arc::new(NarrowedTable { behind, ..narrowed })))
        }
        Object::Narrowed(_) | Object::Damaged { .. } => {
            Err(fault(name, "its definition cannot be used"))
        }
    }
}

/// `sqlite_schema`, as a view of what is visible.
fn schema_of_schema(objects: &[Object]) -> Object {
    const NAME: &str = "sqlite_schema";
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut rows = Vec::new();
    for object in objects {
        let (kind, sql) = match object {
            Object::Narrowed(table) if table.is_listed => ("table", text(&table.sql())),
            Object::View(view) if view.is_listed => ("view", "NULL".to_owned()),
            _ => continue,
        };
        let name = text(object.name());
        rows.push(format!("('{kind}', {name}, {name}, NULL, {sql})"));
    }
    let none = rows.is_empty();
    if none {
        rows.push("(NULL, NULL, NULL, NULL, NULL)".to_owned());
    }
    let sql = format!(
        "CREATE VIEW x AS SELECT column1 AS type, column2 AS name, column3 AS tbl_name, \
         column4 AS rootpage, column5 AS sql FROM (VALUES {}){}",
        rows.join(", "),
        if none { " WHERE 0" } else { "" },
    );
    match parse(&sql).map(|parsed| parsed.stmt) {
        Ok(Stmt::CreateView(def)) => Object::View(Arc::new(View {
            name: NAME.to_owned(),
            columns: None,
            select: def.select,
            triggers: Triggers::default(),
            is_listed: false,
        })),
        // A name with a NUL has no text in SQL.
        _ => Object::Damaged { name: NAME.to_owned(), why: "it cannot be written down".to_owned() },
    }
}
