//! Rows inserted, changed and deleted: chunks are written in place.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_sql::{
    ConstraintKind, Error, OnConflict, ShadowBlob, ShadowTable, TableWrites, Value, ValueRef,
    VirtualRow, VirtualWriter,
};

use crate::definition::{Class, Kind, MetadataType, VectorColumn};
use crate::filter::compare;
use crate::index::writer::IndexWriter;
use crate::shadow::{Parts, Place, SHORT_TEXT};
use crate::vector::Vector;

/// The values of a row's columns as they are stored, checked.
#[derive(Debug)]
struct Checked {
    partitions: Vec<Value>,
    /// `None` for a vector to be left alone.
    vectors: Vec<Option<Vec<u8>>>,
    metadata: Vec<Option<Value>>,
    auxiliary: Vec<Option<Value>>,
}

/// The chunk for the next rows of a partition.
#[derive(Debug)]
struct OpenChunk {
    partitions: Vec<Value>,
    chunk: i64,
    /// One bit for each slot, set in slots with a row.
    validity: Vec<u8>,
}

/// Writes rows of a table.
#[derive(Debug)]
pub(crate) struct VectorWriter {
    parts: Arc<Parts>,
    open: Vec<OpenChunk>,
    /// Blobs of chunks, by the place of their table in the list of tables and their chunk. Rows
    /// added to a table of chunks, or taken out, make them stale.
    blobs: FxHashMap<(usize, i64), ShadowBlob>,
    /// The writers of the table's indexes.
    indexes: Vec<IndexWriter>,
    /// The largest rowid and chunk ever given, to be kept in `sqlite_sequence` by a flush.
    sequences: [Option<i64>; 2],
}

/// The numbers of the tables whose blobs are kept: vectors, then metadata, behind these two.
const VALIDITY: usize = 0;
const ROWIDS: usize = 1;
const VECTORS: usize = 2;
const METADATA: usize = 32;

/// The sequences.
const ROWID_SEQUENCE: usize = 0;
const CHUNK_SEQUENCE: usize = 1;

impl VectorWriter {
    pub(crate) fn new(parts: Arc<Parts>) -> VectorWriter {
        let (open, blobs) = (Vec::new(), FxHashMap::default());
        let indexes = IndexWriter::all(&parts);
        VectorWriter { parts, open, blobs, indexes, sequences: [None; 2] }
    }

    fn forget(&mut self) {
        self.open.clear();
        self.blobs.clear();
    }

    /// Overwrites bytes of a chunk's blob.
    fn write(
        &mut self,
        (kind, chunk): (usize, i64),
        offset: usize,
        bytes: &[u8],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let mut blob = self.take((kind, chunk), writes)?;
        writes.write_blob(&mut blob, offset, bytes)?;
        self.blobs.insert((kind, chunk), blob);
        Ok(())
    }

    /// Reads bytes of a chunk's blob.
    fn read(
        &mut self,
        (kind, chunk): (usize, i64),
        offset: usize,
        out: &mut [u8],
        writes: &TableWrites<'_>,
    ) -> Result<(), Error> {
        let mut blob = self.take((kind, chunk), writes)?;
        writes.reads().read_blob(&mut blob, offset, out)?;
        self.blobs.insert((kind, chunk), blob);
        Ok(())
    }

    fn take(
        &mut self,
        (kind, chunk): (usize, i64),
        writes: &TableWrites<'_>,
    ) -> Result<ShadowBlob, Error> {
        if let Some(blob) = self.blobs.remove(&(kind, chunk)) {
            return Ok(blob);
        }
        let parts = &*self.parts;
        let definition = &parts.definition;
        let size = definition.chunk_size;
        let at = parts.validity_column();
        let missing = || parts.corrupt("a column of chunks is missing");
        let (table, column, length) = match kind {
            VALIDITY => (&parts.chunks, at, size / 8),
            ROWIDS => (&parts.chunks, at + 1, size * 8),
            METADATA.. => {
                let number = kind - METADATA;
                let kind = definition.metadata().nth(number).ok_or_else(missing)?;
                (&parts.metadata[number], 1, kind.chunk_bytes(size))
            }
            _ => {
                let number = kind - VECTORS;
                let (_, column) = definition.vectors().nth(number).ok_or_else(missing)?;
                (&parts.vectors[number], 1, column.bytes() * size)
            }
        };
        parts.chunk_blob((table, chunk, column), length, &writes.reads())
    }

