//! The `PRAGMA`s that read, and the two that set a number in the header.

use shoal_store::{TextEncoding, Transaction};

use crate::Error;
use crate::parse::ast::{ObjectName, PragmaArgument};
use crate::schema::{Index, IndexOrigin, IndexSource, Object, Schema, Table};
use crate::value::{Collation, Value, to_int};
use crate::write::integrity;

/// A `PRAGMA` statement.
#[derive(Clone, Debug)]
pub(crate) struct Pragma {
    kind: Kind,
    argument: Option<Value>,
}

/// What a `PRAGMA` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ApplicationId,
    AutoVacuum,
    CollationList,
    CompileOptions,
    DatabaseList,
    Encoding,
    ForeignKeyList,
    ForeignKeys,
    FreelistCount,
    FunctionList,
    IndexInfo,
    IndexList,
    IndexXinfo,
    IntegrityCheck,
    JournalMode,
    ModuleList,
    PageCount,
    PageSize,
    PragmaList,
    QuickCheck,
    SchemaVersion,
    TableInfo,
    TableList,
    TableXinfo,
    UserVersion,
    /// One that does not exist, which SQLite answers with no rows.
    Unknown,
}

const KINDS: &[(&str, Kind)] = &[
    ("application_id", Kind::ApplicationId),
    ("auto_vacuum", Kind::AutoVacuum),
    ("collation_list", Kind::CollationList),
    ("compile_options", Kind::CompileOptions),
    ("database_list", Kind::DatabaseList),
    ("encoding", Kind::Encoding),
    ("foreign_key_list", Kind::ForeignKeyList),
    ("foreign_keys", Kind::ForeignKeys),
    ("freelist_count", Kind::FreelistCount),
    ("function_list", Kind::FunctionList),
    ("index_info", Kind::IndexInfo),
    ("index_list", Kind::IndexList),
    ("index_xinfo", Kind::IndexXinfo),
    ("integrity_check", Kind::IntegrityCheck),
    ("journal_mode", Kind::JournalMode),
    ("module_list", Kind::ModuleList),
    ("page_count", Kind::PageCount),
    ("page_size", Kind::PageSize),
    ("pragma_list", Kind::PragmaList),
    ("quick_check", Kind::QuickCheck),
    ("schema_version", Kind::SchemaVersion),
    ("table_info", Kind::TableInfo),
    ("table_list", Kind::TableList),
    ("table_xinfo", Kind::TableXinfo),
    ("user_version", Kind::UserVersion),
];

impl Pragma {
    /// Recognises a pragma.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for one that is not known here, or that would set what cannot be set.
    pub(crate) fn prepare(
        name: &ObjectName,
        argument: Option<&PragmaArgument>,
    ) -> Result<Pragma, Error> {
        let text = name.name.text.as_str();
        let unsupported = |what: String| Error::unsupported(what, name.name.offset);
        if name.database.as_ref().is_some_and(|database| !database.is("main")) {
            return Err(unsupported(format!("PRAGMA {text} of an attached database")));
        }
        let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(text));
        let kind = known.map(|(_, kind)| *kind);
        let kind = match kind {
            Some(kind) => kind,
            None if REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(text)) => {
                return Err(unsupported(format!("PRAGMA {text}")));
            }
            None => Kind::Unknown,
        };
        let pragma = Pragma { kind, argument: argument.map(|argument| argument.value.clone()) };
        let settable = match kind {
            Kind::ApplicationId | Kind::UserVersion | Kind::DatabaseList | Kind::CollationList => {
                true
            }
            Kind::IndexInfo | Kind::IndexList | Kind::IndexXinfo | Kind::ForeignKeyList => true,
            Kind::CompileOptions | Kind::FunctionList | Kind::ModuleList | Kind::PragmaList => true,
            Kind::Unknown | Kind::IntegrityCheck | Kind::QuickCheck => true,
            Kind::TableInfo | Kind::TableList | Kind::TableXinfo => true,
            Kind::JournalMode => pragma.argument_is("delete"),
            Kind::ForeignKeys => {
                ["0", "off", "false", "no"].iter().any(|off| pragma.argument_is(off))
            }
            _ => false,
        };
        match argument {
            Some(argument) if !settable => {
                Err(Error::unsupported(format!("setting PRAGMA {text}"), argument.offset))
            }
            _ => Ok(pragma),
        }
    }

    fn argument_is(&self, word: &str) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    fn text(&self) -> Option<String> {
        match self.argument.as_ref()? {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Value::Int(int) => Some(int.to_string()),
            _ => None,
        }
    }

    /// Whether it sets something in the file.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.kind, Kind::ApplicationId | Kind::UserVersion) && self.argument.is_some()
    }

    /// The names of the result's columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        let names: &[&str] = match self.kind {
            _ if self.writes() => &[],
            Kind::ForeignKeys if self.argument.is_some() => &[],
            kind => kind.columns(),
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Sets a number in the header.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn write(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let value = self.argument.as_ref().map_or(0, |value| to_int(value.as_ref()));
        // SQLite keeps the low 32 bits, too.
        let bits = value.cast_unsigned() & u64::from(u32::MAX);
        let bits = u32::try_from(bits).unwrap_or(0);
        match self.kind {
            Kind::UserVersion => transaction.set_user_version(bits.cast_signed())?,
            Kind::ApplicationId => transaction.set_application_id(bits)?,
            _ => {}
        }
        Ok(())
    }

    /// The rows.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn rows(
        &self,
        schema: &Schema,
        transaction: &Transaction,
        path: &std::path::Path,
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.kind == Kind::ForeignKeys && self.argument.is_some() {
            return Ok(Vec::new());
        }
        self.kind.rows(self.argument.as_ref(), schema, transaction, &path.to_string_lossy())
    }
}

