//! The `PRAGMA`s: those that read, and the two that set a number in the header. Those that change
//! how an open file is used are in [`super::store_pragma`].

use shoal_store::{JournalMode, Rollback, TextEncoding, Transaction};

use super::store_pragma::{
    busy_timeout_ms, journal_mode_name, secure_delete_number, synchronous_number,
};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{Name, ObjectName, PragmaArgument};
use crate::schema::{
    Flags, Index, IndexOrigin, IndexSource, MAIN, NarrowedTable, Object, Schema, TEMP, Table, Txns,
    VirtualColumn, VirtualDefinition,
};
use crate::value::{Value, to_int};
use crate::write::{foreign_keys, integrity};

/// A `PRAGMA` statement.
#[derive(Clone, Debug)]
pub(crate) struct Pragma {
    kind: Kind,
    database: Option<Name>,
    argument: Option<Value>,
}

/// What a `PRAGMA` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ApplicationId,
    AutoVacuum,
    BusyTimeout,
    CacheSize,
    CollationList,
    CompileOptions,
    DataVersion,
    DatabaseList,
    DeferForeignKeys,
    Encoding,
    ForeignKeyCheck,
    ForeignKeyList,
    ForeignKeys,
    IncrementalVacuum,
    /// A setting that Shoal does not have: what it does instead of having it, as SQLite's number.
    Fixed(&'static [&'static str; 1], i64),
    FreelistCount,
    FunctionList,
    IndexInfo,
    IndexList,
    IndexXinfo,
    IntegrityCheck,
    JournalMode,
    LockingMode,
    ModuleList,
    PageCount,
    PageSize,
    PragmaList,
    QuickCheck,
    RecursiveTriggers,
    SchemaVersion,
    SecureDelete,
    Synchronous,
    TableInfo,
    TableList,
    TableXinfo,
    TempStore,
    UserVersion,
    WalAutocheckpoint,
    WalCheckpoint,
    WritableSchema,
    /// The key of a sealed file; true for another key.
    Key(bool),
    /// The same in hexadecimal.
    HexKey(bool),
    /// A setting of a sealed file's format.
    CodecSetting(&'static str),
    /// One that does not exist, which SQLite answers with no rows.
    Unknown,
}