    /// Checks a row's values; in an update, the named values alone: the others stay.
    fn check(&self, row: &VirtualRow<'_>, is_update: bool) -> Result<Checked, Error> {
        let definition = &self.parts.definition;
        let mut checked = Checked {
            partitions: Vec::new(),
            vectors: Vec::new(),
            metadata: Vec::new(),
            auxiliary: Vec::new(),
        };
        for (place, column) in definition.columns.iter().enumerate() {
            let (value, name) = (&row.values[place + 1], column.name.as_str());
            let is_kept = is_update && !row.named[place + 1];
            match column.kind {
                Kind::Vector(_, kind) => checked.vectors.push(match is_kept {
                    true => None,
                    false => Some(vector_of(value, name, kind, is_update)?),
                }),
                Kind::Partition(_, class) => {
                    if !fits(class, value) {
                        return Err(Error::of_function(format!(
                            "Parition key type mismatch: The partition key column {name} has type \
                             {}, but {} was provided.",
                            class.name(),
                            class_of(value)
                        )));
                    }
                    checked.partitions.push(value.clone());
                }
                Kind::Auxiliary(_, class) => {
                    if !is_kept && !fits(class, value) {
                        return Err(Error::of_function(format!(
                            "Auxiliary column type mismatch: The auxiliary column {name} has type \
                             {}, but {} was provided.",
                            class.name(),
                            class_of(value)
                        )));
                    }
                    checked.auxiliary.push((!is_kept).then(|| value.clone()));
                }
                Kind::Metadata(_, kind) => {
                    if !is_kept {
                        check_metadata(kind, value, name)?;
                    }
                    checked.metadata.push((!is_kept).then(|| value.clone()));
                }
            }
        }
        let ef = definition.ef_place().map(|place| (place, "ef"));
        let place = definition.distance_place();
        for (hidden, name) in [(place, "distance"), (place + 1, "k")].into_iter().chain(ef) {
            if row.named[hidden] && !row.values[hidden].is_null() {
                let why = format!("A value was provided for the hidden \"{name}\" column.");
                return Err(Error::of_function(why));
            }
        }
        Ok(checked)
    }