impl Kind {
    /// The pragma behind a `pragma_...` in a `FROM`.
    pub(crate) fn of_table(name: &str) -> Option<Kind> {
        let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, kind)| *kind)
    }

    /// Whether it takes the name of a table or index.
    pub(crate) fn has_argument(self) -> bool {
        matches!(
            self,
            Kind::IndexInfo
                | Kind::IndexList
                | Kind::IndexXinfo
                | Kind::TableInfo
                | Kind::TableList
                | Kind::TableXinfo
                | Kind::ForeignKeyList
                | Kind::IntegrityCheck
                | Kind::QuickCheck
        )
    }

    /// The names of the columns.
    pub(crate) fn columns(self) -> &'static [&'static str] {
        match self {
            Kind::ApplicationId => &["application_id"],
            Kind::AutoVacuum => &["auto_vacuum"],
            Kind::CollationList => &["seq", "name"],
            Kind::CompileOptions => &["compile_options"],
            Kind::DatabaseList => &["seq", "name", "file"],
            Kind::Encoding => &["encoding"],
            Kind::ForeignKeyList => {
                &["id", "seq", "table", "from", "to", "on_update", "on_delete", "match"]
            }
            Kind::ForeignKeys => &["foreign_keys"],
            Kind::FreelistCount => &["freelist_count"],
            Kind::FunctionList => &["name", "builtin", "type", "enc", "narg", "flags"],
            Kind::IndexInfo => &["seqno", "cid", "name"],
            Kind::IndexList => &["seq", "name", "unique", "origin", "partial"],
            Kind::IndexXinfo => &["seqno", "cid", "name", "desc", "coll", "key"],
            Kind::IntegrityCheck => &["integrity_check"],
            Kind::QuickCheck => &["quick_check"],
            Kind::JournalMode => &["journal_mode"],
            Kind::ModuleList | Kind::PragmaList => &["name"],
            Kind::PageCount => &["page_count"],
            Kind::PageSize => &["page_size"],
            Kind::SchemaVersion => &["schema_version"],
            Kind::TableInfo => &["cid", "name", "type", "notnull", "dflt_value", "pk"],
            Kind::TableList => &["schema", "name", "type", "ncol", "wr", "strict"],
            Kind::TableXinfo => &["cid", "name", "type", "notnull", "dflt_value", "pk", "hidden"],
            Kind::Unknown => &[],
            Kind::UserVersion => &["user_version"],
        }
    }

    /// The rows for an argument.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn rows(
        self,
        argument: Option<&Value>,
        schema: &Schema,
        transaction: &Transaction,
        path: &str,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let header = transaction.header();
        let number = |number: i64| vec![vec![Value::Int(number)]];
        let name = argument_text(argument);
        let given = argument.is_some();
        let argument = name.unwrap_or_default();
        Ok(match self {
            Kind::ApplicationId => number(header.application_id.cast_signed().into()),
            Kind::AutoVacuum => number(match (header.largest_root, header.incremental_vacuum) {
                (0, _) => 0,
                (_, 0) => 1,
                _ => 2,
            }),
            Kind::CollationList => ["RTRIM", "NOCASE", "BINARY"]
                .iter()
                .enumerate()
                .map(|(seq, name)| vec![int(seq), (*name).into()])
                .collect(),
            Kind::DatabaseList => {
                let file = if path == ":memory:" { "" } else { path };
                vec![vec![Value::Int(0), "main".into(), file.into()]]
            }
            Kind::Encoding => vec![vec![
                match header.text_encoding {
                    TextEncoding::Utf8 => "UTF-8",
                    TextEncoding::Utf16Le => "UTF-16le",
                    TextEncoding::Utf16Be => "UTF-16be",
                }
                .into(),
            ]],
            Kind::ForeignKeys => number(0),
            Kind::CompileOptions => Vec::new(),
            Kind::ForeignKeyList => foreign_key_list(schema, &argument),
            Kind::FunctionList => function_list(),
            Kind::ModuleList => {
                ["json_each", "json_tree", "generate_series"].map(|it| vec![it.into()]).to_vec()
            }
            Kind::PragmaList => KINDS.iter().map(|(name, _)| vec![(*name).into()]).collect(),
            Kind::Unknown => Vec::new(),
            Kind::FreelistCount => number(header.freelist_count.into()),
            Kind::IndexInfo => index_info(schema, &argument, false),
            Kind::IndexList => index_list(schema, &argument),
            Kind::IndexXinfo => index_info(schema, &argument, true),
            Kind::IntegrityCheck | Kind::QuickCheck => {
                let count = argument.parse::<usize>().ok();
                let only = if given && count.is_none() { Some(argument.as_str()) } else { None };
                let limit = count.filter(|count| *count > 0).unwrap_or(integrity::FINDINGS_MAX);
                let quick = self == Kind::QuickCheck;
                integrity::check(schema, transaction, only, limit, quick)?
            }
            Kind::JournalMode => vec![vec!["delete".into()]],
            Kind::PageCount => number(transaction.page_count().into()),
            Kind::PageSize => number(header.page_size.into()),
            Kind::SchemaVersion => number(header.schema_cookie.into()),
            Kind::TableInfo => table_info(schema, &argument, false),
            Kind::TableList => table_list(schema, given.then_some(argument.as_str())),
            Kind::TableXinfo => table_info(schema, &argument, true),
            Kind::UserVersion => number(header.user_version.into()),
        })
    }
}

