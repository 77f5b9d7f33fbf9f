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
    /// What to do when the bytes go bad, or when changes are missing.
    pub on_partial: OnPartial,
    /// Whether the hashes of the rebuilt changes are compared with the heads that are stored.
    pub verify: Verify,
    /// How much chunks may expand to.
    pub limits: Limits,
    /// The unit in which texts are indexed.
    pub encoding: TextEncoding,
    /// Whether the strings of old documents become texts.
    pub strings: StringMigration,
}

/// What becomes of scalar strings in maps and lists. Old programs wrote them where texts are written
/// today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringMigration {
    /// They stay.
    #[default]
    Keep,
    /// Those that readers see become texts, by a change that the document's actor makes when it is
    /// loaded. Two who do that make two texts, of which one wins.
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

/// What to do with bytes of which only a part can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPartial {
    /// Refuse all.
    #[default]
    Error,
    /// Keep the chunks before the bad one; they must not be none. Changes may lack others that
    /// they depend on, and wait.
    Ignore,
}

impl Document {
    /// Loads what [`Document::save`], [`Document::save_after`], [`Document::save_incremental`] or
    /// another Automerge wrote, or any concatenation of it. No bytes are an empty document.
    ///
    /// # Errors
    /// [`Error::History`] for bytes that are no chunks, or not the chunks they say they are;
    /// [`Error::Row`] and [`Error::Op`] for content that contradicts itself;
    /// [`Error::DuplicateSeq`]; [`Error::MissingDeps`] for a file that begins with changes and
    /// lacks some they depend on.
    pub fn load(bytes: &[u8], actor: ActorId, options: &LoadOptions) -> Result<Self, Error> {
        let mut doc = Self::with_encoding(actor, options.encoding);
        // What a trusted file may ask for is not what strangers may later.
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

    /// The changes of a chunk that comes after others.
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

    /// Makes an empty document the one that a document chunk holds.
    fn load_document(&mut self, chunk: &DocumentChunk, verify: Verify) -> Result<(), Error> {
        for actor in chunk.actors() {
            self.intern_actor(actor);
        }
        let graph = &mut self.graph;
        let ops = &mut self.ops;
        // Hashing the history and building the objects do not need each other.
        let is_large = chunk.op_count() + chunk.change_count() >= PARALLEL_FROM;
        if is_large && verify != Verify::Later {
            let (loaded, built) =
                rayon::join(|| graph.load(chunk, verify), || build::build(ops, chunk));
            loaded?;
            return built;
        }
        graph.load(chunk, verify)?;
        build::build(ops, chunk)
    }
}

/// From this many ops and changes on, threads are worth their start.
const PARALLEL_FROM: usize = 1 << 12;
