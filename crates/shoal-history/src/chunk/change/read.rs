//! Reading changes: everything is checked here, so later accessors cannot fail.

use rayon::prelude::*;

use super::store::{self, Canonical, Entry, Span, Store};
use super::{Change, ChangeOps, op_id, sort_links};
use crate::chunk::columns::{COLUMN_COUNT, LINK_COUNTER, NAMES, OpColumns, change_column};
use crate::chunk::compressed::{self, InflateError};
use crate::chunk::header::{self, Envelope};
use crate::chunk::op_one;
use crate::chunk::op_rows::{self};
use crate::chunk::parts;
use crate::column::leb128::Reader;
use crate::column::spec;
use crate::error::ColumnFault;
use crate::limits::Used;
use crate::{ActorId, ActorIdx, ChangeHash, ChunkType, Error, Fault, Limits, OpId};

/// Changes of about this many bytes share memory, and are read by one thread.
pub(crate) const SHARD_BYTES: usize = 1 << 17;

impl Change {
    /// Reads the one change or compressed change chunk that `bytes` are, with the default limits.
    ///
    /// # Errors
    /// When it is something else, or invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::from_bytes_within(bytes, &Limits::default())
    }

    /// Like [`from_bytes`](Self::from_bytes), with other limits.
    ///
    /// # Errors
    /// When it is something else, or invalid, or exceeds `limits`.
    pub fn from_bytes_within(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut store = Store::default();
        store.read_alone(bytes, &limits.of_input(bytes.len()))?;
        Ok(store.into_change())
    }

    /// Reads changes that came together, each as [`from_bytes`](Self::from_bytes) does. Cost: less
    /// than one by one, because neighbours share memory, and many are read on all cores. One of
    /// them keeps 128 KiB of its neighbours in memory at most.
    ///
    /// # Errors
    /// For the first that is something else, or invalid; when together they exceed the default
    /// limits.
    pub fn read_all<B: AsRef<[u8]> + Sync>(chunks: &[B]) -> Result<Vec<Self>, Error> {
        if let [only] = chunks {
            return Ok(vec![Self::from_bytes(only.as_ref())?]);
        }
        let mut shards = Vec::new();
        let (mut start, mut len) = (0, 0);
        for (at, chunk) in chunks.iter().enumerate() {
            if len >= SHARD_BYTES {
                shards.push((start..at, len));
                (start, len) = (at, 0);
            }
            len += chunk.as_ref().len();
        }
        shards.push((start..chunks.len(), len));
        let all = Limits::default();
        let input_len = chunks.iter().map(|chunk| chunk.as_ref().len()).sum();
        let mut left = all.of_input(input_len);
        let read = |(range, len): &(std::ops::Range<usize>, usize), left: &Limits| {
            let mut store = Store::with_room(range.len(), *len);
            let mut used = Vec::with_capacity(range.len());
            for chunk in chunks[range.clone()].iter().map(AsRef::as_ref) {
                let limits = left.of_chunk(&all, chunk.len(), input_len);
                used.push(store.read_alone(chunk, &limits)?);
            }
            Ok((store.into_changes(), used))
        };
        let mut changes = Vec::with_capacity(chunks.len());
        let mut add = |part: Result<(Vec<Self>, Vec<Used>), Error>, left: &mut Limits| {
            let (mut part, used) = part?;
            used.iter().try_for_each(|used| left.spend(ChunkType::Change, used))?;
            changes.append(&mut part);
            Ok(())
        };
        // Side by side, chunks do not know the inflated size of each other.
        let inflated = chunks.iter().map(|chunk| inflated_at_most(chunk.as_ref()));
        if shards.len() == 1 || inflated.sum::<u64>() > left.max_decompressed_bytes {
            for shard in &shards {
                add(read(shard, &left), &mut left)?;
            }
            return Ok(changes);
        }
        let parts: Vec<_> = shards.par_iter().map(|shard| read(shard, &left)).collect();
        for part in parts {
            add(part, &mut left)?;
        }
        Ok(changes)
    }
}