/// An argument as the name that it is.
fn argument_text(argument: Option<&Value>) -> Option<String> {
    match argument? {
        Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::Int(int) => Some(int.to_string()),
        _ => None,
    }
}

/// Pragmas of SQLite that are refused, where any other name means none.
const REFUSED: &[&str] = &[
    "analysis_limit",
    "automatic_index",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "case_sensitive_like",
    "cell_size_check",
    "checkpoint_fullfsync",
    "count_changes",
    "data_store_directory",
    "data_version",
    "default_cache_size",
    "defer_foreign_keys",
    "empty_result_callbacks",
    "foreign_key_check",
    "full_column_names",
    "fullfsync",
    "hard_heap_limit",
    "ignore_check_constraints",
    "incremental_vacuum",
    "journal_size_limit",
    "legacy_alter_table",
    "locking_mode",
    "max_page_count",
    "mmap_size",
    "optimize",
    "query_only",
    "read_uncommitted",
    "recursive_triggers",
    "reverse_unordered_selects",
    "secure_delete",
    "short_column_names",
    "shrink_memory",
    "soft_heap_limit",
    "synchronous",
    "temp_store",
    "temp_store_directory",
    "threads",
    "trusted_schema",
    "wal_autocheckpoint",
    "wal_checkpoint",
    "writable_schema",
];

fn function_list() -> Vec<Vec<Value>> {
    let row = |(name, kind, count, deterministic): (&str, &str, i64, bool)| {
        let flags = 0x0020_0000 | if deterministic { 0x800 } else { 0 };
        vec![name.into(), Value::Int(1), kind.into(), "utf8".into(), count.into(), flags.into()]
    };
    crate::functions::list().into_iter().map(row).collect()
}

fn foreign_key_list(schema: &Schema, name: &str) -> Vec<Vec<Value>> {
    let Some(table) = schema.table(name) else { return Vec::new() };
    let mut rows = Vec::new();
    // The newest comes first, as in SQLite.
    for (id, key) in table.foreign_keys.iter().rev().enumerate() {
        for (seq, column) in key.columns.iter().enumerate() {
            let to = key.parent_columns.get(seq).map_or(Value::Null, |name| name.as_str().into());
            rows.push(vec![
                int(id),
                int(seq),
                key.parent.as_str().into(),
                table.columns[*column].name.as_str().into(),
                to,
                key.on_update.into(),
                key.on_delete.into(),
                "NONE".into(),
            ]);
        }
    }
    rows
}