    /// The rowid of a new row, whose key no other row has.
    fn new_rowid(
        &mut self,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<i64, Error> {
        let definition = &self.parts.definition;
        let name = &definition.name;
        let key = match (&row.values[0], row.rowid) {
            (Value::Null, Some(rowid)) if !definition.is_text_key => rowid,
            (key, _) => key,
        };
        match (definition.is_text_key, key) {
            (true, Value::Text(_)) | (false, Value::Int(_)) => {}
            (true, _) => {
                return Err(Error::of_function(format!(
                    "The {name} virtual table was declared with a TEXT primary key, but a \
                     non-TEXT value was provided in an INSERT."
                )));
            }
            (false, Value::Null) => return self.next(ROWID_SEQUENCE, writes),
            (false, _) => {
                return Err(Error::of_function(format!(
                    "Only integers are allows for primary key values on {name}"
                )));
            }
        }
        let known = self.parts.rowid_of(key, &writes.reads())?;
        if let Some(known) = known {
            if row.conflict != Some(OnConflict::Replace) {
                let place = format!("{name}.{}", definition.key);
                return Err(Error::Constraint { constraint: ConstraintKind::Unique, place });
            }
            self.remove(known, writes)?;
        }
        match key {
            Value::Int(rowid) => {
                let largest = self.largest(ROWID_SEQUENCE, writes)?;
                self.sequences[ROWID_SEQUENCE] = Some(largest.max(*rowid));
                Ok(*rowid)
            }
            _ => self.next(ROWID_SEQUENCE, writes),
        }
    }

    fn sequence_table(&self, sequence: usize) -> &ShadowTable {
        match sequence {
            ROWID_SEQUENCE => &self.parts.rowids,
            _ => &self.parts.chunks,
        }
    }

    /// The largest number ever given by a sequence.
    fn largest(&self, sequence: usize, writes: &TableWrites<'_>) -> Result<i64, Error> {
        if let Some(known) = self.sequences[sequence] {
            return Ok(known);
        }
        let table = self.sequence_table(sequence);
        let last = writes.new_rowid(table).map(|next| next - 1).unwrap_or(i64::MAX);
        let reads = writes.reads();
        let Ok(sequences) = ShadowTable::of(reads.schema(), "sqlite_sequence") else {
            return Ok(last);
        };
        let mut rows = reads.rows(&sequences)?;
        let mut found = rows.first()?;
        while found {
            let is_own = matches!(rows.column(0)?, ValueRef::Text(name)
                if name.eq_ignore_ascii_case(table.name().as_bytes()));
            if is_own && let ValueRef::Int(known) = rows.column(1)? {
                return Ok(known.max(last));
            }
            found = rows.next()?;
        }
        Ok(last)
    }

    /// The next number of a sequence.
    fn next(&mut self, sequence: usize, writes: &TableWrites<'_>) -> Result<i64, Error> {
        let full = || Error::of_function("database or disk is full");
        let next = self.largest(sequence, writes)?.checked_add(1).ok_or_else(full)?;
        self.sequences[sequence] = Some(next);
        Ok(next)
    }

    /// A free place in the last chunk of a partition, or in a new chunk.
    fn free_place(
        &mut self,
        partitions: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<Place, Error> {
        let is_same = |open: &OpenChunk| same(&open.partitions, partitions);
        let open = match self.open.iter().position(is_same) {
            Some(open) => open,
            None => {
                if let Some(last) = self.last_chunk(partitions, writes)? {
                    let mut validity = vec![0; self.parts.definition.chunk_size / 8];
                    self.read((VALIDITY, last), 0, &mut validity, writes)?;
                    let partitions = partitions.to_vec();
                    self.open.push(OpenChunk { partitions, chunk: last, validity });
                    self.open.len() - 1
                } else {
                    self.new_chunk(partitions, writes)?
                }
            }
        };
        let free = |open: &OpenChunk| {
            let byte = open.validity.iter().position(|byte| *byte != 0xFF)?;
            Some(byte * 8 + open.validity[byte].trailing_ones() as usize)
        };
        if let Some(slot) = free(&self.open[open]) {
            return Ok(Place { chunk: self.open[open].chunk, slot });
        }
        self.open.swap_remove(open);
        let open = self.new_chunk(partitions, writes)?;
        Ok(Place { chunk: self.open[open].chunk, slot: 0 })
    }

    /// The last chunk with these partition keys.
    fn last_chunk(
        &self,
        partitions: &[Value],
        writes: &TableWrites<'_>,
    ) -> Result<Option<i64>, Error> {
        let reads = writes.reads();
        let mut rows = reads.rows(&self.parts.chunks)?;
        let mut found = rows.last()?;
        while found {
            let known = (0..partitions.len())
                .map(|place| rows.column(3 + place).map(Value::from))
                .collect::<Result<Vec<_>, _>>()?;
            if same(&known, partitions) {
                return Ok(Some(rows.rowid()?));
            }
            found = rows.prev()?;
        }
        Ok(None)
    }

    /// Adds a chunk without rows; gives its place among the open ones.
    fn new_chunk(
        &mut self,
        partitions: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<usize, Error> {
        self.forget();
        let chunk = self.next(CHUNK_SEQUENCE, writes)?;
        let parts = Arc::clone(&self.parts);
        let definition = &parts.definition;
        let size = definition.chunk_size;
        let (validity, rowids) = (vec![0; size / 8], vec![0; size * 8]);
        let mut values = vec![ValueRef::Null, ValueRef::Int(size as i64)];
        if !partitions.is_empty() {
            values.push(ValueRef::Null);
            values.extend(partitions.iter().map(Value::as_ref));
        }
        values.extend([ValueRef::Blob(&validity), ValueRef::Blob(&rowids)]);
        writes.insert(&parts.chunks, chunk, &values)?;
        for (table, (_, column)) in parts.vectors.iter().zip(definition.vectors()) {
            let zeros = vec![0; size * column.bytes()];
            writes.insert(table, chunk, &[ValueRef::Int(chunk), ValueRef::Blob(&zeros)])?;
        }
        for (table, kind) in parts.metadata.iter().zip(definition.metadata()) {
            let zeros = vec![0; kind.chunk_bytes(size)];
            writes.insert(table, chunk, &[ValueRef::Int(chunk), ValueRef::Blob(&zeros)])?;
        }
        self.open.push(OpenChunk { partitions: partitions.to_vec(), chunk, validity });
        Ok(self.open.len() - 1)
    }

    /// Sets or clears the bit of a place, in memory and in the chunk.
    fn mark(
        &mut self,
        place: Place,
        is_used: bool,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let mut byte = [0];
        self.read((VALIDITY, place.chunk), place.slot / 8, &mut byte, writes)?;
        let bit = 1 << (place.slot % 8);
        byte[0] = if is_used { byte[0] | bit } else { byte[0] & !bit };
        if let Some(open) = self.open.iter_mut().find(|open| open.chunk == place.chunk) {
            open.validity[place.slot / 8] = byte[0];
        }
        self.write((VALIDITY, place.chunk), place.slot / 8, &byte, writes)
    }

    /// Writes the named columns of a row at its place.
    fn store(
        &mut self,
        (rowid, place): (i64, Place),
        checked: &Checked,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        for (number, vector) in checked.vectors.iter().enumerate() {
            if let Some(vector) = vector {
                let at = place.slot * vector.len();
                self.write((VECTORS + number, place.chunk), at, vector, writes)?;
                for index in self.indexes.iter_mut().filter(|index| index.column() == number) {
                    index.set(rowid, vector, writes)?;
                }
            }
        }
        let kinds: Vec<MetadataType> = self.parts.definition.metadata().collect();
        for (number, (value, kind)) in checked.metadata.iter().zip(kinds).enumerate() {
            if let Some(value) = value {
                self.store_metadata((number, kind), (rowid, place), value, writes)?;
            }
        }
        let parts = Arc::clone(&self.parts);
        let Some(table) = &parts.auxiliary else { return Ok(()) };
        if checked.auxiliary.iter().all(Option::is_none) {
            return Ok(());
        }
        let mut values = vec![Value::Null];
        {
            let reads = writes.reads();
            let mut rows = reads.rows(table)?;
            let is_there = rows.seek(rowid)?;
            for (number, value) in checked.auxiliary.iter().enumerate() {
                values.push(match value {
                    Some(value) => value.clone(),
                    None if is_there => Value::from(rows.column(1 + number)?),
                    None => Value::Null,
                });
            }
        }
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        writes.insert(table, rowid, &values)
    }

    fn store_metadata(
        &mut self,
        (number, kind): (usize, MetadataType),
        (rowid, place): (i64, Place),
        value: &Value,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let key = (METADATA + number, place.chunk);
        match (kind, value) {
            (MetadataType::Boolean, value) => {
                let mut byte = [0];
                self.read(key, place.slot / 8, &mut byte, writes)?;
                let bit = 1 << (place.slot % 8);
                byte[0] = if value.to_int() != 0 { byte[0] | bit } else { byte[0] & !bit };
                self.write(key, place.slot / 8, &byte, writes)
            }
            (MetadataType::Integer, value) => {
                self.write(key, place.slot * 8, &value.to_int().to_le_bytes(), writes)
            }
            (MetadataType::Float, value) => {
                self.write(key, place.slot * 8, &value.to_real().to_le_bytes(), writes)
            }
            (MetadataType::Text, Value::Text(text)) => {
                let mut view = [0; 16];
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                view[..4].copy_from_slice(&length.to_le_bytes());
                let shown = text.len().min(SHORT_TEXT);
                view[4..4 + shown].copy_from_slice(&text[..shown]);
                self.write_text((number, place), rowid, view, Some(text), writes)
            }
            (MetadataType::Text, _) => Ok(()),
        }
    }

    /// Writes the view of a text, and adds, changes or removes the text's own row.
    fn write_text(
        &mut self,
        (number, place): (usize, Place),
        rowid: i64,
        view: [u8; 16],
        text: Option<&[u8]>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.write((METADATA + number, place.chunk), place.slot * 16, &view, writes)?;
        let parts = Arc::clone(&self.parts);
        let Some(table) = &parts.texts[number] else { return Ok(()) };
        let known = writes.reads().find(table, 0, ValueRef::Int(rowid))?;
        match (text.filter(|text| text.len() > SHORT_TEXT), known) {
            (Some(text), known) => {
                let row = match known {
                    Some(row) => row,
                    None => writes.new_rowid(table)?,
                };
                writes.insert(table, row, &[ValueRef::Int(rowid), ValueRef::Text(text)])
            }
            (None, Some(row)) => writes.delete(table, row).map(drop),
            (None, None) => Ok(()),
        }
    }

    /// Adds a row with a rowid of its own.
    fn add(
        &mut self,
        rowid: i64,
        key: &Value,
        checked: &Checked,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let place = self.free_place(&checked.partitions, writes)?;
        self.mark(place, true, writes)?;
        self.store((rowid, place), checked, writes)?;
        self.write((ROWIDS, place.chunk), place.slot * 8, &rowid.to_le_bytes(), writes)?;
        let id = match self.parts.definition.is_text_key {
            true => key.as_ref(),
            false => ValueRef::Null,
        };
        let (chunk, slot) = (ValueRef::Int(place.chunk), ValueRef::Int(place.slot as i64));
        writes.insert(&self.parts.rowids, rowid, &[ValueRef::Null, id, chunk, slot])
    }

    /// Removes a row; its slot is zeroed, an empty chunk removed.
    fn remove(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let Some(place) = self.parts.place(rowid, &writes.reads())? else { return Ok(()) };
        let parts = Arc::clone(&self.parts);
        let definition = &parts.definition;
        for index in &mut self.indexes {
            index.remove(rowid, writes)?;
        }
        self.mark(place, false, writes)?;
        self.write((ROWIDS, place.chunk), place.slot * 8, &[0; 8], writes)?;
        for (number, (_, column)) in definition.vectors().enumerate() {
            let zeros = vec![0; column.bytes()];
            let at = place.slot * zeros.len();
            self.write((VECTORS + number, place.chunk), at, &zeros, writes)?;
        }
        for (number, kind) in definition.metadata().enumerate() {
            match kind {
                MetadataType::Text => {
                    self.write_text((number, place), rowid, [0; 16], None, writes)?;
                }
                kind => {
                    let zero = Value::Int(0);
                    self.store_metadata((number, kind), (rowid, place), &zero, writes)?;
                }
            }
        }
        writes.delete(&parts.rowids, rowid)?;
        if let Some(table) = &parts.auxiliary {
            writes.delete(table, rowid)?;
        }
        let mut validity = vec![0; definition.chunk_size / 8];
        self.read((VALIDITY, place.chunk), 0, &mut validity, writes)?;
        if validity.iter().all(|byte| *byte == 0) {
            // The number of a chunk is never given again.
            let largest = self.largest(CHUNK_SEQUENCE, writes)?;
            self.sequences[CHUNK_SEQUENCE] = Some(largest);
            self.forget();
            for table in [&parts.chunks].into_iter().chain(&parts.vectors).chain(&parts.metadata) {
                writes.delete(table, place.chunk)?;
            }
        }
        Ok(())
    }

    /// Keeps a sequence in `sqlite_sequence`.
    fn keep_sequence(
        &self,
        sequence: usize,
        largest: i64,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let Ok(sequences) = ShadowTable::of(writes.reads().schema(), "sqlite_sequence") else {
            return Ok(());
        };
        let name = self.sequence_table(sequence).name().to_owned();
        let mut row = writes.new_rowid(&sequences)?;
        {
            let reads = writes.reads();
            let mut rows = reads.rows(&sequences)?;
            let mut found = rows.first()?;
            while found {
                let is_own = matches!(rows.column(0)?, ValueRef::Text(known)
                    if known.eq_ignore_ascii_case(name.as_bytes()));
                if is_own {
                    row = rows.rowid()?;
                    if matches!(rows.column(1)?, ValueRef::Int(known) if known >= largest) {
                        return Ok(());
                    }
                    break;
                }
                found = rows.next()?;
            }
        }
        let values = [ValueRef::Text(name.as_bytes()), ValueRef::Int(largest)];
        writes.insert(&sequences, row, &values)
    }
}

/// True for equal partition keys; NULL is one, too.
fn same(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| {
        a.is_null() && b.is_null() || compare(a.as_ref(), b.as_ref()).is_some_and(|it| it.is_eq())
    })
}

/// The storage class of a value in error messages.
fn class_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Int(_) => Class::Integer.name(),
        Value::Real(_) => Class::Float.name(),
        Value::Text(_) => Class::Text.name(),
        Value::Blob(_) => Class::Blob.name(),
    }
}

