//! Documents on their way: import, export, merge.

use serde_json::json;
use shoal::{Document, Environment};
use shoal_crdt::{CommitOptions, Limits, Rescue, TextEncoding};

use crate::args::{AnonymizeArgs, ExportArgs, Format, ImportArgs, MergeArgs, RescueArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;

/// `shoal doc import`.
pub(super) fn import(args: &ImportArgs) -> Result<(), Failure> {
    let source = Place::parse(&args.source);
    let target = Place::parse(&args.doc);
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
    let environment = Environment::os();
    let mut document = Document::new(environment.new_actor());
    let mut transaction = document.transaction();
    transaction.import_json(&json).map_err(|error| Failure::at(source, error))?;
    transaction.commit(CommitOptions::default().with_time(environment.now_seconds()));
    Ok(document)
}

/// `shoal doc export`.
pub(super) fn export(args: &ExportArgs) -> Result<(), Failure> {
    let mut document = open::load(&Place::parse(&args.doc))?;
    match Place::parse(&args.output) {
        Place::Stored { .. } => {
            Err(Failure::at(&args.output, "export writes a file, not a database")
                .hint("shoal doc import SOURCE DB::NAME stores a document"))
        }
        target => open::save(&target, &mut document),
    }
}

/// `shoal doc rescue`.
pub(super) fn rescue(args: &RescueArgs) -> Result<(), Failure> {
    let bytes = open::bytes(&Place::parse(&args.file), "only files are rescued, not databases")?;
    let actor = Environment::os().new_actor();
    let limits = Limits::default();
    let Rescue { mut document, lost } =
        Document::rescue(&bytes, actor, TextEncoding::default(), &limits);
    open::save(&Place::parse(&args.output), &mut document)?;
    match args.format {
        Format::Json => {
            let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
            out::line(json!(lost))?;
        }
        Format::Text => lost.iter().for_each(|loss| out::note(format_args!("lost: {loss}"))),
    }
    match lost.len() {
        0 => Ok(()),
        count => Err(Failure::at(&args.file, format_args!("damaged, losses: {count}"))),
    }
}

/// `shoal doc anonymize`.
pub(super) fn anonymize(args: &AnonymizeArgs) -> Result<(), Failure> {
    let (source, target) = (Place::parse(&args.doc), Place::parse(&args.output));
    let document = open::load(&source)?;
    if open::load_if_there(&target)?.is_some() {
        return Err(Failure::at(&target, "the document exists already"));
    }
    let environment = Environment::os();
    let mut seed = [0; 32];
    for half in seed.chunks_mut(16) {
        half.copy_from_slice(environment.new_actor().as_bytes());
    }
    let copy = document.anonymize(environment.new_actor(), seed);
    open::save(&target, &mut copy.map_err(|error| Failure::at(&source, error))?)
}

/// `shoal doc merge`.
pub(super) fn merge(args: &MergeArgs) -> Result<(), Failure> {
    let (a, b) = (Place::parse(&args.a), Place::parse(&args.b));
    if a == Place::Stream && b == Place::Stream {
        return Err(Failure::new("only one of the two documents can come from stdin"));
    }
    let mut document = open::load(&a)?;
    let other = open::load(&b)?;
    document.merge(&other).map_err(|error| Failure::at(&b, error))?;
    open::save(&Place::parse(&args.output), &mut document)
}
