//! Events: changes of a database, told after each commit of anybody.
//!
//! No thread: a program asks ([`Database::poll`]) or waits ([`Database::wait`]). Commits of other
//! connections and processes are found by the file's version; the documents and tables
//! they changed are found on one snapshot: the events of one call are of one state. Several commits
//! between two calls are told as one step.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use shoal_history::ChangeHash;
use shoal_sql::{Statement, TableState, Value, ValueRef};
use shoal_store::Version;

use crate::layout::Layout;
use crate::tables;
use crate::{Database, Error};

/// The pauses between two looks of [`Database::wait`]: they double while nothing happens.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The subject of a watch.
///
/// ```
/// # use shoal::{Database, Environment, Event, Topics};
/// # let mut database = Database::memory(Environment::os())?;
/// # let mut create = database.sql().prepare("CREATE TABLE t (a)")?;
/// # database.sql().execute(&mut create)?;
/// let mut watch = database.watch(Topics::default().all_documents().table("t"))?;
/// let mut insert = database.sql().prepare("INSERT INTO t VALUES (1)")?;
/// database.sql().execute(&mut insert)?;
/// assert_eq!(database.poll(&mut watch)?, [Event::Table { name: "t".to_owned() }]);
/// # Ok::<(), shoal::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Topics {
    all_documents: bool,
    documents: Vec<String>,
    tables: Vec<String>,
    queries: Vec<String>,
}

impl Topics {
    /// Every document, present and to come.
    #[must_use]
    pub fn all_documents(mut self) -> Topics {
        self.all_documents = true;
        self
    }

    /// The document of this name, present or to come.
    #[must_use]
    pub fn document(mut self, name: impl Into<String>) -> Topics {
        self.documents.push(name.into());
        self
    }

    /// The rows of a table, a projection among them.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Topics {
        self.tables.push(name.into());
        self
    }

    /// A query without parameters. The first look gives its rows.
    #[must_use]
    pub fn query(mut self, sql: impl Into<String>) -> Topics {
        self.queries.push(sql.into());
        self
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Changes of a document were stored; a new document has no heads before.
    Document {
        /// Its name.
        name: String,
        /// The heads before, ascending.
        before: Vec<ChangeHash>,
        /// Its heads.
        heads: Vec<ChangeHash>,
    },
    /// A document has another name.
    Renamed {
        /// The name before.
        from: String,
        /// Its name.
        to: String,
    },
    /// A document was removed.
    Removed {
        /// The name before.
        name: String,
    },
    /// Rows of a table changed, or the table came or went.
    Table {
        /// The table.
        name: String,
    },
    /// A query has other rows, or was looked at for the first time.
    Query {
        /// Its place among the queries of the [`Topics`].
        index: usize,
        /// The names of its columns.
        columns: Vec<String>,
        /// All of its rows.
        rows: Vec<Vec<Value>>,
    },
}

/// A subscription: its topics, and the state told last.
#[derive(Debug)]
pub struct Watch {
    topics: Topics,
    /// `None` before the first look.
    version: Option<Version>,
    /// The documents told of, by id.
    documents: BTreeMap<i64, (String, Vec<ChangeHash>)>,
    tables: Vec<(String, TableState)>,
    queries: Vec<LiveQuery>,
}

/// A query, run again after a change of any table behind its rows.
#[derive(Debug)]
struct LiveQuery {
    statement: Statement,
    /// The tables behind the plan for `cookie`; `None` where any may matter.
    reads: Option<Vec<(String, TableState)>>,
    cookie: u32,
    /// A digest of the rows told last.
    told: Option<u64>,
}

impl Database {
    /// Begins to watch. Documents and tables are told of from their present state on.
    ///
    /// Cost: as the first [`Database::poll`].
    ///
    /// # Errors
    /// [`Error::Sql`] for a query impossible to prepare; [`Error::Topic`] for a missing table and
    /// for other statements than queries.
    pub fn watch(&mut self, topics: Topics) -> Result<Watch, Error> {
        let mut queries = Vec::new();
        for sql in &topics.queries {
            let statement = self.connection.prepare(sql)?;
            if statement.column_count() == 0 || !statement.is_read_only() {
                return Err(Error::Topic { why: format!("not a query: {sql}") });
            }
            if statement.parameter_count() > 0 {
                return Err(Error::Topic { why: format!("a query with parameters: {sql}") });
            }
            queries.push(LiveQuery { statement, reads: None, cookie: 0, told: None });
        }
        let schema = self.connection.schema()?;
        if let Some(name) = topics.tables.iter().find(|name| schema.table(name).is_none()) {
            return Err(Error::Topic { why: format!("no such table: {name}") });
        }
        let tables = topics.tables.iter().map(|name| (name.clone(), TableState::default()));
        let mut watch = Watch {
            tables: tables.collect(),
            topics,
            version: None,
            documents: BTreeMap::new(),
            queries,
        };
        // The rows of queries are left to the first look.
        self.snapshot(|database| {
            database.look_at_documents(&mut watch, &mut Vec::new())?;
            database.look_at_tables(&mut watch, &mut Vec::new())
        })?;
        Ok(watch)
    }

    /// The changes since the last call; nothing within a transaction, and while a writer keeps
    /// readers out.
    ///
    /// Cost: a look at the file's version when nobody committed. Otherwise one descent for each
    /// watched document; for a table, a look at the pages written since, or all of the table's
    /// where these are not known ([`shoal_sql::Connection::follow_table`]); a query is run
    /// after changes of the tables behind its rows.
    ///
    /// # Errors
    /// Faults of the tables, and the queries' errors.
    pub fn poll(&mut self, watch: &mut Watch) -> Result<Vec<Event>, Error> {
        match self.look(watch) {
            Err(error) if error.is_busy() => Ok(Vec::new()),
            looked => looked,
        }
    }