/// True where a value is NULL or of the class.
fn fits(class: Class, value: &Value) -> bool {
    value.is_null() || class_of(value) == class.name()
}

fn check_metadata(kind: MetadataType, value: &Value, name: &str) -> Result<(), Error> {
    let (word, wanted) = match (kind, value) {
        (MetadataType::Boolean, Value::Int(0 | 1))
        | (MetadataType::Integer, Value::Int(_))
        | (MetadataType::Float, Value::Real(_))
        | (MetadataType::Text, Value::Text(_)) => return Ok(()),
        (MetadataType::Boolean, _) => {
            let why = format!("Expected 0 or 1 for BOOLEAN metadata column {name}");
            return Err(Error::of_function(why));
        }
        (MetadataType::Integer, _) => ("integer", "INTEGER"),
        (MetadataType::Float, _) => ("float", "FLOAT"),
        (MetadataType::Text, _) => ("text", "TEXT"),
    };
    Err(Error::of_function(format!(
        "Expected {word} for {wanted} metadata column {name}, received {}",
        class_of(value)
    )))
}

/// The bytes of a vector for a column.
fn vector_of(
    value: &Value,
    name: &str,
    column: VectorColumn,
    is_update: bool,
) -> Result<Vec<u8>, Error> {
    let (begin, new) = match is_update {
        true => ("Updated", "new updated"),
        false => ("Inserted", "inserted"),
    };
    let vector = Vector::read(value, column.element).map_err(|error| {
        Error::of_function(format!("{begin} vector for the \"{name}\" column is invalid: {error}"))
    })?;
    if vector.dimensions != column.dimensions {
        return Err(Error::of_function(format!(
            "Dimension mismatch for {new} vector for the \"{name}\" column. Expected {} dimensions \
             but received {}.",
            column.dimensions, vector.dimensions
        )));
    }
    Ok(vector.bytes.into_owned())
}

