//! Verification: faults of a ledger, and questions one file leaves open.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::thread;

use shoal_stdx::hex;

use crate::entry::{Entry, Hash, WriterId, writer_of};
use crate::ledger::chains;
use crate::merkle;
use crate::payload::{Head, Payload, covers};
use crate::signatures::KeyTables;

/// Knowledge of a verifier from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions<'o> {
    /// Writers believed without an admission; none leaves the question open.
    pub roots: &'o [WriterId],
    /// A head of this file's log, remembered from earlier.
    pub head: Option<&'o Head>,
}

/// A place where a ledger does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The entry's number in the file; 0 for the file as a whole.
    pub id: i64,
    /// The fault.
    pub kind: FaultKind,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// The signature is not the key's for these bytes.
    Signature,
    /// The stored hash differs from the hash of the bytes.
    Hash,
    /// The same entry stands in the file twice.
    Replayed,
    /// The chain's first entry is no `join` of the key the writer is named after.
    NoJoin,
    /// Another key signs for the chain at this place.
    Key,
    /// An entry before this one is missing from the chain.
    Gap,
    /// The entry before is not the predecessor named by the entry.
    Link,
    /// Two entries of one writer have one sequence.
    Fork,
    /// The entry stands before an entry followed or named by this one.
    Reordered,
    /// The payload is none of its kind.
    Payload,
    /// Nobody believed let the writer write.
    NotAdmitted,
    /// The entry is behind the last one believed of its writer.
    Revoked,
    /// The writer may not sign for this table or document, or not let others write.
    Scope,
    /// A signed or remembered head is not the head of the entries before.
    Head,
    /// Entries of a remembered head are missing.
    Truncated,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Signature => "the signature is not the key's",
            FaultKind::Hash => "the stored hash is not the entry's",
            FaultKind::Replayed => "the entry stands here a second time",
            FaultKind::NoJoin => "the writer's chain does not begin with the writer's own key",
            FaultKind::Key => "another key signs for the writer here",
            FaultKind::Gap => "entries of the writer before this one are missing",
            FaultKind::Link => "the entry follows another one than stands before it",
            FaultKind::Fork => "the writer wrote two entries with this number",
            FaultKind::Reordered => "the entry stands before one it follows",
            FaultKind::Payload => "the payload is none of its kind",
            FaultKind::NotAdmitted => "nobody believed let the writer write",
            FaultKind::Revoked => "the writer is no longer believed here",
            FaultKind::Scope => "the writer may not sign this",
            FaultKind::Head => "the head is not that of the entries",
            FaultKind::Truncated => "entries under the remembered head are missing",
        })
    }
}

/// A question one file leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unknown {
    /// Entries may be missing at the end: no head was remembered.
    Tail,
    /// The writers without an admission are believed because they are there.
    Roots,
    /// Heads of other files' logs are signed here.
    OtherLogs,
    /// Entries name heads missing from this file.
    Unseen,
    /// Times are the writers' claims.
    Times,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unknown::Tail => "whether entries are missing at the end: no earlier head was given",
            Unknown::Roots => "whether the first writers are who they should be: none was named",
            Unknown::OtherLogs => "whether heads of other files' logs are right",
            Unknown::Unseen => "entries of other writers that are named here and not in this file",
            Unknown::Times => "when entries were written: their times are their writers' words",
        })
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Entries looked at.
    pub entries: u64,
    /// Writers with an entry.
    pub writers: u64,
    /// All faults, by entry.
    pub faults: Vec<Fault>,
    /// Open questions.
    pub unknown: Vec<Unknown>,
}

impl Report {
    /// True where nothing was found wrong.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

pub(crate) fn verify(
    ledger: &[u8; 16],
    log: &[u8; 16],
    entries: &[(i64, Hash, Entry)],
    options: &VerifyOptions<'_>,
) -> Report {
    let hashes: Vec<Hash> = entries.iter().map(|(_, _, entry)| entry.hash(ledger)).collect();
    let mut verifying = Verifying { entries, hashes: &hashes, report: Report::default() };
    verifying.report.entries = entries.len() as u64;
    verifying.signatures();
    verifying.chains();
    verifying.rights(options.roots);
    verifying.heads(log, options.head);
    let mut report = verifying.report;
    if !entries.is_empty() {
        report.unknown.push(Unknown::Times);
    }
    report.faults.sort_by_key(|fault| (fault.id, fault.kind));
    report.faults.dedup();
    report.unknown.sort();
    report.unknown.dedup();
    report
}

struct Verifying<'v> {
    entries: &'v [(i64, Hash, Entry)],
    hashes: &'v [Hash],
    report: Report,
}

