//! The tables of a ledger: made, read, appended to, joined.

use std::collections::{BTreeMap, HashSet};

use shoal_sql::{Connection, Statement, Value};
use shoal_stdx::hex;
use shoal_store::Mode;

use crate::entry::{Entry, Hash, Signer, WriterId, writer_of};
use crate::payload::{Join, Payload};
use crate::verify::{Report, VerifyOptions, verify};
use crate::{Error, merkle};

/// Most bytes of one payload.
const PAYLOAD_MAX: u64 = 256 << 20;

const TABLES: [&str; 6] = [
    "CREATE TABLE _ledger (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
    "CREATE TABLE _ledger_entry (id INTEGER PRIMARY KEY, hash BLOB NOT NULL, writer BLOB NOT NULL, \
     key BLOB NOT NULL, sequence INTEGER NOT NULL, previous BLOB NOT NULL, seen BLOB NOT NULL, \
     time INTEGER NOT NULL, kind TEXT NOT NULL, payload BLOB NOT NULL, signature BLOB NOT NULL)",
    "CREATE INDEX _ledger_entry_writer ON _ledger_entry (writer, sequence)",
    "CREATE TABLE _ledger_agent (writer BLOB PRIMARY KEY, name TEXT, key BLOB, admitted_by BLOB, \
     revoked_after INTEGER)",
    "CREATE TABLE _ledger_scope (writer BLOB NOT NULL, scope TEXT NOT NULL)",
    "CREATE VIEW _ledger_audit AS SELECT entry.id, entry.time, agent.name, entry.kind, \
     CASE WHEN entry.kind = 'changeset' THEN length(entry.payload) || ' bytes' \
     ELSE CAST(entry.payload AS TEXT) END AS payload FROM _ledger_entry AS entry \
     LEFT JOIN _ledger_agent AS agent ON agent.writer = entry.writer",
];

/// An entry to be signed.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'e> {
    /// When this was, in milliseconds since 1970.
    pub time_ms: i64,
    /// The kind: one of [`Payload`]'s, or a program's own.
    pub kind: &'e str,
    /// The content.
    pub payload: &'e [u8],
}

/// The ledger of an open database.
#[derive(Debug)]
pub struct Ledger<'c> {
    connection: &'c mut Connection,
    id: [u8; 16],
    log: [u8; 16],
}

