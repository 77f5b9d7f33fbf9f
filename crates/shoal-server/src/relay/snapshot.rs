//! Snapshots: whole documents in the object store, for relays behind the stream's beginning.
//!
//! A writer replaces a pointer only after taking in the pointer's snapshot, or finding the snapshot
//! unreadable. NATS compares the pointer's sequence: of two relays writing at once, the later reads
//! the earlier's snapshot first.

use std::io::Cursor;
use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use shoal_crdt::SaveOptions;
use shoal_history::ChangeHash;
use shoal_sync::{DocumentId, Fault};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::desk::Arrival;
use super::figures::add;
use super::ledger::same;
use super::message::Pointer;
use super::nats::{Session, Shared, Why, at};

/// An object is read and written within this time.
const OBJECT: Duration = Duration::from_secs(60);
/// Attempts at a pointer moved by others meanwhile.
const ATTEMPTS: usize = 5;

impl Shared {
    /// Takes in the snapshot of a pointer, unless known; true once all of its changes are.
    pub(super) async fn follow(
        &self,
        session: &Session,
        document: DocumentId,
        pointer: Pointer,
    ) -> Result<bool, Why> {
        let is_shared = self.ledger().shares(&document, &pointer.heads);
        if is_shared || self.has(&document, &pointer.heads).await? {
            self.ledger().covered(&document, &pointer.heads);
            return Ok(true);
        }
        let Some(chunks) = self.fetch(session, &pointer).await else {
            self.figures.skip("snapshot", 1);
            self.ledger().wait(&document, self.now_ms());
            return Ok(false);
        };
        let hashes = pointer.heads.clone();
        let arrival = Arrival { document: document.clone(), chunks, hashes };
        match self.store(vec![arrival]).await?.pop() {
            Some(Ok(arrived)) => {
                add(&self.figures.snapshots_read, 1);
                add(&self.figures.received, arrived.stored);
                if arrived.missing.is_empty() {
                    self.ledger().covered(&document, &pointer.heads);
                    return Ok(true);
                }
                self.ledger().wait(&document, self.now_ms());
            }
            Some(Err(fault)) => self.figures.skip(fault.word(), 1),
            None => {}
        }
        Ok(false)
    }

    /// The bytes of a snapshot; `None` for a missing, too large or damaged object.
    async fn fetch(&self, session: &Session, pointer: &Pointer) -> Option<Vec<u8>> {
        let reading = async {
            let mut object = session.objects.get(&pointer.object).await.ok()?;
            if object.info.size > self.limits.frame_bytes {
                return None;
            }
            let mut bytes = Vec::new();
            let bound = self.limits.frame_bytes as u64;
            (&mut object).take(bound + 1).read_to_end(&mut bytes).await.ok()?;
            (bytes.len() <= self.limits.frame_bytes).then_some(bytes)
        };
        timeout(OBJECT, reading).await.ok().flatten()
    }

    /// True when the database has all of these changes.
    async fn has(&self, document: &DocumentId, hashes: &[ChangeHash]) -> Result<bool, Why> {
        let (id, all) = (document.clone(), hashes.to_vec());
        if let Some(has) = self.ask(move |storage| storage.has_all(&id, &all)).await? {
            return Ok(has);
        }
        let (name, all) = (document.to_string(), hashes.to_vec());
        let read = self.reader.ask(move |database| {
            let open = database.open_document(&name);
            open.is_ok_and(|open| all.iter().all(|hash| open.graph().contains(hash)))
        });
        read.await.map_err(at("documents"))
    }

    /// Writes due snapshots.
    pub(super) async fn write_snapshots(&self, session: &Session) -> Result<(), Why> {
        loop {
            let Some(document) = self.ledger().take_snapshot() else {
                self.snapshot_due.notified().await;
                continue;
            };
            let written = self.write_snapshot(session, &document).await;
            if written.is_err() {
                self.ledger().want_snapshot(document);
            }
            written?;
        }
    }

    async fn write_snapshot(&self, session: &Session, document: &DocumentId) -> Result<(), Why> {
        let subject = self.subject("snapshot", document.as_str());
        for _ in 0..ATTEMPTS {
            let last = session.pointers.get_last_raw_message_by_subject(&subject).await;
            let (sequence, before) = match last {
                Ok(last) => (last.sequence, Pointer::decode(&last.payload)),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => (0, None),
                Err(error) => return Err(at("snapshot")(error)),
            };
            if let Some(before) = &before {
                self.ledger().points(document, before.clone());
                self.follow(session, document.clone(), before.clone()).await?;
            }
            let known = before.as_ref().map(|before| before.heads.clone()).unwrap_or_default();
            let Some((heads, bytes)) = self.saved(document, known).await? else { return Ok(()) };
            if bytes.len() > self.limits.frame_bytes {
                self.figures.skip("too_large", 1);
                return Ok(());
            }
            let mut random = [0; 8];
            self.environment.fill(&mut random);
            let object = format!("{document}-{}", shoal_stdx::hex::encode(&random));
            let mut source = Cursor::new(bytes);
            let put = session.objects.put(object.as_str(), &mut source);
            timeout(OBJECT, put).await.map_err(at("snapshot"))?.map_err(at("snapshot"))?;
            let pointer = Pointer { object: object.clone(), heads };
            let message = PublishMessage::build()
                .payload(pointer.encode().into())
                .expected_last_subject_sequence(sequence);
            let sent = session.context.send_publish(subject.clone(), message).await;
            let acknowledged = match sent {
                Ok(acknowledgement) => acknowledgement.await,
                Err(error) => Err(error),
            };
            match acknowledged {
                Ok(_) => {
                    add(&self.figures.snapshots_written, 1);
                    // Its readers find the new pointer.
                    if let Some(before) = before {
                        let _ = session.objects.delete(&before.object).await;
                    }
                    let mut ledger = self.ledger();
                    ledger.covered(document, &pointer.heads);
                    ledger.points(document, pointer);
                    return Ok(());
                }
                Err(error) => {
                    let _ = session.objects.delete(&object).await;
                    match error.kind() {
                        PublishErrorKind::WrongLastSequence => {}
                        PublishErrorKind::MaxPayloadExceeded => {
                            self.figures.skip("too_large", 1);
                            return Ok(());
                        }
                        _ => return Err(at("snapshot")(error)),
                    }
                }
            }
        }
        // Others write all the time.
        Ok(())
    }

    /// A document's heads and bytes; `None` for an absent, denied or unreadable one, and for one
    /// whose heads are in NATS.
    async fn saved(
        &self,
        document: &DocumentId,
        known: Vec<ChangeHash>,
    ) -> Result<Option<(Vec<ChangeHash>, Vec<u8>)>, Why> {
        let name = document.to_string();
        let read = self.reader.ask(move |database| {
            if database.denied()?.contains(&name) {
                return Ok(None);
            }
            match database.open_document(&name) {
                Ok(open) if !same(&open.heads(), &known) => {
                    Ok(Some((open.heads(), open.to_bytes(SaveOptions::default()))))
                }
                Ok(_) | Err(shoal::Error::NoDocument { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        match read.await.map_err(at("documents"))? {
            Ok(saved) => Ok(saved),
            Err(_) => {
                self.figures.skip(Fault::Unreadable.word(), 1);
                Ok(None)
            }
        }
    }
}
