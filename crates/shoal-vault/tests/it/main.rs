//! Sealed files on simulated disks and real ones: what is stored is not readable, what is changed
//! is found, and a crash at any call leaves a file that opens; other programs' files both ways.

#![allow(clippy::unwrap_used)]

mod ciphers;
mod crash;
mod damage;
mod foreign;
mod hostile;
mod keys;
mod plaintext;
mod recipients;
mod salvage;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use shoal_sql::{Connection, Value};
use shoal_store::vfs::{Entropy, Image, OsEntropy, SimVfs, Vfs};
use shoal_store::{Access, CodecSource, Error, Options, Store};
use shoal_vault::{Cost, Keys, NewKey, Recipient, Secret};

const DB: &str = "db";
/// The size of the pages of [`filled`] files.
const PAGE: usize = 1024;
const SECRET: &str = "correct horse battery staple";

fn entropy() -> Arc<dyn Entropy> {
    Arc::new(OsEntropy)
}

/// Keys with this passphrase, of the least cost.
fn keys(passphrase: &str) -> Keys {
    let keys = Keys::new(entropy()).with_key(Secret::new(passphrase.as_bytes()));
    keys.set_cost(Cost::least());
    keys
}

/// A private key's file and its public key.
fn pair() -> (Secret, Recipient) {
    let (text, recipient) = shoal_vault::new_pair(|bytes| OsEntropy.fill(bytes));
    (Secret::new(text.as_bytes()), recipient)
}

/// Corrects the checksum of a page of keys, as anybody can.
fn with_checksum(page: &mut [u8]) {
    let digest = Sha256::digest(&page[..PAGE - 64]);
    page[PAGE - 64..PAGE - 32].copy_from_slice(&digest);
}

/// A passphrase for a new slot, of the least cost.
fn new_key(passphrase: &str) -> NewKey {
    NewKey::secret(&Secret::new(passphrase.as_bytes()), Cost::least()).unwrap()
}

/// The keys of most tests: each slot's key is computed once for all of them.
fn known() -> Arc<Keys> {
    static KNOWN: OnceLock<Arc<Keys>> = OnceLock::new();
    Arc::clone(KNOWN.get_or_init(|| Arc::new(keys(SECRET))))
}

fn store(vfs: &(impl Vfs + Clone + 'static), keys: Arc<Keys>) -> Result<Store, Error> {
    let codecs = Some(keys as Arc<dyn CodecSource>);
    let options = Options { codecs, ..Options::new(Access::Create) };
    Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options)
}

fn sql(store: &Store) -> Connection {
    Connection::open(store.clone()).unwrap()
}

/// A sealed file with a table of rows on a simulated disk.
fn filled(rows: usize) -> SimVfs {
    let vfs = SimVfs::new();
    let store = store(&vfs, known()).unwrap();
    let mut connection = sql(&store);
    batch(&mut connection, "PRAGMA page_size = 1024; CREATE TABLE t(a, b); BEGIN");
    for row in 0..rows {
        let text = format!("INSERT INTO t VALUES ({row}, 'nobody may read this {row}')");
        batch(&mut connection, &text);
    }
    batch(&mut connection, "COMMIT");
    vfs
}

fn disk(image: &Image) -> SimVfs {
    SimVfs::from_image(image)
}

/// Runs statements one after another.
fn batch(connection: &mut Connection, text: &str) {
    for range in shoal_sql::Statements::new(text) {
        let sql = &text[range];
        rows(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// The rows of a statement.
fn values(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<Value>>, shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    if statement.column_count() == 0 {
        connection.execute(&mut statement)?;
        return Ok(Vec::new());
    }
    let mut rows = connection.query(&mut statement)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((0..row.len()).map(|place| Value::from(row.get(place))).collect());
    }
    Ok(found)
}

/// The rows of a statement, each as a text.
fn rows(connection: &mut Connection, sql: &str) -> Result<Vec<String>, shoal_sql::Error> {
    let found = values(connection, sql)?;
    Ok(found.iter().map(|row| format!("{row:?}")).collect())
}

/// The first value of a statement's first row.
fn one(connection: &mut Connection, sql: &str) -> Value {
    let found = values(connection, sql).unwrap();
    found.into_iter().flatten().next().unwrap_or(Value::Null)
}