impl Store {
    /// Adds the one change in `bytes`.
    fn read_alone(&mut self, bytes: &[u8], limits: &Limits) -> Result<Used, Error> {
        let envelope = Envelope::read(bytes)?;
        if envelope.len < bytes.len() {
            let left = (bytes.len() - envelope.len) as u64;
            return Err(Error::Envelope { fault: Fault::Leftover(left) });
        }
        self.read(bytes, &envelope, limits)
    }

    /// Adds the change of a change or compressed change chunk. `bytes` begin with the chunk of
    /// `envelope`. Returns its share of the limits.
    ///
    /// # Errors
    /// For another chunk, or an invalid one; nothing is added then.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        envelope: &Envelope<'_>,
        limits: &Limits,
    ) -> Result<Used, Error> {
        let (raw_len, actors_len, deps_len) = (self.raw.len(), self.actors.len(), self.deps.len());
        envelope.check_len(limits)?;
        let result = match envelope.chunk_type {
            ChunkType::Change => check(bytes, envelope).and_then(|hash| {
                // A length has one form only, so these bytes are the bytes of a writer.
                self.raw.extend_from_slice(&bytes[..envelope.len]);
                self.parse(raw_len, envelope.len - envelope.body.len(), hash, limits)
            }),
            ChunkType::CompressedChange => self.inflate(envelope, limits),
            chunk => Err(Error::Unsupported { chunk }),
        };
        if result.is_err() {
            self.raw.truncate(raw_len);
            self.actors.truncate(actors_len);
            self.deps.truncate(deps_len);
        }
        result
    }

    /// Adds a compressed change: the checksum covers the inflated change.
    fn inflate(&mut self, envelope: &Envelope<'_>, limits: &Limits) -> Result<Used, Error> {
        let chunk = ChunkType::CompressedChange;
        let max = limits.max_decompressed_bytes.min(u64::from(u32::MAX));
        let mut body = Vec::new();
        compressed::inflate(envelope.body, max, &mut body).map_err(|error| match error {
            InflateError::Fault(fault) => {
                Error::Corrupt { chunk, part: "deflated body", row: None, fault }
            }
            InflateError::TooLong => Error::Limit { chunk, what: "inflated bytes", max },
        })?;
        let hash = header::hash(ChunkType::Change, &body);
        if !hash.0.starts_with(&envelope.checksum) {
            return Err(Error::Envelope { fault: Fault::Checksum });
        }
        let start = self.raw.len();
        header::write(ChunkType::Change, hash, &body, &mut self.raw);
        let used = self.parse(start, self.raw.len() - start - body.len(), hash, limits)?;
        Ok(Used { decompressed_bytes: body.len() as u64, ..used })
    }

    /// Reads the chunk at the end of the raw bytes.
    fn parse(
        &mut self,
        start: usize,
        body_start: usize,
        hash: ChangeHash,
        limits: &Limits,
    ) -> Result<Used, Error> {
        let raw = &self.raw[start..];
        let mut reader = Reader::new(&raw[body_start..]);
        let at = |reader: &Reader<'_>| raw.len() - reader.len();
        let dep_count = reader.count(32).map_err(in_part("deps"))?;
        let deps_start = self.deps.len();
        for _ in 0..dep_count {
            self.deps.push(reader.hash().map_err(in_part("deps"))?);
        }
        let deps = Span::new(deps_start..self.deps.len());
        let author = reader.length_prefixed().map_err(in_part("actor"))?;
        let seq = reader.u32_minimal().and_then(nonzero).map_err(in_part("seq"))?;
        let start_op = reader.u32_minimal().and_then(nonzero).map_err(in_part("start op"))?;
        let time = reader.sleb_minimal().map_err(in_part("time"))?;
        let message = reader.length_prefixed().map_err(in_part("message"))?;
        if std::str::from_utf8(message).is_err() {
            return Err(in_part("message")(Fault::NotUtf8));
        }
        let message = Span::new(at(&reader) - message.len()..at(&reader));
        let other_count = reader.count(1).map_err(in_part("other actors"))?;
        if other_count as u64 >= u64::from(limits.max_actors) {
            let max = u64::from(limits.max_actors);
            return Err(Error::Limit { chunk: ChunkType::Change, what: "actors", max });
        }
        let mut others = reader.clone();
        for _ in 0..other_count {
            reader.length_prefixed().map_err(in_part("other actors"))?;
        }
        let others = std::iter::repeat_with(move || others.length_prefixed().unwrap_or_default());
        let table = std::iter::once(author).chain(others.take(other_count));
        let actors = store::intern(&self.entries, &mut self.actors, table, other_count + 1);

        let column_table = u32::try_from(at(&reader)).expect("a chunk is smaller than 4 GiB");
        let table = &raw[column_table as usize..];
        let id = OpId { counter: start_op, actor: ActorIdx(0) };
        let only = op_one::read(table, id, (other_count + 1) as u32);
        let only = only.filter(|_| limits.max_ops > 0 && limits.max_runs >= op_rows::OBJECT_RUNS);
        let (op_count, columns_len, used) = match only {
            Some((op, len)) => {
                let used = Used { ops: 1, runs: op.runs(), changes: 1, ..Used::default() };
                debug_assert_eq!(
                    check_columns(table, &self.actors.as_slice()[actors.range()], start_op, limits),
                    Ok((1, len, used)),
                    "{op:?} is read the same from the columns"
                );
                (1, len, used)
            }
            None => {
                let actors = &self.actors.as_slice()[actors.range()];
                check_columns(table, actors, start_op, limits)?
            }
        };
        let extra = Span::new(column_table as usize + columns_len..raw.len());
        self.entries.push(Entry {
            hash,
            start,
            len: u32::try_from(raw.len()).expect("a chunk is smaller than 4 GiB"),
            actors,
            deps,
            seq,
            start_op,
            op_count,
            time,
            message,
            extra,
            column_table,
            canonical: Canonical::default(),
        });
        Ok(used)
    }
}