impl<'c> Ledger<'c> {
    /// Makes a ledger. `id` and `log` are 32 random bytes together: the ledger's name, the same in
    /// all copies, and the log's, of this file alone.
    ///
    /// # Errors
    /// [`Error::HasLedger`], [`Error::Sql`].
    pub fn create(connection: &'c mut Connection, entropy: [u8; 32]) -> Result<Ledger<'c>, Error> {
        if connection.schema()?.table("_ledger").is_some() {
            return Err(Error::HasLedger);
        }
        let (id, log) = entropy.split_at(16);
        in_transaction(connection, |connection| {
            for sql in TABLES {
                run(connection, sql, &[])?;
            }
            let insert = "INSERT INTO _ledger VALUES (?, ?)";
            run(connection, insert, &[Value::text("id"), Value::Blob(id.to_vec())])?;
            run(connection, insert, &[Value::text("log"), Value::Blob(log.to_vec())])
        })?;
        Ledger::open(connection)
    }

    /// The ledger of a database.
    ///
    /// # Errors
    /// [`Error::NoLedger`], [`Error::Corrupt`], [`Error::Sql`].
    pub fn open(connection: &'c mut Connection) -> Result<Ledger<'c>, Error> {
        if connection.schema()?.table("_ledger").is_none() {
            return Err(Error::NoLedger);
        }
        let mut named = |name: &str| -> Result<[u8; 16], Error> {
            let sql = "SELECT value FROM _ledger WHERE name = ?";
            let rows = query(connection, sql, &[Value::text(name)])?;
            let value = rows.first().and_then(|row| blob(&row[0]).ok());
            value.ok_or(Error::Corrupt { id: 0, what: "the ledger's id or log is not 16 bytes" })
        };
        let (id, log) = (named("id")?, named("log")?);
        Ok(Ledger { connection, id, log })
    }

    /// The ledger's name, the same in all copies.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The name of this file's log. A copy going its own way needs another:
    /// [`Ledger::rename_log`].
    pub fn log(&self) -> [u8; 16] {
        self.log
    }

    /// Gives this file's log a new name: heads signed before are another file's from now on.
    ///
    /// # Errors
    /// [`Error::Sql`].
    pub fn rename_log(&mut self, log: [u8; 16]) -> Result<(), Error> {
        let values = [Value::Blob(log.to_vec())];
        run(self.connection, "UPDATE _ledger SET value = ? WHERE name = 'log'", &values)?;
        self.log = log;
        Ok(())
    }

    /// All entries with their numbers in the file, in the file's order.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a row without a readable entry, [`Error::Sql`].
    pub fn entries(&mut self) -> Result<Vec<(i64, Hash, Entry)>, Error> {
        let sql = "SELECT id, hash, writer, key, sequence, previous, seen, time, kind, payload, \
                   signature FROM _ledger_entry ORDER BY id";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = self.connection.query(&mut statement)?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            let row: Vec<Value> = row.values().map(Value::from).collect();
            let id = row[0].to_int();
            let (hash, entry) = entry_of(&row).map_err(|what| Error::Corrupt { id, what })?;
            entries.push((id, hash, entry));
        }
        Ok(entries)
    }

    /// Signs an entry at the end of the signer's chain, as part of the open transaction or in one
    /// of its own. Gives the hash. Cost: a search for each writer, whatever the number of entries.
    ///
    /// # Errors
    /// [`Error::Signer`] for a signer without a chain, unless the entry is a `join`;
    /// [`Error::Limit`], [`Error::Sql`].
    pub fn append(&mut self, signer: &Signer, new: &NewEntry<'_>) -> Result<Hash, Error> {
        if new.payload.len() as u64 > PAYLOAD_MAX {
            return Err(Error::Limit { what: "bytes of a payload", max: PAYLOAD_MAX });
        }
        let key = signer.public();
        let chain = self.chain_of(&key)?;
        let (writer, sequence, previous) = match (chain, new.kind) {
            (Some(_), "join") => {
                return Err(Error::Signer { what: "the key has joined the ledger already" });
            }
            (Some((writer, sequence, previous)), _) => (writer, sequence + 1, previous),
            (None, "join") => (writer_of(&key), 1, [0; 32]),
            (None, _) => {
                let what = "the key signs for nobody in this ledger: join it first, or use the \
                            key that took this one's place";
                return Err(Error::Signer { what });
            }
        };
        let sql = "SELECT entry.hash, entry.id FROM _ledger_agent AS agent \
                   JOIN _ledger_entry AS entry ON entry.id = (SELECT id FROM _ledger_entry \
                   WHERE writer = agent.writer ORDER BY sequence DESC, id DESC LIMIT 1) \
                   WHERE agent.writer <> ?";
        let mut seen = Vec::new();
        for row in query(self.connection, sql, &[Value::Blob(writer.to_vec())])? {
            let what = "has a hash that is not 32 bytes";
            seen.push(blob(&row[0]).map_err(|_| Error::Corrupt { id: row[1].to_int(), what })?);
        }
        seen.sort_unstable();
        let mut entry = Entry {
            writer,
            key,
            sequence,
            previous,
            seen,
            time_ms: new.time_ms,
            kind: new.kind.to_owned(),
            payload: new.payload.to_vec(),
            signature: [0; 64],
        };
        let hash = entry.hash(&self.id);
        entry.signature = signer.sign(&hash);
        in_transaction(self.connection, |connection| {
            let mut insert = connection.prepare(INSERT)?;
            insert_entry(connection, &mut insert, &hash, &entry)?;
            note(connection, &entry)
        })?;
        Ok(hash)
    }

    /// Joins a ledger under a name, as a new writer.
    ///
    /// # Errors
    /// As [`Ledger::append`].
    pub fn join(&mut self, signer: &Signer, name: &str, time_ms: i64) -> Result<WriterId, Error> {
        let join = Join { name: name.to_owned() };
        let payload = serde_json::to_vec(&join).expect("a name is JSON");
        self.append(signer, &NewEntry { time_ms, kind: "join", payload: &payload })?;
        Ok(writer_of(&signer.public()))
    }

    /// The chain signed with a key: the writer, the last sequence and its hash.
    fn chain_of(&mut self, key: &[u8; 32]) -> Result<Option<(WriterId, u64, Hash)>, Error> {
        let sql = "SELECT writer FROM _ledger_agent WHERE key = ?";
        let Some(row) = query(self.connection, sql, &[Value::Blob(key.to_vec())])?.pop() else {
            return Ok(None);
        };
        let sql = "SELECT sequence, hash, id FROM _ledger_entry WHERE writer = ? \
                   ORDER BY sequence DESC LIMIT 1";
        let corrupt = |id: i64| Error::Corrupt { id, what: "has a hash that is not 32 bytes" };
        let writer = blob(&row[0]).map_err(|_| corrupt(0))?;
        let Some(last) = query(self.connection, sql, &row)?.pop() else { return Ok(None) };
        let hash = blob(&last[1]).map_err(|_| corrupt(last[2].to_int()))?;
        Ok(Some((writer, u64::try_from(last[0].to_int()).unwrap_or(0), hash)))
    }

    /// The Merkle head of the entries so far.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn head(&mut self) -> Result<crate::Head, Error> {
        let leaves = self.leaves()?;
        let (log, root) = (hex::encode(&self.log), hex::encode(&merkle::root(&leaves)));
        Ok(crate::Head { log, size: leaves.len() as u64, root })
    }

