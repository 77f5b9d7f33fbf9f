//! The database of the tests, servers of it, and clients.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_schema::SchemaRef;
use futures_util::TryStreamExt;
use shoal::{Access, Database, Environment};
use shoal_arrow::Cells;
use shoal_flight::{DoorOptions, FlightServer, Options, serve};
use shoal_sql::Value;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = FlightSqlServiceClient<Channel>;

const TABLES: &str = "
    CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT NOT NULL, founded DATE);
    CREATE TABLE item (id INTEGER PRIMARY KEY, maker INTEGER REFERENCES maker (id) ON DELETE CASCADE,
                       name VARCHAR(20) NOT NULL, price REAL, photo BLOB, sold NUMERIC, tag);
    CREATE TABLE pair (a INTEGER, b TEXT, PRIMARY KEY (b, a)) WITHOUT ROWID;
    CREATE TABLE big (n INTEGER PRIMARY KEY, s TEXT);
    CREATE TABLE odd (n INTEGER);
    CREATE TABLE \"odd \"\"name\" (\"a b\" TEXT);
    CREATE VIEW dear AS SELECT name, price * 2 AS twice FROM item WHERE price > 1;
    CREATE VIRTUAL TABLE note USING fts5 (title, body);
    INSERT INTO maker VALUES (1, 'Ada', '1815-12-10'), (2, 'Grace', '1906-12-09');
    INSERT INTO item VALUES (1, 1, 'bolt', 0.5, x'00ff', 12, 'plain'),
                            (2, 1, 'nut', 2.25, NULL, 12.5, 7),
                            (3, 2, 'żuraw', NULL, x'', NULL, x'01'),
                            (9007199254740993, NULL, '', 1e300, zeroblob(100), 0, NULL);
    INSERT INTO pair VALUES (1, 'x'), (2, 'x');
    INSERT INTO odd VALUES (1), ('two');
    INSERT INTO note VALUES ('Engines', 'the analytical engine weaves patterns');
    WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000)
    INSERT INTO big SELECT x, 'row ' || x FROM c;
";

/// A folder with `sample.db`.
pub(crate) struct Sample {
    folder: TempDir,
}

impl Sample {
    pub(crate) fn new() -> Sample {
        Sample::made_in(&Environment::os())
    }

    /// The same, its files made by `environment`: sealed by its keys, if it has some.
    pub(crate) fn made_in(environment: &Environment) -> Sample {
        let sample = Sample { folder: tempfile::tempdir().unwrap() };
        let opened = Database::open(environment.clone(), &sample.path(), Access::Create);
        let mut database = opened.unwrap();
        for range in shoal_sql::Statements::new(TABLES) {
            run(&mut database, &TABLES[range]);
        }
        sample
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("sample.db")
    }

    /// Writes to the file as another program would.
    pub(crate) fn write(&self, sql: &str) {
        let opened = Database::open(Environment::os(), &self.path(), Access::ReadWrite);
        run(&mut opened.unwrap(), sql);
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(Environment::os(), self.path())
    }

    /// A server of everything for everybody.
    pub(crate) async fn server(&self) -> FlightServer {
        serve(self.options(), door()).await.unwrap()
    }
}

/// A free port of this machine, without tokens.
pub(crate) fn door() -> DoorOptions {
    DoorOptions { listen: ([127, 0, 0, 1], 0).into(), token: None, policy: None, tls: None }
}

pub(crate) fn run(database: &mut Database, sql: &str) {
    let connection = database.sql();
    let mut statement = connection.prepare(sql).unwrap();
    connection.execute(&mut statement).unwrap();
}

pub(crate) async fn client(server: &FlightServer) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

/// The rows of SQL itself, by a connection of the test's own.
pub(crate) fn by_sql(path: &Path, sql: &str) -> Vec<Vec<Value>> {
    let opened = Database::open(Environment::os(), path, Access::ReadOnly);
    let mut connection = opened.unwrap().into_sql();
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        all.push(row.values().map(Value::from).collect());
    }
    all
}

/// The rows that an answer leads to, and their schema as the stream has it.
pub(crate) async fn fetch(
    client: &mut Client,
    info: FlightInfo,
) -> Result<(SchemaRef, Vec<RecordBatch>), FlightError> {
    let told = info.clone().try_decode_schema().unwrap();
    let [endpoint] = &info.endpoint[..] else { panic!("one endpoint: {info:?}") };
    let mut stream = client.do_get(endpoint.ticket.clone().unwrap()).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        batches.push(batch);
    }
    let schema = stream.schema().expect("a stream begins with its schema").clone();
    assert_eq!(*schema, told, "the schema told is the schema sent");
    Ok((schema, batches))
}

/// The answer to a statement.
pub(crate) async fn ask(
    client: &mut Client,
    sql: &str,
) -> Result<(SchemaRef, Vec<Vec<Value>>), FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    let (schema, batches) = fetch(client, info).await?;
    Ok((schema, values(&batches)))
}

/// The refusal of a statement.
pub(crate) async fn refusal(client: &mut Client, sql: &str) -> String {
    match ask(client, sql).await.expect_err(sql) {
        FlightError::Tonic(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}

/// The cells of batches as SQL's values.
pub(crate) fn values(batches: &[RecordBatch]) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for batch in batches {
        let columns: Vec<Cells> =
            batch.columns().iter().map(|column| Cells::new(column).unwrap()).collect();
        for row in 0..batch.num_rows() {
            all.push(columns.iter().map(|column| Value::from(column.value(row))).collect());
        }
    }
    all
}

/// The types of a schema's columns, with their names.
pub(crate) fn shown(schema: &SchemaRef) -> String {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| format!("{}: {}", field.name(), field.data_type()));
    fields.collect::<Vec<_>>().join(", ")
}