    /// As [`Database::poll`], waiting until there is an event, at most `timeout`.
    ///
    /// Latency: up to 20 ms after the commit, 1 ms while events come closely. Commits of other
    /// processes are found by looking at the file: 50 looks a second while nothing happens.
    ///
    /// # Errors
    /// As [`Database::poll`].
    pub fn wait(&mut self, watch: &mut Watch, timeout: Duration) -> Result<Vec<Event>, Error> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let events = self.poll(watch)?;
            let left = timeout.saturating_sub(start.elapsed());
            if !events.is_empty() || left.is_zero() {
                return Ok(events);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn look(&mut self, watch: &mut Watch) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        if self.connection.in_transaction() {
            return Ok(events);
        }
        if let Some(version) = &watch.version
            && !self.connection.is_stale(version)?
        {
            return Ok(events);
        }
        let version = self.snapshot(|database| {
            let version = database.connection.version()?;
            database.look_at_documents(watch, &mut events)?;
            database.look_at_tables(watch, &mut events)?;
            for index in 0..watch.queries.len() {
                events.extend(database.look_at_query(&mut watch.queries[index], index)?);
            }
            Ok(version)
        })?;
        watch.version = Some(version);
        Ok(events)
    }

    fn look_at_tables(&mut self, watch: &mut Watch, events: &mut Vec<Event>) -> Result<(), Error> {
        for (name, state) in &mut watch.tables {
            if self.connection.follow_table(name, state)? {
                events.push(Event::Table { name: name.clone() });
            }
        }
        Ok(())
    }

    fn look_at_documents(
        &mut self,
        watch: &mut Watch,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let topics = &watch.topics;
        if !topics.all_documents && topics.documents.is_empty() {
            return Ok(());
        }
        let connection = &mut self.connection;
        let mut now = BTreeMap::new();
        if Layout::of(connection)? == Layout::Second {
            let rows = match topics.all_documents {
                true => tables::docs(connection)?,
                false => {
                    let mut rows = Vec::new();
                    for name in &topics.documents {
                        rows.extend(tables::find(connection, name)?);
                    }
                    for id in watch.documents.keys() {
                        if !rows.iter().any(|row| row.id == *id) {
                            rows.extend(tables::find_id(connection, *id)?);
                        }
                    }
                    rows
                }
            };
            for row in rows {
                let heads = tables::last(connection, row.id)?.heads;
                now.insert(row.id, (row.name, heads));
            }
        }
        let chosen = |name: &String| topics.all_documents || topics.documents.contains(name);
        for (id, (name, before)) in &watch.documents {
            match now.get(id) {
                None => events.push(Event::Removed { name: name.clone() }),
                Some((new_name, _)) if new_name != name => {
                    events.push(Event::Renamed { from: name.clone(), to: new_name.clone() });
                }
                Some(_) => {}
            }
            if let Some((name, heads)) = now.get(id)
                && heads != before
            {
                let (name, before, heads) = (name.clone(), before.clone(), heads.clone());
                events.push(Event::Document { name, before, heads });
            }
        }
        for (id, (name, heads)) in &now {
            if !watch.documents.contains_key(id) {
                let (name, heads) = (name.clone(), heads.clone());
                events.push(Event::Document { name, before: Vec::new(), heads });
            }
        }
        // A document renamed to a name nobody asked for is told of once more, and no longer.
        now.retain(|_, (name, _)| chosen(name));
        watch.documents = now;
        Ok(())
    }

    fn look_at_query(
        &mut self,
        query: &mut LiveQuery,
        index: usize,
    ) -> Result<Option<Event>, Error> {
        let cookie = self.connection.schema()?.cookie();
        let mut is_due = query.told.is_none() || query.cookie != cookie;
        if let Some(reads) = &mut query.reads {
            // Every table is followed, also behind the first changed one.
            for (table, state) in reads {
                is_due |= self.connection.follow_table(table, state)?;
            }
        } else {
            is_due = true;
        }
        if !is_due {
            return Ok(None);
        }
        let mut hasher = DefaultHasher::new();
        let mut rows = Vec::new();
        let mut found = self.connection.query(&mut query.statement)?;
        while let Some(row) = found.next()? {
            let values: Vec<Value> = row.values().map(owned).collect();
            values.iter().for_each(|value| digest(value, &mut hasher));
            hasher.write_u8(u8::MAX);
            rows.push(values);
        }
        drop(found);
        if query.cookie != cookie || query.told.is_none() {
            query.cookie = cookie;
            let names = query.statement.tables_read();
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            query.reads = match names {
                None => None,
                Some(names) => {
                    let mut reads = Vec::new();
                    for name in names {
                        let mut state = TableState::default();
                        self.connection.follow_table(&name, &mut state)?;
                        reads.push((name, state));
                    }
                    Some(reads)
                }
            };
        }
        let digest = hasher.finish();
        if query.told.replace(digest) == Some(digest) {
            return Ok(None);
        }
        let columns = query.statement.column_names().to_vec();
        Ok(Some(Event::Query { index, columns, rows }))
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Int(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(text.into()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.into()),
    }
}

/// Adds a value to a digest of rows.
fn digest(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Int(value) => (1_u8, value).hash(hasher),
        Value::Real(value) => (2_u8, value.to_bits()).hash(hasher),
        Value::Text(text) => (3_u8, text).hash(hasher),
        Value::Blob(bytes) => (4_u8, bytes).hash(hasher),
    }
}