fn int(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn table_info(schema: &Schema, name: &str, hidden: bool) -> Vec<Vec<Value>> {
    let Some(table) = schema.table(name) else { return view_info(schema, name, hidden) };
    let mut rows = Vec::new();
    for (cid, column) in table.columns.iter().enumerate() {
        let kind = match &column.generated {
            None => 0,
            Some(generated) if generated.stored => 3,
            Some(_) => 2,
        };
        if kind != 0 && !hidden {
            continue;
        }
        let mut row = vec![
            int(if hidden { cid } else { rows.len() }),
            column.name.as_str().into(),
            column.declared_type.as_str().into(),
            column.not_null.into(),
            column.default_text.as_deref().map_or(Value::Null, Value::from),
            int(column.primary_key_place),
        ];
        if hidden {
            row.push(Value::Int(kind));
        }
        rows.push(row);
    }
    rows
}

/// A view's columns, where it can be planned.
fn view_info(schema: &Schema, name: &str, hidden: bool) -> Vec<Vec<Value>> {
    let Some(Object::View(view)) = schema.object(name) else { return Vec::new() };
    let Ok(query) = crate::resolve::Resolver::new(schema).query(&view.select) else {
        return Vec::new();
    };
    let names = |index: usize, own: &str| match &view.columns {
        Some(names) => names.get(index).map_or(own.to_owned(), |name| name.text.clone()),
        None => own.to_owned(),
    };
    let row = |(cid, column): (usize, &crate::resolve::tree::OutputColumn)| {
        let mut row = vec![
            int(cid),
            names(cid, &column.inner_name).into(),
            column.declared_type.as_deref().unwrap_or_default().into(),
            Value::Int(0),
            Value::Null,
            Value::Int(0),
        ];
        if hidden {
            row.push(Value::Int(0));
        }
        row
    };
    query.columns.iter().enumerate().map(row).collect()
}

fn table_list(schema: &Schema, only: Option<&str>) -> Vec<Vec<Value>> {
    let wanted =
        |object: &&Object| only.is_none_or(|name| object.name().eq_ignore_ascii_case(name));
    let row = |object: &Object| {
        let (kind, columns, without_rowid, strict) = match object {
            Object::Table(table) => {
                ("table", table.columns.len(), table.without_rowid, table.strict)
            }
            Object::View(view) => {
                let query = crate::resolve::Resolver::new(schema).query(&view.select);
                ("view", query.map_or(0, |query| query.columns.len()), false, false)
            }
            Object::Virtual { .. } => ("virtual", 0, false, false),
            Object::Damaged { .. } => ("table", 0, false, false),
        };
        vec![
            "main".into(),
            object.name().into(),
            kind.into(),
            int(columns),
            without_rowid.into(),
            strict.into(),
        ]
    };
    schema.objects().iter().filter(wanted).map(row).collect()
}

fn index_list(schema: &Schema, name: &str) -> Vec<Vec<Value>> {
    let Some(table) = schema.table(name) else { return Vec::new() };
    // The newest comes first, as in SQLite.
    let row = |(seq, index): (usize, &Index)| {
        let origin = match index.origin {
            IndexOrigin::Create => "c",
            IndexOrigin::Unique => "u",
            IndexOrigin::PrimaryKey => "pk",
        };
        vec![
            int(seq),
            index.name.as_str().into(),
            index.unique.into(),
            origin.into(),
            index.is_partial().into(),
        ]
    };
    table.indexes.iter().rev().chain(&table.own_index).enumerate().map(row).collect()
}

fn index_info(schema: &Schema, name: &str, extended: bool) -> Vec<Vec<Value>> {
    let Some((table, index)) = schema.index(name) else { return Vec::new() };
    let count = if extended { index.columns.len() } else { index.key_columns };
    let row = |(seqno, column): (usize, &crate::schema::IndexColumn)| {
        let (cid, name) = place(table, &column.source);
        let mut row = vec![int(seqno), Value::Int(cid), name];
        if extended {
            let collation = match &column.collation {
                Ok(collation) => collation_name(*collation).into(),
                Err(name) => name.as_str().into(),
            };
            let key = seqno < index.key_columns;
            row.extend([column.descending.into(), collation, key.into()]);
        }
        row
    };
    index.columns[..count].iter().enumerate().map(row).collect()
}

fn place(table: &Table, source: &IndexSource) -> (i64, Value) {
    match source {
        IndexSource::Column(column) => (
            i64::try_from(*column).unwrap_or(i64::MAX),
            table.columns[*column].name.as_str().into(),
        ),
        IndexSource::Rowid => (-1, Value::Null),
        IndexSource::Expr(_) => (-2, Value::Null),
    }
}

fn collation_name(collation: Collation) -> &'static str {
    match collation {
        Collation::Binary => "BINARY",
        Collation::NoCase => "NOCASE",
        Collation::Rtrim => "RTRIM",
    }
}
