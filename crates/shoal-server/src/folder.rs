//! A database meets a folder of files, which other programs carry from machine to machine.
//!
//! A folder holds `NAME.automerge` files, or is the storage folder of automerge-repo. Changes go
//! both ways: into the database by one commit for each document, then into the file. A file is
//! replaced as a whole, and the replaced bytes are looked at: where somebody else had changed it
//! meanwhile, these changes are taken in as well, and the file is written again. Conflicted copies,
//! which carriers leave beside a file, are merged and stay where they are.

mod files;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use shoal::{Access, Database, Document, Environment, OpenDocument, StoredDocument};
use shoal_crdt::SaveOptions;
use shoal_history::{Change, ChangeHash, Chunk, chunks};
use shoal_sync::Limits;

use crate::Error;
use crate::pair::{
    ConflictedCopy, LeftAlone, PairError, PairOptions, PairReport, PairedDocument, named,
    refused_names,
};
use files::{Files, Part, Written};

/// How often a file that others go on changing is written again.
const ATTEMPTS: usize = 20;

/// Lets a database and a folder meet. Blocks.
///
/// Cost: every file is read; documents whose heads differ are loaded, one at a time.
///
/// # Errors
/// [`Error::Database`] where the database cannot be read, [`Error::Io`] where the folder cannot.
/// Documents at fault are in the report.
pub fn sync(options: &PairOptions, folder: &Path) -> Result<PairReport, Error> {
    let mut database = Database::open(options.environment.clone(), &options.path, Access::Create)?;
    let stored = database.documents()?;
    let refused = refused_names(&mut database, &stored)?;
    let stored: BTreeMap<String, StoredDocument> =
        stored.into_iter().map(|document| (document.name.clone(), document)).collect();
    let mut files = Files::of(folder)?;
    let wanted: BTreeSet<String> = options.documents.iter().map(|name| named(name)).collect();
    let mut report = PairReport { failed: files.take_faults(), ..PairReport::default() };
    let present = stored.values().filter(|document| !document.heads.is_empty());
    let mut all: BTreeSet<String> = present.map(|document| document.name.clone()).collect();
    all.extend(files.names());
    if let Some(name) = wanted.iter().find(|name| !all.contains(*name)) {
        return Err(PairError::NoDocument { name: name.clone() }.into());
    }
    for name in all {
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        if let Some(why) = refused.get(&name) {
            report.left_alone.push(LeftAlone { name, is_ours: true, why: *why });
            continue;
        }
        if !files.may_hold(&name) {
            // Of a storage folder, documents without an id are none's.
            continue;
        }
        let heads = stored.get(&name).map(|document| document.heads.as_slice());
        let mut meeting = Meeting {
            database: &mut database,
            environment: &options.environment,
            limits: options.limits,
            needs_kin: !options.takes_unrelated,
            files: &mut files,
            report: &mut report,
        };
        if let Err(why) = meeting.run(&name, heads) {
            report.failed.push((name, why));
        }
    }
    Ok(report)
}

struct Meeting<'a> {
    database: &'a mut Database,
    environment: &'a Environment,
    limits: Limits,
    needs_kin: bool,
    files: &'a mut Files,
    report: &'a mut PairReport,
}