    /// The hashes of all entries in the file's order: the leaves of its Merkle tree.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn leaves(&mut self) -> Result<Vec<Hash>, Error> {
        let id = self.id;
        Ok(self.entries()?.iter().map(|(_, _, entry)| entry.hash(&id)).collect())
    }

    /// Takes the entries of another copy of the ledger that this one lacks, in their order, in one
    /// transaction. Before anything is stored, each signature is checked, and its key: the first
    /// of the writer's, or one named by a rotation under such a key. Gives the numbers of entries
    /// taken and refused. Forks are taken: they are evidence.
    ///
    /// # Errors
    /// [`Error::OtherLedger`], [`Error::Corrupt`], [`Error::Sql`].
    pub fn import(&mut self, other: &mut Ledger<'_>) -> Result<(u64, u64), Error> {
        if self.id != other.id {
            return Err(Error::OtherLedger);
        }
        let id = self.id;
        let here = self.entries()?;
        let known: HashSet<Hash> = here.iter().map(|(_, _, entry)| entry.hash(&id)).collect();
        let mut keys = Keys::default();
        for (_, _, entry) in by_sequence(&here).into_iter().filter(|it| it.2.is_signed(&id)) {
            keys.take(entry);
        }
        let there = other.entries()?;
        // Keys follow one another along a chain, whatever the order of the file.
        let mut good = Vec::new();
        let mut bad = 0;
        for (row, _, entry) in by_sequence(&there) {
            let hash = entry.hash(&id);
            if known.contains(&hash) {
                continue;
            }
            match entry.signs(&hash) && keys.take(entry) {
                true => good.push((*row, hash, entry)),
                false => bad += 1,
            }
        }
        good.sort_unstable_by_key(|(row, ..)| *row);
        in_transaction(self.connection, |connection| {
            let mut insert = connection.prepare(INSERT)?;
            for (_, hash, entry) in &good {
                insert_entry(connection, &mut insert, hash, entry)?;
                note(connection, entry)?;
            }
            Ok(())
        })?;
        Ok((good.len() as u64, bad))
    }

    /// Says for each claim of the ledger if the claim holds, fails, or cannot be known.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a row without a readable entry, [`Error::Sql`].
    pub fn verify(&mut self, options: &VerifyOptions<'_>) -> Result<Report, Error> {
        let entries = self.entries()?;
        Ok(verify(&self.id, &self.log, &entries, options))
    }
}