/// Reads the table of columns at the begin of `bytes`, and the columns: every op once, so later
/// reads cannot fail. Returns the number of ops, the bytes of table and columns, and their share of
/// the limits.
fn check_columns(
    bytes: &[u8],
    actors: &[ActorId],
    start_op: u32,
    limits: &Limits,
) -> Result<(u32, usize, Used), Error> {
    let mut reader = Reader::new(bytes);
    let mut deflated = None;
    let mut ranges = [const { 0..0 }; COLUMN_COUNT];
    let data_len = spec::each_column(&mut reader, |spec, range| {
        if spec.is_deflated() && deflated.is_none() {
            deflated = Some(spec.0);
        } else if let Some(index) = change_column(spec) {
            ranges[index] = range;
        }
    });
    let data_len = data_len.map_err(in_part("column table"))?;
    let data = reader.bytes(data_len).map_err(in_part("columns"))?;
    if let Some(spec) = deflated {
        return Err(in_part("column table")(Fault::ColumnDeflated(spec)));
    }
    let columns = ranges.map(|range| &data[range]);
    let counts =
        op_rows::count_rows(&columns).map_err(|fault| fault.in_chunk(ChunkType::Change))?;
    let max = u64::from(limits.max_ops);
    for (what, count) in [("ops", counts.ops), ("preds", counts.links)] {
        if count > max {
            return Err(Error::Limit { chunk: ChunkType::Change, what, max });
        }
    }
    let op_count = u32::try_from(counts.ops)
        .ok()
        .filter(|&count| (start_op - 1).checked_add(count).is_some())
        .ok_or_else(|| {
            let last = u64::from(start_op).saturating_add(counts.ops);
            in_part("start op")(Fault::Beyond32Bits(last))
        })?;
    let runs = check_ops(ChangeOps::new(&columns, actors, start_op, op_count), limits)?;
    let ops = counts.ops.max(counts.links);
    let used = Used { ops, runs, changes: 1, ..Used::default() };
    Ok((op_count, bytes.len() - reader.len(), used))
}

