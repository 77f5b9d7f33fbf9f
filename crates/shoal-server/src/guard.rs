//! Statements let in at a door to one file: statements reading anything, and where writing is on,
//! statements writing to this file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_sql::{Access, Authorization, Connection};

/// Ways on from refusals at one door, told with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Behind a refused change.
    pub to_write: &'static str,
    /// Behind a refused beginning or end of a transaction.
    pub to_transact: &'static str,
}

/// The guard of one connection, shared with whoever explains its refusals.
#[derive(Clone)]
pub struct Guard(Arc<Shared>);

struct Shared {
    ways: Ways,
    /// The sentence of the last refusal.
    words: Mutex<Option<String>>,
    /// True while this server's own work runs, which may begin and end savepoints.
    is_own_work: AtomicBool,
}

impl Guard {
    /// A guard that tells these ways on.
    pub fn new(ways: Ways) -> Guard {
        let (words, is_own_work) = (Mutex::default(), AtomicBool::new(false));
        Guard(Arc::new(Shared { ways, words, is_own_work }))
    }

    /// The refusal of a statement as a sentence, in the place of "not authorized".
    pub fn refusal(&self, error: &shoal_sql::Error) -> Option<String> {
        let words = self.words().take();
        match error {
            shoal_sql::Error::Denied { .. } => words,
            _ => None,
        }
    }

    /// Runs work of this server's own, whose statements may begin and end savepoints.
    pub fn own_work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.is_own_work.store(true, Ordering::Relaxed);
        let done = work();
        self.0.is_own_work.store(false, Ordering::Relaxed);
        done
    }

    /// Asks the guard about every statement prepared by a connection from now on.
    pub fn watch(&self, connection: &mut Connection, is_writable: bool) {
        // A question ended by a panic left its mark.
        self.0.is_own_work.store(false, Ordering::Relaxed);
        let guard = self.clone();
        connection.set_authorizer(Some(Box::new(move |access| {
            let is_own = guard.0.is_own_work.load(Ordering::Relaxed);
            match refused(access, is_writable, guard.0.ways) {
                None => Authorization::Allow,
                Some(_) if is_own && matches!(access, Access::Transaction { .. }) => {
                    Authorization::Allow
                }
                words => {
                    *guard.words() = words;
                    Authorization::Deny
                }
            }
        })));
    }

    fn words(&self) -> MutexGuard<'_, Option<String>> {
        self.0.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `PRAGMA`s about the schema, or checks of the file; their argument is a name.
const TELLING: [&str; 15] = [
    "collation_list",
    "compile_options",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "module_list",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Settings open to readers.
const SETTINGS: [&str; 13] = [
    "application_id",
    "auto_vacuum",
    "cache_size",
    "data_version",
    "encoding",
    "foreign_keys",
    "freelist_count",
    "journal_mode",
    "page_count",
    "page_size",
    "recursive_triggers",
    "schema_version",
    "user_version",
];

/// Settings open to writers where writing is on: each touches this file alone.
const WRITABLE: [&str; 4] =
    ["application_id", "foreign_keys", "recursive_triggers", "user_version"];

/// The refusal of an access; `None` where access is given.
fn refused(access: &Access<'_>, is_writable: bool, ways: Ways) -> Option<String> {
    let read_only =
        |what: &str| Some(format!("{what} is refused: this server only reads. {}", ways.to_write));
    match access {
        Access::Select | Access::Read { .. } | Access::Function { .. } => None,
        Access::Insert { table, .. } if !is_writable => read_only(&format!("INSERT into {table}")),
        Access::Update { table, .. } if !is_writable => read_only(&format!("UPDATE of {table}")),
        Access::Delete { table, .. } if !is_writable => read_only(&format!("DELETE from {table}")),
        Access::Define { what, .. } if !is_writable => read_only(what),
        Access::Insert { .. }
        | Access::Update { .. }
        | Access::Delete { .. }
        | Access::Define { .. } => None,
        Access::Pragma { name, sets } => {
            let is_in = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
            let is_allowed = is_in(&TELLING)
                || is_in(&SETTINGS) && !sets
                || is_in(&WRITABLE) && *sets && is_writable;
            if is_allowed {
                return None;
            }
            Some(format!(
                "PRAGMA {name} is refused{}: allowed are {}; and to read {}",
                if *sets && is_in(&SETTINGS) { " with a value" } else { "" },
                TELLING.join(", "),
                SETTINGS.join(", ")
            ))
        }
        Access::File { what } => Some(format!(
            "{what} is refused: this server reaches one file, and makes no others. Whoever started \
             it can do so with shoal sql"
        )),
        Access::Transaction { what } => Some(format!(
            "{what} is refused: every call is a transaction of its own. {}",
            ways.to_transact
        )),
        _ => Some("the statement is of a kind that this server does not know".to_owned()),
    }
}
