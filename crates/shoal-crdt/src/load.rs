//! Reading documents from bytes.

mod build;
mod rescue;
mod strings;

pub use rescue::{Loss, Rescue};

use shoal_history::{ActorId, Change, Chunk, ChunkType, DocumentChunk, Limits, Verify, chunks};

use crate::document::Document;
use crate::error::Error;
use crate::value::TextEncoding;

/// How a document is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The treatment of bad bytes and of missing changes.
    pub on_partial: OnPartial,
    /// The comparison of the rebuilt changes' hashes with the stored heads.
    pub verify: Verify,
    /// How much chunks may expand to.
    pub limits: Limits,
    /// The unit of text indexes.
    pub encoding: TextEncoding,
    /// The treatment of the strings of old documents.
    pub strings: StringMigration,
}

/// The treatment of scalar strings in maps and lists. Old programs wrote them in the place of
/// today's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringMigration {
    /// They stay.
    #[default]
    Keep,
    /// Visible strings become texts, by a change of the document's actor at loading. Two actors
    /// loading so make two texts, and one wins.
    ToText,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            on_partial: OnPartial::default(),
            verify: Verify::Heads,
            limits: Limits::default(),
            encoding: TextEncoding::default(),
            strings: StringMigration::default(),
        }
    }
}

/// The treatment of bytes readable in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPartial {
    /// Refuse all.
    #[default]
    Error,
    /// Keep the chunks before the bad one, at least one. Changes with missing dependencies wait.
    Ignore,
}

impl Document {
    /// Loads the bytes of [`Document::save`], [`Document::save_after`],
    /// [`Document::save_incremental`] or another Automerge, or any concatenation of them. No bytes
    /// are an empty document.
    ///
    /// # Errors
    /// [`Error::History`] for bytes of no chunk, or of a chunk at odds with its checksum or format;
    /// [`Error::Row`] and [`Error::Op`] for self-contradicting content; [`Error::DuplicateSeq`];
    /// [`Error::MissingDeps`] for a file beginning with changes and lacking some of their
    /// dependencies.
    pub fn load(bytes: &[u8], actor: ActorId, options: &LoadOptions) -> Result<Self, Error> {
        let mut doc = Self::with_encoding(actor, options.encoding);
        // The bounds for a trusted file are not the bounds for later strangers.
        doc.set_max_depth(options.limits.max_depth);
        let mut chunks = chunks(bytes, &options.limits);
        let mut changes = Vec::new();
        let begins_with_document = match chunks.next().transpose()? {
            None => return Ok(doc),
            Some(Chunk::Document(chunk)) => {
                doc.load_document(&chunk, options.verify)?;
                true
            }
            Some(chunk) => {
                changes.extend(doc.changes_of(chunk, options)?);
                false
            }
        };
        for chunk in chunks {
            match chunk.map_err(Error::from).and_then(|chunk| doc.changes_of(chunk, options)) {
                Ok(more) => changes.extend(more),
                Err(_) if options.on_partial == OnPartial::Ignore => break,
                Err(error) => return Err(error),
            }
        }
        doc.apply_changes(changes)?;
        if !begins_with_document
            && options.on_partial == OnPartial::Error
            && let Some(first) = doc.missing_deps(&[]).first()
        {
            return Err(Error::MissingDeps { first: *first });
        }
        if options.on_partial == OnPartial::Error
            && !begins_with_document
            && let Some(error) = doc.queue.stalled_error()
        {
            return Err(error.clone());
        }
        doc.saved_heads = doc.heads();
        if options.strings == StringMigration::ToText {
            doc.strings_to_texts()?;
        }
        Ok(doc)
    }

    /// Takes in more chunks, and returns how many ops they added. Chunks after a bad one are
    /// ignored, as is the bad one.
    ///
    /// # Errors
    /// When the very first chunk is bad; otherwise as [`Document::apply_changes`].
    pub fn load_incremental(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        let options = LoadOptions {
            on_partial: OnPartial::Ignore,
            encoding: self.text_encoding(),
            limits: *self.limits(),
            ..LoadOptions::default()
        };
        if self.is_empty() {
            let mut loaded = Self::load(bytes, self.actor().clone(), &options)?;
            loaded.saved_heads.clone_from(&self.saved_heads);
            loaded.author.clone_from(&self.author);
            loaded.set_limits(*self.limits());
            *self = loaded;
            return Ok(self.op_count());
        }
        let mut changes = Vec::new();
        for (at, chunk) in chunks(bytes, &options.limits).enumerate() {
            match chunk.map_err(Error::from).and_then(|chunk| self.changes_of(chunk, &options)) {
                Ok(more) => changes.extend(more),
                Err(error) if at == 0 => return Err(error),
                Err(_) => break,
            }
        }
        let before = self.op_count();
        self.apply_changes(changes)?;
        Ok(self.op_count() - before)
    }

    /// The changes of a later chunk.
    fn changes_of(&self, chunk: Chunk, options: &LoadOptions) -> Result<Vec<Change>, Error> {
        Ok(match chunk {
            Chunk::Change(change) => vec![change],
            Chunk::Document(chunk) => {
                let is_known = chunk.heads().iter().all(|head| self.graph.contains(head));
                if is_known { Vec::new() } else { chunk.changes(options.verify)? }
            }
            Chunk::Bundle(bundle) => bundle.into_changes(),
            _ => return Err(shoal_history::Error::Unsupported { chunk: ChunkType::Bundle }.into()),
        })
    }

    /// Fills an empty document from a document chunk.
    fn load_document(&mut self, chunk: &DocumentChunk, verify: Verify) -> Result<(), Error> {
        for actor in chunk.actors() {
            self.intern_actor(actor);
        }
        let graph = &mut self.graph;
        let ops = &mut self.ops;
        // Hashing the history and finding the objects do not need each other.
        let is_large = chunk.op_count() + chunk.change_count() >= PARALLEL_FROM;
        if is_large && verify != Verify::Later {
            let (loaded, built) =
                rayon::join(|| graph.load(chunk, verify), || build::outline(ops, chunk));
            loaded?;
            return built;
        }
        graph.load(chunk, verify)?;
        build::outline(ops, chunk)
    }
}

/// From this many ops and changes on, threads are worth their start.
const PARALLEL_FROM: usize = 1 << 12;