const INSERT: &str = "INSERT INTO _ledger_entry (hash, writer, key, sequence, previous, seen, \
                      time, kind, payload, signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

fn insert_entry(
    connection: &mut Connection,
    insert: &mut Statement,
    hash: &Hash,
    entry: &Entry,
) -> Result<(), Error> {
    let sequence = i64::try_from(entry.sequence)
        .map_err(|_| Error::Limit { what: "entries of a writer", max: i64::MAX as u64 })?;
    let values = [
        Value::Blob(hash.to_vec()),
        Value::Blob(entry.writer.to_vec()),
        Value::Blob(entry.key.to_vec()),
        Value::Int(sequence),
        Value::Blob(entry.previous.to_vec()),
        Value::Blob(entry.seen.concat()),
        Value::Int(entry.time_ms),
        Value::text(entry.kind.as_str()),
        Value::Blob(entry.payload.clone()),
        Value::Blob(entry.signature.to_vec()),
    ];
    for (place, value) in values.into_iter().enumerate() {
        insert.bind(place + 1, value)?;
    }
    connection.execute(insert)?;
    Ok(())
}

/// Notes an entry's statement in the tables of agents and scopes: tables for people and queries,
/// believed by nothing; [`Ledger::verify`] reads entries alone.
fn note(connection: &mut Connection, entry: &Entry) -> Result<(), Error> {
    let writer = Value::Blob(entry.writer.to_vec());
    let bytes = |text: &str| hex::decode(text).map_or(Value::Null, Value::Blob);
    match Payload::read(&entry.kind, &entry.payload) {
        Payload::Join(join) => {
            let sql = "INSERT INTO _ledger_agent (writer, name, key) VALUES (?1, ?2, ?3) \
                       ON CONFLICT (writer) DO UPDATE SET name = ?2, key = coalesce(key, ?3)";
            let key = Value::Blob(entry.key.to_vec());
            run(connection, sql, &[writer, Value::text(join.name), key])
        }
        Payload::Admit(admission) => {
            let admitted = bytes(&admission.writer);
            let sql = "INSERT INTO _ledger_agent (writer, admitted_by) VALUES (?1, ?2) \
                       ON CONFLICT (writer) DO UPDATE SET admitted_by = ?2";
            run(connection, sql, &[admitted.clone(), writer])?;
            let clear = "DELETE FROM _ledger_scope WHERE writer = ?";
            run(connection, clear, std::slice::from_ref(&admitted))?;
            for scope in admission.scopes {
                let sql = "INSERT INTO _ledger_scope VALUES (?, ?)";
                run(connection, sql, &[admitted.clone(), Value::text(scope)])?;
            }
            Ok(())
        }
        Payload::Rotate(rotation) => {
            let sql = "UPDATE _ledger_agent SET key = ? WHERE writer = ?";
            run(connection, sql, &[bytes(&rotation.key), writer])
        }
        Payload::Revoke(revocation) => {
            let last = i64::try_from(revocation.last).unwrap_or(i64::MAX);
            let sql = "UPDATE _ledger_agent SET revoked_after = ? WHERE writer = ?";
            run(connection, sql, &[Value::Int(last), bytes(&revocation.writer)])
        }
        _ => Ok(()),
    }
}