/// The hash of a change chunk, compared with its checksum.
fn check(bytes: &[u8], envelope: &Envelope<'_>) -> Result<ChangeHash, Error> {
    let hash = header::hash_of_chunk(&bytes[..envelope.len]);
    if hash.0.starts_with(&envelope.checksum) {
        Ok(hash)
    } else {
        Err(Error::Envelope { fault: Fault::Checksum })
    }
}

/// The columns of the ops in a chunk read before. Unknown columns stay in the bytes, unread.
pub(super) fn columns(raw: &[u8], column_table: u32) -> OpColumns<'_> {
    let mut reader = Reader::new(&raw[column_table as usize..]);
    let mut ranges = [const { 0..0 }; COLUMN_COUNT];
    spec::each_column(&mut reader, |spec, range| {
        if let Some(index) = change_column(spec) {
            ranges[index] = range;
        }
    })
    .expect("the table was read when it was parsed");
    let data = &raw[raw.len() - reader.len()..];
    ranges.map(|range| &data[range])
}

/// The most bytes the chunk `bytes` can be inflated to: none, unless a compressed change.
fn inflated_at_most(bytes: &[u8]) -> u64 {
    Envelope::read(bytes).map_or(0, |envelope| envelope.inflated_at_most())
}

/// Reads every op once, so later reads cannot fail. Returns the number of runs.
fn check_ops(mut ops: ChangeOps<'_>, limits: &Limits) -> Result<u64, Error> {
    let start = ops.next;
    let mut runs = 0;
    while ops.next < ops.end {
        let row = u32::try_from(ops.next - start).expect("a change has fewer than 2^32 ops");
        let at_row = |fault: ColumnFault| fault.at_row(ChunkType::Change, row);
        if let Some(run) = ops.next_run().map_err(at_row)? {
            runs += run.runs();
            continue;
        }
        let id = op_id(ops.next).expect("the greatest id was checked");
        let body = ops.rows.next(&mut ops.links).map_err(at_row)?;
        body.check(id).map_err(at_row)?;
        check_preds(&mut ops.links, id, ops.actors).map_err(at_row)?;
        ops.next += 1;
        runs += body.runs(id);
        parts::within(ChunkType::Change, runs, limits.max_runs, "runs of ops")?;
    }
    ops.rows.finish().map_err(|fault| fault.in_chunk(ChunkType::Change))?;
    parts::within(ChunkType::Change, runs, limits.max_runs, "runs of ops")?;
    Ok(runs)
}

/// Checks that the ops in `links` are before `id` and all different; sorts them.
pub(crate) fn check_preds(
    links: &mut [OpId],
    id: OpId,
    actors: &[ActorId],
) -> Result<(), ColumnFault> {
    if links.is_empty() {
        return Ok(());
    }
    let column = NAMES[LINK_COUNTER];
    if let Some(link) = links.iter().find(|link| link.counter >= id.counter) {
        return Err(ColumnFault { column, fault: Fault::NotBefore(link.counter) });
    }
    if links.len() > 1 {
        sort_links(links, actors);
    }
    match links.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ColumnFault { column, fault: Fault::RepeatedLink(pair[0].counter) }),
        None => Ok(()),
    }
}

fn nonzero(value: u32) -> Result<u32, Fault> {
    if value == 0 { Err(Fault::OutOfRange(0)) } else { Ok(value) }
}

fn in_part(part: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| Error::Corrupt { chunk: ChunkType::Change, part, row: None, fault }
}
