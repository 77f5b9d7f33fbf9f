//! Two databases, or a database and a folder, without a server.

#![allow(clippy::unwrap_used)]

mod folder;
mod pair;

use std::path::Path;

use shoal::{Access, Database, Environment};
use shoal_crdt::{CommitOptions, ROOT};
use shoal_server::Limits;
use shoal_server::pair::PairOptions;

pub(crate) fn options(path: &Path) -> PairOptions {
    PairOptions {
        environment: Environment::os(),
        path: path.to_owned(),
        documents: Vec::new(),
        takes_unrelated: false,
        limits: Limits::default(),
    }
}

pub(crate) fn open(path: &Path) -> Database {
    Database::open(Environment::os(), path, Access::Create).unwrap()
}

/// Sets a key of a document, which is made if it is missing.
pub(crate) fn put(path: &Path, name: &str, key: &str, value: i64) {
    let mut database = open(path);
    let mut document = database.open_or_create(name).unwrap();
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).unwrap();
    transaction.commit(CommitOptions::default());
    database.close(document).unwrap();
}

pub(crate) fn keys(path: &Path, name: &str) -> Vec<String> {
    let document = open(path).load(name).unwrap();
    document.keys(&ROOT).unwrap().map(str::to_owned).collect()
}

pub(crate) fn heads(path: &Path) -> Vec<(String, Vec<shoal_history::ChangeHash>)> {
    let documents = open(path).documents().unwrap();
    documents.into_iter().map(|document| (document.name, document.heads)).collect()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let mut database = open(from);
    for document in database.documents().unwrap() {
        let mut loaded = database.load(&document.name).unwrap();
        open(to).store(&document.name, &mut loaded).unwrap();
    }
}