const KINDS: &[(&str, Kind)] = &[
    ("analysis_limit", Kind::Fixed(&["analysis_limit"], 0)),
    ("application_id", Kind::ApplicationId),
    ("auto_vacuum", Kind::AutoVacuum),
    // Joins make an index of their own where there is none.
    ("automatic_index", Kind::Fixed(&["automatic_index"], 1)),
    ("busy_timeout", Kind::BusyTimeout),
    ("cache_size", Kind::CacheSize),
    ("cache_spill", Kind::Fixed(&["cache_spill"], 0)),
    // The cells of a page are checked whenever they are read.
    ("cell_size_check", Kind::Fixed(&["cell_size_check"], 1)),
    ("checkpoint_fullfsync", Kind::Fixed(&["checkpoint_fullfsync"], 0)),
    ("collation_list", Kind::CollationList),
    ("compile_options", Kind::CompileOptions),
    ("count_changes", Kind::Fixed(&["count_changes"], 0)),
    ("data_version", Kind::DataVersion),
    ("database_list", Kind::DatabaseList),
    ("defer_foreign_keys", Kind::DeferForeignKeys),
    ("empty_result_callbacks", Kind::Fixed(&["empty_result_callbacks"], 0)),
    ("encoding", Kind::Encoding),
    ("foreign_key_check", Kind::ForeignKeyCheck),
    ("foreign_key_list", Kind::ForeignKeyList),
    ("foreign_keys", Kind::ForeignKeys),
    ("freelist_count", Kind::FreelistCount),
    ("full_column_names", Kind::Fixed(&["full_column_names"], 0)),
    ("fullfsync", Kind::Fixed(&["fullfsync"], 0)),
    ("function_list", Kind::FunctionList),
    ("hard_heap_limit", Kind::Fixed(&["hard_heap_limit"], 0)),
    ("ignore_check_constraints", Kind::Fixed(&["ignore_check_constraints"], 0)),
    ("incremental_vacuum", Kind::IncrementalVacuum),
    ("index_info", Kind::IndexInfo),
    ("index_list", Kind::IndexList),
    ("index_xinfo", Kind::IndexXinfo),
    ("integrity_check", Kind::IntegrityCheck),
    ("hexkey", Kind::HexKey(false)),
    ("hexrekey", Kind::HexKey(true)),
    ("journal_mode", Kind::JournalMode),
    ("journal_size_limit", Kind::Fixed(&["journal_size_limit"], -1)),
    ("key", Kind::Key(false)),
    ("legacy_alter_table", Kind::Fixed(&["legacy_alter_table"], 0)),
    ("locking_mode", Kind::LockingMode),
    ("max_page_count", Kind::Fixed(&["max_page_count"], 4_294_967_294)),
    ("module_list", Kind::ModuleList),
    ("page_count", Kind::PageCount),
    ("page_size", Kind::PageSize),
    ("pragma_list", Kind::PragmaList),
    ("query_only", Kind::Fixed(&["query_only"], 0)),
    ("quick_check", Kind::QuickCheck),
    ("read_uncommitted", Kind::Fixed(&["read_uncommitted"], 0)),
    ("recursive_triggers", Kind::RecursiveTriggers),
    ("rekey", Kind::Key(true)),
    ("reverse_unordered_selects", Kind::Fixed(&["reverse_unordered_selects"], 0)),
    ("schema_version", Kind::SchemaVersion),
    ("secure_delete", Kind::SecureDelete),
    ("short_column_names", Kind::Fixed(&["short_column_names"], 1)),
    ("soft_heap_limit", Kind::Fixed(&["soft_heap_limit"], 0)),
    ("synchronous", Kind::Synchronous),
    ("table_info", Kind::TableInfo),
    ("table_list", Kind::TableList),
    ("table_xinfo", Kind::TableXinfo),
    ("temp_store", Kind::TempStore),
    ("threads", Kind::Fixed(&["threads"], 0)),
    ("trusted_schema", Kind::Fixed(&["trusted_schema"], 1)),
    ("user_version", Kind::UserVersion),
    ("wal_autocheckpoint", Kind::WalAutocheckpoint),
    ("wal_checkpoint", Kind::WalCheckpoint),
    ("writable_schema", Kind::WritableSchema),
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
        let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(text));
        let kind = known.map(|(_, kind)| *kind);
        let kind = match kind {
            Some(kind) => kind,
            None if REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(text)) => {
                return Err(unsupported(format!("PRAGMA {text}")));
            }
            None => codec_setting(text).unwrap_or(Kind::Unknown),
        };
        let argument_value = argument.map(|argument| argument.value.clone());
        let database = name.database.clone();
        let pragma = Pragma { kind, database, argument: argument_value };
        let settable = match kind {
            Kind::ApplicationId | Kind::UserVersion | Kind::DatabaseList | Kind::CollationList => {
                true
            }
            Kind::IndexInfo | Kind::IndexList | Kind::IndexXinfo | Kind::ForeignKeyList => true,
            Kind::CompileOptions | Kind::FunctionList | Kind::ModuleList | Kind::PragmaList => true,
            Kind::Unknown | Kind::IntegrityCheck | Kind::QuickCheck => true,
            Kind::ForeignKeyCheck | Kind::RecursiveTriggers | Kind::WritableSchema => true,
            Kind::TableInfo | Kind::TableList | Kind::TableXinfo => true,
            Kind::JournalMode | Kind::Synchronous | Kind::BusyTimeout => true,
            Kind::WalAutocheckpoint | Kind::WalCheckpoint => true,
            Kind::PageSize | Kind::Encoding => true,
            Kind::CacheSize | Kind::SecureDelete | Kind::TempStore => true,
            Kind::AutoVacuum | Kind::IncrementalVacuum => true,
            Kind::Key(_) | Kind::HexKey(_) | Kind::CodecSetting(_) => true,
            Kind::LockingMode => pragma.argument_is("normal"),
            Kind::Fixed(_, number) => pragma.argument_is(&number.to_string()),
            Kind::ForeignKeys | Kind::DeferForeignKeys => true,
            _ => false,
        };
        match argument {
            Some(argument) if !settable => {
                Err(Error::unsupported(format!("setting PRAGMA {text}"), argument.offset))
            }
            _ => Ok(pragma),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn database(&self) -> Option<&Name> {
        self.database.as_ref()
    }

    pub(super) fn argument(&self) -> Option<&Value> {
        self.argument.as_ref()
    }

    pub(super) fn argument_is(&self, word: &str) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    pub(super) fn text(&self) -> Option<String> {
        match self.argument.as_ref()? {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Value::Int(int) => Some(int.to_string()),
            _ => None,
        }
    }

    /// The database whose [`Kind::DataVersion`] is asked for, which the connection knows.
    ///
    /// # Errors
    /// A database that does not exist.
    pub(crate) fn data_version_of(&self, schema: &Schema) -> Result<Option<usize>, Error> {
        if self.kind != Kind::DataVersion {
            return Ok(None);
        }
        let name = self.database.as_ref().map_or("main", |name| name.text.as_str());
        let database = schema.database(name).ok_or_else(|| unknown_database(name))?;
        // Nobody commits to `temp`.
        Ok(Some(database).filter(|database| *database != TEMP))
    }

    /// The argument as a switch, as SQLite reads words and numbers.
    pub(super) fn is_on(&self) -> bool {
        let word = self.text().unwrap_or_default().to_ascii_lowercase();
        let number = word.parse::<i64>().is_ok_and(|number| number != 0);
        number || ["on", "yes", "true"].contains(&word.as_str())
    }

    /// `Some` for `PRAGMA defer_foreign_keys`, with the value set.
    pub(crate) fn defers_all(&self) -> Option<Option<bool>> {
        let is = self.kind == Kind::DeferForeignKeys;
        is.then(|| self.argument.is_some().then(|| self.is_on()))
    }

    /// True for flags fixed within a transaction.
    pub(crate) fn is_fixed_in_transaction(&self) -> bool {
        self.kind == Kind::ForeignKeys
    }

    /// What the connection's pragmas set once this one did, where it sets one of those.
    pub(crate) fn flags(&self, mut flags: Flags) -> Option<Flags> {
        self.argument.as_ref()?;
        match self.kind {
            Kind::ForeignKeys => flags.foreign_keys = self.is_on(),
            Kind::RecursiveTriggers => flags.recursive_triggers = self.is_on(),
            Kind::WritableSchema => flags.writable_schema = self.is_on(),
            _ => return None,
        }
        Some(flags)
    }

    /// The number of the database to write to.
    ///
    /// # Errors
    /// An unknown database.
    pub(crate) fn home(&self, schema: &Schema) -> Result<usize, Error> {
        let name = self.database.as_ref().map_or("main", |name| name.text.as_str());
        schema.database(name).ok_or_else(|| unknown_database(name))
    }

    /// Whether it sets something in the file.
    pub(crate) fn writes(&self) -> bool {
        match self.kind {
            Kind::ApplicationId | Kind::UserVersion => self.argument.is_some(),
            Kind::IncrementalVacuum => true,
            _ => false,
        }
    }

    /// True for `PRAGMA journal_mode = ...`: the mode may be kept in the file, made for its sake.
    pub(crate) fn sets_journal_mode(&self) -> bool {
        self.kind == Kind::JournalMode && self.argument.is_some()
    }

    /// True for `PRAGMA key` and those beside it: a file without content may be made sealed.
    pub(crate) fn sets_key(&self) -> bool {
        matches!(self.kind, Kind::Key(_) | Kind::HexKey(_))
    }

    /// The names of the result's columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        let names: &[&str] = match self.kind {
            _ if self.writes() || self.flags(Flags::default()).is_some() => &[],
            Kind::DeferForeignKeys
            | Kind::Synchronous
            | Kind::PageSize
            | Kind::Encoding
            | Kind::CacheSize
            | Kind::TempStore
            | Kind::AutoVacuum
                if self.argument.is_some() =>
            {
                &[]
            }
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
            // Without a number, and for less than 1, all pages go.
            Kind::IncrementalVacuum => {
                let most = u32::try_from(value.clamp(0, i64::from(u32::MAX))).unwrap_or(0);
                transaction.incremental_vacuum(most)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The rows.
    ///
    /// # Errors
    /// The store's; a database that does not exist.
    pub(crate) fn rows(&self, schema: &Schema, txns: Txns<'_>) -> Result<Vec<Vec<Value>>, Error> {
        let database = self.database.as_ref().map(|name| name.text.as_str());
        self.kind.rows(self.argument.as_ref(), database, schema, txns)
    }
}

/// Settings of sealed files' formats, by the names of the programs that made these formats.
const CODEC_SETTINGS: &[&str] = &[
    "algorithm",
    "cipher",
    "cipher_compatibility",
    "cipher_default_compatibility",
    "cipher_default_kdf_iter",
    "cipher_default_page_size",
    "cipher_hmac_algorithm",
    "cipher_hmac_pgno",
    "cipher_hmac_salt_mask",
    "cipher_kdf_algorithm",
    "cipher_page_size",
    "cipher_plaintext_header_size",
    "cipher_salt",
    "cipher_use_hmac",
    "fast_kdf_iter",
    "hmac_algorithm",
    "hmac_pgno",
    "hmac_salt_mask",
    "hmac_use",
    "kdf_algorithm",
    "kdf_iter",
    "legacy",
    "legacy_page_size",
    "mcost",
    "pcost",
    "plaintext_header_size",
    "tcost",
];

fn codec_setting(text: &str) -> Option<Kind> {
    let known = CODEC_SETTINGS.iter().find(|known| known.eq_ignore_ascii_case(text))?;
    Some(Kind::CodecSetting(known))
}

impl Kind {
    /// The pragma called `name`, in any case.
    pub(super) fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// True where the rows are about the schema of the statement, or about the program.
    pub(super) fn is_of_narrowed(self) -> bool {
        matches!(
            self,
            Kind::CollationList
                | Kind::CompileOptions
                | Kind::FunctionList
                | Kind::TableInfo
                | Kind::TableList
                | Kind::TableXinfo
        )
    }

    /// The pragmas that are table-valued functions, too, with their names.
    pub(crate) fn of_tables() -> impl Iterator<Item = (&'static str, Kind)> {
        // What the connection alone can tell has no rows within a query.
        let alone = [
            Kind::DataVersion,
            Kind::DeferForeignKeys,
            Kind::WalCheckpoint,
            Kind::IncrementalVacuum,
        ];
        KINDS.iter().copied().filter(move |(_, kind)| !alone.contains(kind))
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
                | Kind::ForeignKeyCheck
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
            Kind::IncrementalVacuum => &[],
            Kind::BusyTimeout => &["timeout"],
            Kind::CacheSize => &["cache_size"],
            Kind::SecureDelete => &["secure_delete"],
            Kind::TempStore => &["temp_store"],
            Kind::Fixed(names, _) => names,
            Kind::Key(_) | Kind::HexKey(_) => &["ok"],
            Kind::CodecSetting(_) => &["setting"],
            Kind::LockingMode => &["locking_mode"],
            Kind::CollationList => &["seq", "name"],
            Kind::CompileOptions => &["compile_options"],
            Kind::DataVersion => &["data_version"],
            Kind::DatabaseList => &["seq", "name", "file"],
            Kind::DeferForeignKeys => &["defer_foreign_keys"],
            Kind::Encoding => &["encoding"],
            Kind::ForeignKeyCheck => &["table", "rowid", "parent", "fkid"],
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
            Kind::RecursiveTriggers => &["recursive_triggers"],
            Kind::SchemaVersion => &["schema_version"],
            Kind::Synchronous => &["synchronous"],
            Kind::WalAutocheckpoint => &["wal_autocheckpoint"],
            Kind::WalCheckpoint => &["busy", "log", "checkpointed"],
            Kind::WritableSchema => &["writable_schema"],
            Kind::TableInfo => &["cid", "name", "type", "notnull", "dflt_value", "pk"],
            Kind::TableList => &["schema", "name", "type", "ncol", "wr", "strict"],
            Kind::TableXinfo => &["cid", "name", "type", "notnull", "dflt_value", "pk", "hidden"],
            Kind::Unknown => &[],
            Kind::UserVersion => &["user_version"],
        }
    }

    /// The rows for an argument, of one database or of whichever has what the argument names.
    ///
    /// # Errors
    /// The store's; a database that does not exist.
    pub(crate) fn rows(
        self,
        argument: Option<&Value>,
        database: Option<&str>,
        schema: &Schema,
        txns: Txns<'_>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let whole = schema;
        let number = |number: i64| vec![vec![Value::Int(number)]];
        let name = argument_text(argument);
        let given = argument.is_some();
        let argument = name.unwrap_or_default();
        let only = match database {
            Some(name) => Some(whole.database(name).ok_or_else(|| unknown_database(name))?),
            None => None,
        };
        let mut all: Vec<_> = whole.databases().collect();
        all.sort_by_key(|(number, ..)| *number != TEMP);
        let owner = all.into_iter().find(|(_, _, schema)| match self {
            Kind::IndexInfo | Kind::IndexXinfo => schema.index(&argument).is_some(),
            _ => schema.object(&argument).is_some(),
        });
        let owner = owner.filter(|_| given).map_or(MAIN, |(number, ..)| number);
        let database = only.unwrap_or(owner);
        let Some(schema) = whole.of_database(database) else {
            // There is nothing in `temp` but a schema.
            let listed = self == Kind::TableList && (!given || is_temporary_schema(&argument));
            return Ok(if listed { vec![temporary_schema()] } else { Vec::new() });
        };
        let transaction = txns.of(database)?;
        let header = transaction.header();
        Ok(match self {
            Kind::ApplicationId => number(header.application_id.cast_signed().into()),
            Kind::AutoVacuum => number(match (header.largest_root, header.incremental_vacuum) {
                (0, _) => 0,
                (_, 0) => 1,
                _ => 2,
            }),
            Kind::BusyTimeout => number(busy_timeout_ms(&transaction.settings())),
            Kind::CacheSize => number(transaction.cache_size()),
            Kind::SecureDelete => number(secure_delete_number(transaction.secure_delete())),
            Kind::TempStore => number(txns.of(MAIN)?.temp_store().into()),
            Kind::LockingMode => {
                let exclusive = schema.settings().exclusive;
                vec![vec![if exclusive { "exclusive" } else { "normal" }.into()]]
            }
            Kind::Fixed(_, value) => number(value),
            Kind::CollationList => whole
                .own()
                .collations()
                .iter()
                .rev()
                .map(|own| own.name())
                .chain(["RTRIM", "NOCASE", "BINARY"])
                .enumerate()
                .map(|(seq, name)| vec![int(seq), name.into()])
                .collect(),
            Kind::DatabaseList => whole
                .databases()
                .map(|(seq, name, schema)| vec![int(seq), name.into(), schema.file().into()])
                .collect(),
            Kind::Encoding => vec![vec![
                match header.text_encoding {
                    TextEncoding::Utf8 => "UTF-8",
                    TextEncoding::Utf16Le => "UTF-16le",
                    TextEncoding::Utf16Be => "UTF-16be",
                }
                .into(),
            ]],
            Kind::ForeignKeys => number(whole.flags().foreign_keys.into()),
            Kind::CompileOptions | Kind::DataVersion | Kind::DeferForeignKeys => Vec::new(),
            Kind::ForeignKeyCheck => {
                let only = given.then_some(argument.as_str());
                foreign_keys::check(schema, transaction, only)?
            }
            Kind::ForeignKeyList => foreign_key_list(schema, &argument),
            Kind::FunctionList => function_list(whole.own()),
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
                let table = if given && count.is_none() { Some(argument.as_str()) } else { None };
                let limit = count.filter(|count| *count > 0).unwrap_or(integrity::FINDINGS_MAX);
                let quick = self == Kind::QuickCheck;
                let mut rows = Vec::new();
                for (number, ..) in whole.databases() {
                    if only.map_or(table.is_none() || number == owner, |only| only == number) {
                        rows.extend(integrity::check(whole, txns, number, table, limit, quick)?);
                    }
                }
                // One "ok" says it for all.
                let fine = |row: &Vec<Value>| row == &[Value::text("ok")];
                if rows.iter().all(fine) {
                    rows.truncate(1);
                } else {
                    rows.retain(|row| !fine(row));
                }
                rows
            }
            Kind::JournalMode => {
                let mode = match (header.is_wal(), transaction.settings().rollback) {
                    (true, _) => JournalMode::Wal,
                    (false, Rollback::Off) => JournalMode::Rollback(Rollback::Off),
                    (false, _) if schema.file().is_empty() => {
                        JournalMode::Rollback(Rollback::Memory)
                    }
                    (false, rollback) => JournalMode::Rollback(rollback),
                };
                vec![vec![journal_mode_name(mode).into()]]
            }
            Kind::Synchronous => number(synchronous_number(transaction.settings().synchronous)),
            Kind::WalAutocheckpoint => number(transaction.settings().wal_autocheckpoint.into()),
            Kind::WalCheckpoint => Vec::new(),
            Kind::WritableSchema => number(whole.flags().writable_schema.into()),
            Kind::PageCount => number(transaction.page_count().into()),
            Kind::PageSize => number(header.page_size.into()),
            Kind::RecursiveTriggers => number(whole.flags().recursive_triggers.into()),
            Kind::SchemaVersion => number(header.schema_cookie.into()),
            Kind::TableInfo => table_info(schema, &argument, false),
            Kind::TableList => {
                let wanted =
                    |(number, ..): &(usize, &str, &Schema)| only.is_none_or(|only| only == *number);
                let table = given.then_some(argument.as_str());
                let mut rows = Vec::new();
                for (_, name, schema) in whole.databases().filter(wanted) {
                    rows.extend(table_list(name, schema, table));
                }
                let has_temp = whole.of_database(TEMP).is_some();
                if !has_temp && only.is_none() && table.is_none_or(is_temporary_schema) {
                    // Behind the first database's, whatever is in it.
                    let other = |row: &Vec<Value>| row[0] != Value::text("main");
                    let place = rows.iter().position(other).unwrap_or(rows.len());
                    rows.insert(place, temporary_schema());
                }
                rows
            }
            Kind::TableXinfo => table_info(schema, &argument, true),
            Kind::UserVersion => number(header.user_version.into()),
            Kind::IncrementalVacuum | Kind::Key(_) | Kind::HexKey(_) | Kind::CodecSetting(_) => {
                Vec::new()
            }
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
    "case_sensitive_like",
    "data_store_directory",
    "default_cache_size",
    "mmap_size",
    "optimize",
    "shrink_memory",
    "temp_store_directory",
];

pub(super) fn unknown_database(name: &str) -> Error {
    let message = format!("unknown database {name}");
    Error::Name { kind: NameKind::Database, message, offset: None }
}

fn function_list(own: &crate::functions::Own) -> Vec<Vec<Value>> {
    let row = |(name, kind, count, deterministic): (&str, &str, i64, bool)| {
        let flags = 0x0020_0000 | if deterministic { 0x800 } else { 0 };
        vec![name.into(), Value::Int(1), kind.into(), "utf8".into(), count.into(), flags.into()]
    };
    let mut rows: Vec<Vec<Value>> = crate::functions::list().into_iter().map(row).collect();
    rows.extend(own.list().map(|(name, kind, count, flags)| {
        let direct_only = if flags.direct_only { 0x8_0000 } else { 0 };
        let flags = direct_only | if flags.deterministic { 0x800 } else { 0 };
        vec![name.into(), Value::Int(0), kind.into(), "utf8".into(), count.into(), flags.into()]
    }));
    rows
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
    if let Some(Object::Virtual(definition)) = schema.object(name) {
        return virtual_info(schema, definition, hidden);
    }
    if let Some(Object::Narrowed(table)) = schema.object(name) {
        return narrowed_info(table, hidden);
    }
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

/// The visible columns of a narrowed table. Constraints are no part of what is granted.
fn narrowed_info(table: &NarrowedTable, hidden: bool) -> Vec<Vec<Value>> {
    let row = |(cid, shown): (usize, &crate::schema::NarrowedColumn)| {
        let column = &table.table.columns[shown.column];
        let (name, declared) = (column.name.as_str().into(), column.declared_type.as_str().into());
        let key = table.names_rowid(shown).into();
        let mut row = vec![int(cid), name, declared, Value::Int(0), Value::Null, key];
        if hidden {
            row.push(Value::Int(0));
        }
        row
    };
    table.columns.iter().enumerate().map(row).collect()
}

/// The columns of a virtual table, where its module opens it.
fn virtual_info(schema: &Schema, table: &VirtualDefinition, hidden: bool) -> Vec<Vec<Value>> {
    let columns = table.columns_in(schema).unwrap_or_default();
    let shown = columns.into_iter().filter(|column| hidden || !column.hidden).enumerate();
    let row = |(cid, column): (usize, VirtualColumn)| {
        let (name, declared) = (column.name.into(), column.declared_type.into());
        let mut row = vec![int(cid), name, declared, Value::Int(0), Value::Null, Value::Int(0)];
        if hidden {
            row.push(Value::Int(column.hidden.into()));
        }
        row
    };
    shown.map(row).collect()
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

/// The row of the temporary schema among all tables.
fn temporary_schema() -> Vec<Value> {
    let names = ["temp", "sqlite_temp_schema", "table"].into_iter().map(Value::from);
    names.chain([Value::Int(5), Value::Int(0), Value::Int(0)]).collect()
}

/// Whether a name is the oldest of the temporary schema, by which `PRAGMA table_list` knows it.
fn is_temporary_schema(name: &str) -> bool {
    name.eq_ignore_ascii_case("sqlite_temp_master")
}

fn table_list(database: &str, schema: &Schema, only: Option<&str>) -> Vec<Vec<Value>> {
    // The schema goes by its oldest name here.
    let is_temp = database == "temp";
    let known = |object: &Object| match object.name() {
        "sqlite_schema" if is_temp => "sqlite_temp_master".to_owned(),
        "sqlite_schema" => "sqlite_master".to_owned(),
        name => name.to_owned(),
    };
    let shown = |object: &Object| match object.name() {
        "sqlite_schema" if is_temp => "sqlite_temp_schema".to_owned(),
        name => name.to_owned(),
    };
    let wanted = |object: &&Object| match object {
        Object::Narrowed(table) if !table.is_listed => false,
        Object::View(view) if !view.is_listed => false,
        object => only.is_none_or(|name| known(object).eq_ignore_ascii_case(name)),
    };
    let row = |object: &Object| {
        let (kind, columns, without_rowid, strict) = match object {
            Object::Table(table) => {
                ("table", table.columns.len(), table.without_rowid, table.strict)
            }
            Object::View(view) => {
                let query = crate::resolve::Resolver::new(schema).query(&view.select);
                ("view", query.map_or(0, |query| query.columns.len()), false, false)
            }
            Object::Virtual(known) => {
                let columns = known.columns_in(schema).map_or(0, |columns| columns.len());
                ("virtual", columns, false, false)
            }
            Object::Narrowed(table) => ("table", table.columns.len(), false, false),
            Object::Damaged { .. } => ("table", 0, false, false),
        };
        vec![
            database.into(),
            shown(object).into(),
            kind.into(),
            int(columns),
            without_rowid.into(),
            strict.into(),
        ]
    };
    // The newest comes first, as in SQLite.
    schema.objects().iter().rev().filter(wanted).map(row).collect()
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
                Ok(collation) => collation.name().into(),
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
