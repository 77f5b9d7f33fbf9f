//! `shoal doc import`: a document from JSON or from an Automerge file, or a folder of documents.

mod folder;

use shoal::Document;
use shoal_crdt::CommitOptions;

use crate::args::ImportDocArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &ImportDocArgs) -> Result<(), Failure> {
    let source = Place::parse(&args.source);
    let target = Place::parse(&args.doc);
    if let Place::File(path) = &source
        && path.is_dir()
    {
        return folder::run(path, &target);
    }
    if open::load_if_there(&target)?.is_some() {
        return Err(Failure::at(&target, "the document exists already")
            .hint("shoal doc merge adds to a document that exists"));
    }
    let mut document = match &source {
        Place::Stored { .. } => open::load(&source)?,
        Place::Stream => from_bytes(&source, &open::stdin()?)?,
        Place::File(path) => from_bytes(&source, &open::read(path)?)?,
    };
    open::save(&target, &mut document)
}

/// An Automerge file begins with its magic bytes; anything else has to be JSON.
fn from_bytes(source: &Place, bytes: &[u8]) -> Result<Document, Failure> {
    if bytes.starts_with(&open::MAGIC) {
        return open::parse(source, bytes);
    }
    let json: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| {
        Failure::at(source, format_args!("neither an Automerge file nor JSON: {error}"))
    })?;
    let environment = crate::keys::environment();
    let mut document = Document::new(environment.new_actor());
    let mut transaction = document.transaction();
    transaction.import_json(&json).map_err(|error| Failure::at(source, error))?;
    transaction.commit(CommitOptions::default().with_time(environment.now_seconds()));
    Ok(document)
}