impl Verifying<'_> {
    fn fault(&mut self, place: usize, kind: FaultKind) {
        let id = self.entries[place].0;
        self.report.faults.push(Fault { id, kind });
    }

    /// Signatures, on all cores; stored hashes; entries twice.
    fn signatures(&mut self) {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = self.entries.len().div_ceil(threads).max(1);
        let hashes = self.hashes;
        let tables = &KeyTables::of(self.entries.iter().map(|(_, _, entry)| &entry.key));
        let bad: Vec<usize> = thread::scope(|scope| {
            let check = |(part, entries): (usize, &[(i64, Hash, Entry)])| {
                let numbered = (part * share..).zip(entries);
                let bad =
                    numbered.filter(|(at, (_, _, entry))| !entry.signs_by(tables, &hashes[*at]));
                bad.map(|(at, _)| at).collect::<Vec<_>>()
            };
            let parts = self.entries.chunks(share).enumerate();
            let running: Vec<_> = parts.map(|part| scope.spawn(move || check(part))).collect();
            let join = |it: thread::ScopedJoinHandle<'_, Vec<usize>>| {
                it.join().expect("checking a signature does not panic")
            };
            running.into_iter().flat_map(join).collect()
        });
        for place in bad {
            self.fault(place, FaultKind::Signature);
        }
        let mut known = HashSet::new();
        for place in 0..self.entries.len() {
            if self.entries[place].1 != self.hashes[place] {
                self.fault(place, FaultKind::Hash);
            }
            if !known.insert(self.hashes[place]) {
                self.fault(place, FaultKind::Replayed);
            }
        }
    }

    /// Each writer's chain, and the heads named by entries.
    fn chains(&mut self) {
        let chains = chains(self.entries);
        self.report.writers = chains.len() as u64;
        for (writer, places) in &chains {
            self.chain(writer, places);
        }
        let places: HashMap<Hash, usize> =
            self.hashes.iter().enumerate().map(|(place, hash)| (*hash, place)).collect();
        for place in 0..self.entries.len() {
            for head in &self.entries[place].2.seen {
                match places.get(head) {
                    Some(seen) if *seen < place => {}
                    Some(_) => self.fault(place, FaultKind::Reordered),
                    None => self.report.unknown.push(Unknown::Unseen),
                }
            }
        }
    }

    fn chain(&mut self, writer: &WriterId, places: &[usize]) {
        let mut last: Option<usize> = None;
        let mut key = [0; 32];
        for place in places {
            let place = *place;
            let (_, _, entry) = &self.entries[place];
            let payload = Payload::read(&entry.kind, &entry.payload);
            if payload == Payload::Broken {
                self.fault(place, FaultKind::Payload);
            }
            let Some(before) = last else {
                if entry.sequence != 1 {
                    self.fault(place, FaultKind::Gap);
                } else if !matches!(payload, Payload::Join(_))
                    || writer_of(&entry.key) != *writer
                    || entry.previous != [0; 32]
                {
                    self.fault(place, FaultKind::NoJoin);
                }
                key = entry.key;
                last = Some(place);
                continue;
            };
            let previous = &self.entries[before].2;
            if entry.sequence == previous.sequence {
                if self.hashes[place] != self.hashes[before] {
                    self.fault(before, FaultKind::Fork);
                    self.fault(place, FaultKind::Fork);
                }
                continue;
            }
            if entry.sequence != previous.sequence + 1 {
                self.fault(place, FaultKind::Gap);
            } else if entry.previous != self.hashes[before] {
                self.fault(place, FaultKind::Link);
            }
            if place < before {
                self.fault(place, FaultKind::Reordered);
            }
            if let Payload::Rotate(rotation) = Payload::read(&previous.kind, &previous.payload) {
                key = key_of(&rotation.key).unwrap_or(key);
            }
            if entry.key != key {
                self.fault(place, FaultKind::Key);
            }
            if matches!(payload, Payload::Join(_)) {
                self.fault(place, FaultKind::Payload);
            }
            last = Some(place);
        }
    }

    /// Admissions, scopes and revocations, in the file's order. An entry behind a revocation gives
    /// no right and takes none, so revocations are looked for until none is new.
    fn rights(&mut self, roots: &[WriterId]) {
        let unsound: HashSet<i64> = self.report.faults.iter().map(|fault| fault.id).collect();
        let mut believed = HashSet::from_iter(roots.iter().copied());
        if roots.is_empty()
            && let Some((_, _, first)) = self.entries.first()
        {
            // The writer of the first entry is the root suggested by the file itself.
            believed.insert(first.writer);
            self.report.unknown.push(Unknown::Roots);
        }
        let mut rights = Rights::of(self.entries, &unsound, &believed, &BTreeMap::new());
        for _ in 0..ROUNDS {
            let next = Rights::of(self.entries, &unsound, &believed, &rights.revoked);
            let is_stable = next.revoked == rights.revoked;
            rights = next;
            if is_stable {
                break;
            }
        }
        for place in 0..self.entries.len() {
            let entry = &self.entries[place].2;
            if rights.revoked.get(&entry.writer).is_some_and(|last| entry.sequence > *last) {
                self.fault(place, FaultKind::Revoked);
            }
        }
        for (place, kind) in rights.faults {
            self.fault(place, kind);
        }
    }

    /// Signed heads of this file's log, and the remembered one.
    fn heads(&mut self, log: &[u8; 16], remembered: Option<&Head>) {
        let log = hex::encode(log);
        let of_entry =
            |(_, _, entry): &(i64, Hash, Entry)| match Payload::read(&entry.kind, &entry.payload) {
                Payload::Head(head) => Some(head),
                _ => None,
            };
        let heads: Vec<Option<Head>> = self.entries.iter().map(of_entry).collect();
        let wanted: HashSet<u64> =
            heads.iter().flatten().chain(remembered).map(|head| head.size).collect();
        let mut growing = merkle::Growing::default();
        // Root by size: heads are of earlier entries, so each size was passed by then.
        let mut roots = HashMap::from([(0, growing.root())]);
        for (place, head) in heads.iter().enumerate() {
            if let Some(head) = head {
                if head.log != log {
                    self.report.unknown.push(Unknown::OtherLogs);
                } else if !is_head(head, &roots) {
                    self.fault(place, FaultKind::Head);
                }
            }
            growing.push(&self.hashes[place]);
            let size = place as u64 + 1;
            if wanted.contains(&size) {
                roots.insert(size, growing.root());
            }
        }
        let whole = |kind| Fault { id: 0, kind };
        match remembered {
            None => self.report.unknown.push(Unknown::Tail),
            Some(head) if head.log != log => {
                self.report.unknown.extend([Unknown::OtherLogs, Unknown::Tail]);
            }
            Some(head) if head.size > self.entries.len() as u64 => {
                self.report.faults.push(whole(FaultKind::Truncated));
            }
            Some(head) if !is_head(head, &roots) => {
                self.report.faults.push(whole(FaultKind::Head));
            }
            Some(_) => {}
        }
    }
}