impl Meeting<'_> {
    /// Makes a document and its files the same; errors are for people.
    fn run(&mut self, name: &str, heads: Option<&[ChangeHash]>) -> Result<(), String> {
        let mut parts = self.read(name)?;
        if let ([Part { bytes, is_copy: false, .. }], Some(heads)) = (parts.as_slice(), heads)
            && whole_heads(bytes).is_some_and(|theirs| theirs == heads)
        {
            self.report.same += 1;
            return Ok(());
        }
        let opened = self.database.open_or_create(name);
        let mut open = opened.map_err(|error| error.to_string())?;
        let before = open.changes().len() as u64;
        let mut lacked = None;
        for _ in 0..ATTEMPTS {
            let (in_files, drafts) = self.take(name, &mut open, &parts)?;
            self.database.commit(&mut open).map_err(|error| error.to_string())?;
            drafts.iter().for_each(|draft| Files::forget(draft));
            let missing =
                open.changes().filter(|change| !in_files.graph().contains(&change.hash()));
            let missing: Vec<&Change> = missing.collect();
            lacked.get_or_insert(missing.len() as u64);
            if missing.is_empty() {
                let received = open.changes().len() as u64 - before;
                return self.close(name, open, (received, lacked.unwrap_or(0)));
            }
            let whole = || open.to_bytes(SaveOptions::default());
            let written = self.files.write(name, &parts, &missing, &open.heads(), whole);
            match written.map_err(|error| error.to_string())? {
                Written::Done(bytes) => {
                    self.report.bytes_out += bytes;
                    let received = open.changes().len() as u64 - before;
                    return self.close(name, open, (received, lacked.unwrap_or(0)));
                }
                // Somebody else was here: again, with what they left.
                Written::Changed => parts = self.read(name)?,
            }
        }
        Err("others change its file all the time".to_owned())
    }

    fn close(
        &mut self,
        name: &str,
        open: OpenDocument,
        (received, sent): (u64, u64),
    ) -> Result<(), String> {
        self.database.close(open).map_err(|error| error.to_string())?;
        match (received, sent) {
            (0, 0) => self.report.same += 1,
            _ => {
                self.report.documents.push(PairedDocument {
                    name: name.to_owned(),
                    received,
                    sent,
                });
            }
        }
        Ok(())
    }

    fn read(&mut self, name: &str) -> Result<Vec<Part>, String> {
        let parts = self.files.read(name).map_err(|error| error.to_string())?;
        self.report.bytes_in += parts.iter().map(|part| part.bytes.len() as u64).sum::<u64>();
        Ok(parts)
    }

    /// Takes the changes of files into a document, in memory; gives the document of the files that
    /// are no copies, and the drafts that have nothing of their own any more.
    fn take(
        &mut self,
        name: &str,
        open: &mut OpenDocument,
        parts: &[Part],
    ) -> Result<(Document, Vec<PathBuf>), String> {
        let mut drafts = Vec::new();
        let mut main = Document::new(self.environment.new_actor());
        for part in parts.iter().filter(|part| !part.is_copy) {
            self.load(&mut main, part)?;
        }
        self.merge(open, &main)?;
        for part in parts.iter().filter(|part| part.is_copy) {
            let mut copy = Document::new(self.environment.new_actor());
            let before = open.changes().len() as u64;
            let taken = self.load(&mut copy, part).and_then(|()| self.merge(open, &copy));
            match taken {
                Ok(()) if part.is_draft => drafts.push(part.path.clone()),
                Ok(()) => {
                    let (file, name) = (part.path.clone(), name.to_owned());
                    let brought = open.changes().len() as u64 - before;
                    let known = self.report.copies.iter_mut().find(|copy| copy.file == file);
                    match known {
                        Some(known) => known.brought += brought,
                        None => self.report.copies.push(ConflictedCopy { file, name, brought }),
                    }
                }
                Err(why) => {
                    let fault = (part.path.display().to_string(), why);
                    if !self.report.failed.contains(&fault) {
                        self.report.failed.push(fault);
                    }
                }
            }
        }
        Ok((main, drafts))
    }

    /// Loads the bytes of a stranger. A fault of this program found by them is theirs.
    fn load(&self, document: &mut Document, part: &Part) -> Result<(), String> {
        let loaded =
            panic::catch_unwind(AssertUnwindSafe(|| document.load_incremental(&part.bytes)));
        match loaded {
            Ok(Ok(_)) => {}
            // One of many parts may be cut by a crash: the others count.
            Ok(Err(_)) if part.is_one_of_many => return Ok(()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("its changes cannot be taken in".to_owned()),
        }
        let all = document.changes().chain(document.queued_changes());
        let highest = all.map(Change::max_op).max().unwrap_or(0);
        let waiting = document.queued_changes().len();
        if highest > self.limits.op_counter || waiting > self.limits.waiting_changes {
            return Err("its changes are beyond the bounds".to_owned());
        }
        Ok(())
    }

    fn merge(&self, open: &mut OpenDocument, other: &Document) -> Result<(), String> {
        let is_kin = open.is_empty()
            || other.is_empty()
            || other.changes().any(|change| open.graph().contains(&change.hash()));
        if self.needs_kin && !is_kin {
            return Err("the two histories have no change in common".to_owned());
        }
        let all = other.changes().chain(other.queued_changes());
        let lacking = all.filter(|change| !open.graph().contains(&change.hash()));
        let lacking: Vec<Change> = lacking.cloned().collect();
        open.apply_changes(lacking).map_err(|error| error.to_string())
    }
}

/// The heads of a file that is one document chunk. The chunk's checksum is compared.
fn whole_heads(bytes: &[u8]) -> Option<Vec<ChangeHash>> {
    let mut all = chunks(bytes, &shoal_history::Limits::default());
    let (first, rest) = (all.next()?.ok()?, all.next());
    match (first, rest) {
        (Chunk::Document(document), None) => {
            let mut heads = document.heads().to_vec();
            heads.sort_unstable();
            Some(heads)
        }
        _ => None,
    }
}