fn entry_of(row: &[Value]) -> Result<(Hash, Entry), &'static str> {
    const LENGTH: &str = "a hash, key or signature has another length than it must";
    let text = |value: &Value| match value {
        Value::Text(bytes) => String::from_utf8(bytes.clone()).map_err(|_| "a kind outside UTF-8"),
        _ => Err("a kind is no text"),
    };
    let Value::Blob(seen) = &row[6] else { return Err("the heads seen are no blob") };
    let (heads, rest) = seen.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(LENGTH);
    }
    let Value::Blob(payload) = &row[9] else { return Err("a payload is no blob") };
    let (Value::Int(sequence), Value::Int(time_ms)) = (&row[4], &row[7]) else {
        return Err("a sequence or a time is no integer");
    };
    let sized = |_| LENGTH;
    let entry = Entry {
        writer: blob(&row[2]).map_err(sized)?,
        key: blob(&row[3]).map_err(sized)?,
        sequence: u64::try_from(*sequence).map_err(|_| "a sequence is negative")?,
        previous: blob(&row[5]).map_err(sized)?,
        seen: heads.to_vec(),
        time_ms: *time_ms,
        kind: text(&row[8])?,
        payload: payload.clone(),
        signature: blob(&row[10]).map_err(sized)?,
    };
    Ok((blob(&row[1]).map_err(sized)?, entry))
}

/// The bytes of a blob of a fixed length.
fn blob<const N: usize>(value: &Value) -> Result<[u8; N], ()> {
    match value {
        Value::Blob(bytes) => bytes.as_slice().try_into().map_err(|_| ()),
        _ => Err(()),
    }
}

fn in_transaction(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<(), Error>,
) -> Result<(), Error> {
    if connection.in_transaction() {
        return work(connection);
    }
    connection.begin(Mode::Write)?;
    match work(connection) {
        Ok(()) => Ok(connection.commit()?),
        Err(error) => {
            connection.rollback()?;
            Err(error)
        }
    }
}

fn run(connection: &mut Connection, sql: &str, values: &[Value]) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    for (place, value) in values.iter().enumerate() {
        statement.bind(place + 1, value.clone())?;
    }
    connection.execute(&mut statement)?;
    Ok(())
}

fn query(
    connection: &mut Connection,
    sql: &str,
    values: &[Value],
) -> Result<Vec<Vec<Value>>, Error> {
    let mut statement = connection.prepare(sql)?;
    for (place, value) in values.iter().enumerate() {
        statement.bind(place + 1, value.clone())?;
    }
    let mut rows = connection.query(&mut statement)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

/// The keys named by writers, each under a key named before.
#[derive(Default)]
struct Keys(HashSet<(WriterId, [u8; 32])>);

impl Keys {
    /// Notes the key named by a signed entry; false for an entry under a key of somebody else.
    fn take(&mut self, entry: &Entry) -> bool {
        let is_first = writer_of(&entry.key) == entry.writer;
        if !is_first && !self.0.contains(&(entry.writer, entry.key)) {
            return false;
        }
        if let Payload::Rotate(rotation) = Payload::read(&entry.kind, &entry.payload)
            && let Some(key) = hex::decode(&rotation.key).ok().and_then(|it| it.try_into().ok())
        {
            self.0.insert((entry.writer, key));
        }
        true
    }
}

fn by_sequence(entries: &[(i64, Hash, Entry)]) -> Vec<&(i64, Hash, Entry)> {
    let mut ordered: Vec<_> = entries.iter().collect();
    ordered.sort_by_key(|(_, _, entry)| entry.sequence);
    ordered
}

/// Entries of each writer, in the order of sequences.
pub(crate) fn chains(entries: &[(i64, Hash, Entry)]) -> BTreeMap<WriterId, Vec<usize>> {
    let mut chains: BTreeMap<WriterId, Vec<usize>> = BTreeMap::new();
    for (place, (_, _, entry)) in entries.iter().enumerate() {
        chains.entry(entry.writer).or_default().push(place);
    }
    for chain in chains.values_mut() {
        chain.sort_by_key(|place| entries[*place].2.sequence);
    }
    chains
}