/// Most passes over all entries for revocations undoing each other; entries behind any are named
/// in each case.
const ROUNDS: usize = 16;

/// The rights to sign, after all entries.
#[derive(Default)]
struct Rights {
    /// The scopes of each writer; `None` for everything.
    scopes: BTreeMap<WriterId, Option<Vec<String>>>,
    admitted_by: BTreeMap<WriterId, WriterId>,
    /// Writers by the last sequence believed.
    revoked: BTreeMap<WriterId, u64>,
    faults: Vec<(usize, FaultKind)>,
}

impl Rights {
    /// Rights by the sound entries not behind one of the revocations known before; a
    /// writer's word against itself counts from anywhere.
    fn of(
        entries: &[(i64, Hash, Entry)],
        unsound: &HashSet<i64>,
        roots: &HashSet<WriterId>,
        before: &BTreeMap<WriterId, u64>,
    ) -> Rights {
        let mut rights = Rights::default();
        rights.scopes.extend(roots.iter().map(|root| (*root, None)));
        for (place, (id, _, entry)) in entries.iter().enumerate() {
            if unsound.contains(id) {
                continue;
            }
            let payload = Payload::read(&entry.kind, &entry.payload);
            let is_behind = before.get(&entry.writer).is_some_and(|last| entry.sequence > *last);
            let is_own = matches!(&payload, Payload::Revoke(revocation)
                if key_of(&revocation.writer) == Some(entry.writer));
            if is_behind && !is_own {
                continue;
            }
            if let Err(kind) = rights.take(entry, payload) {
                rights.faults.push((place, kind));
            }
        }
        rights
    }

    fn take(&mut self, entry: &Entry, payload: Payload) -> Result<(), FaultKind> {
        let Some(scopes) = self.scopes.get(&entry.writer) else {
            let is_join = matches!(payload, Payload::Join(_));
            return if is_join { Ok(()) } else { Err(FaultKind::NotAdmitted) };
        };
        let is_root = scopes.is_none();
        let may = |thing: &str| scopes.as_ref().is_none_or(|scopes| covers(scopes, thing));
        match payload {
            Payload::Changeset(tables) if !tables.iter().all(|table| may(table)) => {
                Err(FaultKind::Scope)
            }
            Payload::Document(signed) if !may(&format!("document:{}", signed.document)) => {
                Err(FaultKind::Scope)
            }
            Payload::Admit(admission) => {
                if !may("admit") || !admission.scopes.iter().all(|scope| may(scope)) {
                    return Err(FaultKind::Scope);
                }
                if let Some(writer) = key_of(&admission.writer)
                    && !self.scopes.get(&writer).is_some_and(Option::is_none)
                {
                    self.scopes.insert(writer, Some(admission.scopes));
                    self.admitted_by.entry(writer).or_insert(entry.writer);
                }
                Ok(())
            }
            Payload::Revoke(revocation) => {
                let Some(writer) = key_of(&revocation.writer) else { return Ok(()) };
                let is_own = writer == entry.writer;
                if !is_root && !is_own && self.admitted_by.get(&writer) != Some(&entry.writer) {
                    return Err(FaultKind::Scope);
                }
                let last = self.revoked.entry(writer).or_insert(revocation.last);
                *last = revocation.last.min(*last);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// True for a head whose root is the one listed for its size.
fn is_head(head: &Head, roots: &HashMap<u64, Hash>) -> bool {
    roots.get(&head.size).is_some_and(|root| hex::encode(root) == head.root)
}

fn key_of(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.as_slice().try_into().ok()
}
