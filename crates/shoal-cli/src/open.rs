//! Opening files: databases, and documents wherever they are.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;

use shoal::{Access, Database, Document, Environment};
use shoal_crdt::LoadOptions;
use shoal_sql::Connection;
use shoal_store::FileUri;
use shoal_vfs::{VfsError, read_file, replace_file};

use crate::failure::Failure;
use crate::keys;
use crate::place::Place;
use crate::progress::spin;

/// Opens the database at `path`.
pub(crate) fn database(path: &Path, access: Access) -> Result<Database, Failure> {
    Database::open(keys::environment(), path, access).map_err(|error| about(path, &error))
}

/// Reads a document.
pub(crate) fn load(place: &Place) -> Result<Document, Failure> {
    match place {
        Place::Stream => parse(place, &stdin()?),
        Place::File(path) => parse(place, &read(path)?),
        Place::Stored { file, name } => {
            let mut database = database(file, Access::ReadOnly)?;
            spin("loading", || database.load(name)).map_err(|error| about(file, &error))
        }
    }
}

/// Reads a document; `None` for a place still empty.
pub(crate) fn load_if_there(place: &Place) -> Result<Option<Document>, Failure> {
    match place {
        Place::Stream => Ok(None),
        Place::File(path) => match read_file(path) {
            Ok(bytes) => parse(place, &bytes).map(Some),
            Err(VfsError::NotFound { .. }) => Ok(None),
            Err(error) => Err(Failure::new(error)),
        },
        Place::Stored { file, name } => {
            if !exists(file)? {
                return Ok(None);
            }
            let mut database = database(file, Access::ReadOnly)?;
            match database.load(name) {
                Ok(document) => Ok(Some(document)),
                Err(shoal::Error::NoDocument { .. }) => Ok(None),
                Err(error) => Err(about(file, &error)),
            }
        }
    }
}

/// Writes a document durably, never losing stored changes: a document in a database gains only the
/// missing changes, and a file is replaced only by a document with all of the file's changes.
pub(crate) fn save(place: &Place, document: &mut Document) -> Result<(), Failure> {
    match place {
        Place::Stream => {
            use std::io::Write;
            let mut out = crate::out::stdout();
            out.write_all(&document.save())?;
            Ok(out.flush()?)
        }
        Place::File(path) => {
            if let Some(present) = load_if_there(place)? {
                let waiting: Vec<_> =
                    document.queued_changes().iter().map(|change| change.hash()).collect();
                let lost = present
                    .changes()
                    .chain(present.queued_changes())
                    .map(|change| change.hash())
                    .filter(|hash| {
                        document.change_by_hash(hash).is_none() && !waiting.contains(hash)
                    })
                    .count();
                if lost > 0 {
                    return Err(Failure::at(
                        place,
                        format_args!("not replaced: it holds {lost} changes that would be lost"),
                    )
                    .hint("merge it as well, or choose another name"));
                }
            }
            replace_file(path, &document.save()).map_err(Failure::new)
        }
        Place::Stored { file, name } => {
            let mut database = database(file, Access::Create)?;
            database.store(name, document).map_err(|error| about(file, &error))?;
            Ok(())
        }
    }
}

/// True when anything exists at `path`, a path or a URI; a database in memory does.
pub(crate) fn exists(path: &Path) -> Result<bool, Failure> {
    let uri = FileUri::parse(path).map_err(|error| about(path, &error))?;
    if uri.as_ref().is_some_and(|uri| uri.is_memory) {
        return Ok(true);
    }
    let path = uri.as_ref().map_or(path, |uri| &uri.path);
    path.try_exists().map_err(|error| Failure::at(path.display(), error))
}

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_file(path).map_err(Failure::new)
}

/// Reads stdin whole.
pub(crate) fn stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Failure::at("stdin", error))?;
    Ok(bytes)
}

/// Reads the bytes of a place. Documents in a database have no bytes of their own: they fail with
/// `refusal`.
pub(crate) fn bytes(place: &Place, refusal: &str) -> Result<Vec<u8>, Failure> {
    match place {
        Place::Stream => stdin(),
        Place::File(path) => read(path),
        Place::Stored { .. } => Err(Failure::at(place, refusal)),
    }
}

/// Parses an Automerge file.
pub(crate) fn parse(place: &Place, bytes: &[u8]) -> Result<Document, Failure> {
    let actor = Environment::os().new_actor();
    spin("loading", || Document::load(bytes, actor, &LoadOptions::default())).map_err(|error| {
        if bytes.starts_with(&MAGIC) {
            let hint =
                format_args!("shoal doc rescue {place} -o FILE writes what can still be read");
            return Failure::at(place, error).hint(hint);
        }
        let failure = Failure::at(place, "not an Automerge file");
        match bytes.trim_ascii_start().first() {
            _ if bytes.starts_with(b"SQLite format 3\0") => failure.hint(format_args!(
                "{place} is a database: {place}::NAME is a document in it, shoal doc ls lists them"
            )),
            Some(b'{') => failure.hint("shoal doc import makes a document of a JSON object"),
            _ => failure.hint("shoal doc rescue finds what is left in a damaged file"),
        }
    })
}

/// The first bytes of every Automerge chunk.
pub(crate) const MAGIC: [u8; 4] = [0x85, 0x6f, 0x4a, 0x83];

/// The failure of an operation on the file at `path`. The sentence names the path exactly once.
pub(crate) fn about(path: &Path, error: &dyn Display) -> Failure {
    let (path, reason) = (path.display().to_string(), error.to_string());
    if reason.contains(&path) { Failure::new(reason) } else { Failure::at(path, reason) }
}

/// Opens the tables of the database at `path`.
pub(crate) fn connection(path: &Path, access: Access) -> Result<Connection, Failure> {
    database(path, access).map(Database::into_sql)
}

/// An empty database in memory.
pub(crate) fn memory() -> Result<Connection, Failure> {
    Database::memory(Environment::os()).map(Database::into_sql).map_err(Failure::new)
}

/// Opens tables for a shell. One without documents takes the statements of a dump, which make the
/// tables of documents; where there are documents, statements of SQL do not change these tables.
pub(crate) fn shell_connection(path: &Path, access: Access) -> Result<Connection, Failure> {
    connection(path, access).map(accepting_dumps)
}

/// As [`shell_connection`], in memory.
pub(crate) fn shell_memory() -> Result<Connection, Failure> {
    memory().map(accepting_dumps)
}

fn accepting_dumps(mut connection: Connection) -> Connection {
    let has_documents = connection.schema().is_ok_and(|schema| {
        schema.table("_shoal_meta").is_some() || schema.table("_shoal_doc").is_some()
    });
    if !has_documents {
        connection.reserve_tables(None);
    }
    connection
}