impl VirtualWriter for VectorWriter {
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        self.parts.refuse_utf16(&writes.reads())?;
        let checked = self.check(row, false)?;
        let rowid = self.new_rowid(row, writes)?;
        self.add(rowid, &row.values[0], &checked, writes)?;
        Ok(rowid)
    }

    fn update(
        &mut self,
        rowid: i64,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.parts.refuse_utf16(&writes.reads())?;
        let Some(place) = self.parts.place(rowid, &writes.reads())? else { return Ok(()) };
        let is_moved = match self.parts.definition.is_text_key {
            true => {
                row.named[0] && self.parts.rowid_of(&row.values[0], &writes.reads())? != Some(rowid)
            }
            false => row.named[0] && row.values[0] != Value::Int(rowid),
        };
        if is_moved || row.rowid.is_some_and(|new| *new != Value::Int(rowid)) {
            let why = "UPDATEs on vec0 primary key values are not allowed.";
            return Err(Error::of_function(why));
        }
        let checked = self.check(row, true)?;
        let old = (0..checked.partitions.len())
            .map(|number| {
                let kind = Kind::Partition(number, Class::Integer);
                self.parts.value(kind, (rowid, place), &writes.reads())
            })
            .collect::<Result<Vec<_>, _>>()?;
        if same(&old, &checked.partitions) {
            return self.store((rowid, place), &checked, writes);
        }
        // Another partition is another chunk: the row is written anew, with all its columns.
        let (columns, shown) = (row.values.len(), self.parts.definition.distance_place());
        let whole = VirtualRow { named: &vec![true; columns], ..*row };
        let mut values = row.values.to_vec();
        values[shown..].fill(Value::Null);
        let checked = self.check(&VirtualRow { values: &values, ..whole }, false)?;
        self.remove(rowid, writes)?;
        self.add(rowid, &values[0], &checked, writes)
    }

    fn delete(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        self.parts.refuse_utf16(&writes.reads())?;
        self.remove(rowid, writes)
    }

    fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for index in &mut self.indexes {
            index.flush(writes)?;
        }
        for sequence in [ROWID_SEQUENCE, CHUNK_SEQUENCE] {
            if let Some(largest) = self.sequences[sequence].take() {
                self.keep_sequence(sequence, largest, writes)?;
            }
        }
        Ok(())
    }

    fn savepoint(&mut self, writes: &mut TableWrites<'_>) -> Result<usize, Error> {
        for index in &mut self.indexes {
            index.flush(writes)?;
        }
        Ok(0)
    }

    fn rollback_to(&mut self, _moment: usize) {
        // Sequences stay: a number given and taken back is left out.
        self.forget();
        self.indexes.iter_mut().for_each(IndexWriter::forget);
    }
}
