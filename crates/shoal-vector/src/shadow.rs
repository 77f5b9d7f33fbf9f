//! The shadow tables: names, the statements to make them, and the chunks in them.

use std::fmt::Display;
use std::sync::OnceLock;

use shoal_sql::{
    ChangedPages, Error, Schema, ShadowBlob, ShadowTable, TableReads, TableWrites, Value, ValueRef,
};

use crate::definition::{Definition, Kind, MetadataType, VectorColumn};
use crate::distance::Rows;
use crate::functions::VERSION;
use crate::index::definition::Index;

/// A table of a file: its definition and its shadow tables.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) definition: Definition,
    pub(crate) chunks: ShadowTable,
    pub(crate) rowids: ShadowTable,
    /// One for each vector column.
    pub(crate) vectors: Vec<ShadowTable>,
    /// One for each metadata column.
    pub(crate) metadata: Vec<ShadowTable>,
    /// The long texts, for metadata columns of texts.
    pub(crate) texts: Vec<Option<ShadowTable>>,
    pub(crate) auxiliary: Option<ShadowTable>,
    /// The indexes of neighbours beside the table.
    pub(crate) indexes: Vec<Index>,
}

/// The place of a row: a chunk, and a slot of the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) chunk: i64,
    pub(crate) slot: usize,
}

/// The longest text stored in its chunk as a whole.
pub(crate) const SHORT_TEXT: usize = 12;

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Finds a shadow table of a table of `module`, by its suffix.
///
/// # Errors
/// A missing table, or one with another number of columns.
pub(crate) fn part(
    schema: &Schema,
    (module, name): (&str, &str),
    suffix: &str,
    columns: usize,
) -> Result<ShadowTable, Error> {
    let table = ShadowTable::of(schema, &format!("{name}_{suffix}"))?;
    match table.columns() == columns && !table.is_without_rowid() {
        true => Ok(table),
        false => Err(Error::CorruptVirtual {
            table: name.to_owned(),
            why: format!("{} has other columns than {module} makes", table.name()),
        }),
    }
}

/// Renames the shadow tables of a table.
///
/// # Errors
/// Errors of the file.
pub(crate) fn rename_shadows(
    (old, new): (&str, &str),
    suffixes: impl IntoIterator<Item = impl Display>,
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    for suffix in suffixes {
        let (old, new) = (quoted(&format!("{old}_{suffix}")), quoted(&format!("{new}_{suffix}")));
        writes.execute(&format!("ALTER TABLE {old} RENAME TO {new}"), &[])?;
    }
    Ok(())
}

/// Drops the shadow tables of a table.
///
/// # Errors
/// Errors of the file.
pub(crate) fn drop_shadows(
    table: &str,
    suffixes: impl IntoIterator<Item = impl Display>,
    writes: &mut TableWrites<'_>,
) -> Result<(), Error> {
    for suffix in suffixes {
        let name = quoted(&format!("{table}_{suffix}"));
        writes.execute(&format!("DROP TABLE IF EXISTS {name}"), &[])?;
    }
    Ok(())
}

impl Definition {
    /// The suffixes of the shadow tables, in the order of their making.
    pub(crate) fn suffixes(&self) -> Vec<String> {
        let mut names = vec!["info".to_owned(), "chunks".to_owned(), "rowids".to_owned()];
        names.extend((0..self.vectors().count()).map(|place| format!("vector_chunks{place:02}")));
        for (place, kind) in self.metadata().enumerate() {
            names.push(format!("metadatachunks{place:02}"));
            if kind == MetadataType::Text {
                names.push(format!("metadatatext{place:02}"));
            }
        }
        if self.auxiliaries() > 0 {
            names.push("auxiliary".to_owned());
        }
        names
    }

    /// The statements to make the shadow tables, in sqlite-vec's words.
    pub(crate) fn statements(&self) -> Vec<String> {
        let table = |suffix: &str| quoted(&format!("{}_{suffix}", self.name));
        let (version, major, minor, patch) = VERSION;
        let mut statements = vec![
            format!("CREATE TABLE {} (key text primary key, value any)", table("info")),
            format!(
                "INSERT INTO {} (key, value) VALUES ('CREATE_VERSION', '{version}'), \
                 ('CREATE_VERSION_MAJOR', {major}), ('CREATE_VERSION_MINOR', {minor}), \
                 ('CREATE_VERSION_PATCH', {patch})",
                table("info")
            ),
        ];
        let partitions: String =
            (0..self.partitions()).map(|place| format!("partition{place:02},")).collect();
        let sequence = if partitions.is_empty() { "" } else { "sequence_id integer," };
        statements.push(format!(
            "CREATE TABLE {}(chunk_id INTEGER PRIMARY KEY AUTOINCREMENT,size INTEGER NOT NULL,\
             {sequence}{partitions}validity BLOB NOT NULL,rowids BLOB NOT NULL)",
            table("chunks")
        ));
        let id = if self.is_text_key { "id TEXT UNIQUE NOT NULL" } else { "id" };
        statements.push(format!(
            "CREATE TABLE {}(rowid INTEGER PRIMARY KEY AUTOINCREMENT,{id},chunk_id INTEGER,\
             chunk_offset INTEGER)",
            table("rowids")
        ));
        for place in 0..self.vectors().count() {
            statements.push(format!(
                "CREATE TABLE {}(rowid PRIMARY KEY,vectors BLOB NOT NULL)",
                table(&format!("vector_chunks{place:02}"))
            ));
        }
        for (place, kind) in self.metadata().enumerate() {
            statements.push(format!(
                "CREATE TABLE {}(rowid PRIMARY KEY, data BLOB NOT NULL)",
                table(&format!("metadatachunks{place:02}"))
            ));
            if kind == MetadataType::Text {
                statements.push(format!(
                    "CREATE TABLE {}(rowid PRIMARY KEY, data TEXT)",
                    table(&format!("metadatatext{place:02}"))
                ));
            }
        }
        if self.auxiliaries() > 0 {
            let values: String =
                (0..self.auxiliaries()).map(|place| format!(", value{place:02}")).collect();
            statements.push(format!(
                "CREATE TABLE {}( rowid integer PRIMARY KEY {values})",
                table("auxiliary")
            ));
        }
        statements
    }
}

impl Parts {
    /// Finds the shadow tables of a definition.
    ///
    /// # Errors
    /// A missing table, or one with too few columns.
    pub(crate) fn open(definition: Definition, schema: &Schema) -> Result<Parts, Error> {
        let part = |suffix: &str, columns: usize| {
            part(schema, ("vec0", &definition.name), suffix, columns)
        };
        let partitions = match definition.partitions() {
            0 => 0,
            count => count + 1,
        };
        let (chunks, rowids) = (part("chunks", 4 + partitions)?, part("rowids", 4)?);
        let vectors = (0..definition.vectors().count())
            .map(|place| part(&format!("vector_chunks{place:02}"), 2))
            .collect::<Result<_, _>>()?;
        let metadata = (0..definition.metadata().count())
            .map(|place| part(&format!("metadatachunks{place:02}"), 2))
            .collect::<Result<_, _>>()?;
        let texts = definition.metadata().enumerate();
        let texts = texts
            .map(|(place, kind)| match kind {
                MetadataType::Text => part(&format!("metadatatext{place:02}"), 2).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_, _>>()?;
        let auxiliary = match definition.auxiliaries() {
            0 => None,
            count => Some(part("auxiliary", count + 1)?),
        };
        let indexes = Index::of_table(&definition, schema);
        Ok(Parts { chunks, rowids, vectors, metadata, texts, auxiliary, indexes, definition })
    }

    /// The place of the first index of a vector column.
    pub(crate) fn index_of(&self, number: usize) -> Option<usize> {
        self.indexes.iter().position(|index| index.number == number)
    }

    /// The error of a fault in the shadow tables.
    pub(crate) fn corrupt(&self, why: impl Into<String>) -> Error {
        Error::CorruptVirtual { table: self.definition.name.clone(), why: why.into() }
    }

    /// The name and the definition of a vector column.
    ///
    /// # Errors
    /// Fewer vector columns.
    pub(crate) fn vector_column(&self, number: usize) -> Result<(&str, VectorColumn), Error> {
        let column = self.definition.vectors().nth(number);
        column.ok_or_else(|| self.corrupt("a vector column is missing"))
    }

    /// Refuses files with texts in UTF-16: keys and texts would be other bytes.
    ///
    /// # Errors
    /// Such a file.
    pub(crate) fn refuse_utf16(&self, reads: &TableReads<'_>) -> Result<(), Error> {
        match reads.is_utf16()? {
            true => Err(Error::of_function("vec0 tables of files in UTF-16 are not supported")),
            false => Ok(()),
        }
    }

    /// The column of a chunk's validity in `_chunks`; its rowids are in the next.
    pub(crate) fn validity_column(&self) -> usize {
        match self.definition.partitions() {
            0 => 2,
            count => 3 + count,
        }
    }

    /// The place of a row; `None` without such a row.
    ///
    /// # Errors
    /// A place outside of chunks.
    pub(crate) fn place(&self, rowid: i64, reads: &TableReads<'_>) -> Result<Option<Place>, Error> {
        let mut rows = reads.rows(&self.rowids)?;
        if !rows.seek(rowid)? {
            return Ok(None);
        }
        let chunk = rows.column(2)?.into_int();
        let slot = rows.column(3)?.into_int();
        let slot = slot.and_then(|slot| usize::try_from(slot).ok());
        match (chunk, slot.filter(|slot| *slot < self.definition.chunk_size)) {
            (Some(chunk), Some(slot)) => Ok(Some(Place { chunk, slot })),
            _ => Err(self.corrupt(format!("row {rowid} has no place in a chunk"))),
        }
    }

    /// A blob of a chunk, of the expected length.
    ///
    /// # Errors
    /// No such chunk; another length.
    pub(crate) fn chunk_blob(
        &self,
        (table, chunk, column): (&ShadowTable, i64, usize),
        length: usize,
        reads: &TableReads<'_>,
    ) -> Result<ShadowBlob, Error> {
        match reads.blob(table, chunk, column)? {
            Some(blob) if blob.len() == length => Ok(blob),
            Some(blob) => Err(self.corrupt(format!(
                "chunk {chunk} of {} has {} bytes where {length} belong",
                table.name(),
                blob.len()
            ))),
            None => Err(self.corrupt(format!("chunk {chunk} of {} is missing", table.name()))),
        }
    }

    /// The bytes of a vector.
    ///
    /// # Errors
    /// As [`Parts::chunk_blob`].
    pub(crate) fn vector(
        &self,
        number: usize,
        place: Place,
        reads: &TableReads<'_>,
    ) -> Result<Vec<u8>, Error> {
        let (_, column) = self.vector_column(number)?;
        let width = column.bytes();
        let table = (&self.vectors[number], place.chunk, 1);
        let mut blob = self.chunk_blob(table, width * self.definition.chunk_size, reads)?;
        let mut bytes = vec![0; width];
        reads.read_blob(&mut blob, place.slot * width, &mut bytes)?;
        Ok(bytes)
    }

    /// A metadata value of a row.
    ///
    /// # Errors
    /// As [`Parts::chunk_blob`]; a missing long text.
    pub(crate) fn metadata_value(
        &self,
        (number, kind): (usize, MetadataType),
        (rowid, place): (i64, Place),
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        let length = kind.chunk_bytes(self.definition.chunk_size);
        let mut blob = self.chunk_blob((&self.metadata[number], place.chunk, 1), length, reads)?;
        let (width, slot) = match kind {
            MetadataType::Boolean => (1, place.slot / 8),
            MetadataType::Integer | MetadataType::Float => (8, place.slot * 8),
            MetadataType::Text => (16, place.slot * 16),
        };
        let mut bytes = [0; 16];
        reads.read_blob(&mut blob, slot, &mut bytes[..width])?;
        let eight = || bytes.first_chunk().copied().unwrap_or_default();
        Ok(match kind {
            MetadataType::Boolean => Value::Int(i64::from(bytes[0] >> (place.slot % 8) & 1)),
            MetadataType::Integer => Value::Int(i64::from_le_bytes(eight())),
            MetadataType::Float => Value::real(f64::from_le_bytes(eight())),
            MetadataType::Text => Value::Text(self.text(number, &bytes, rowid, reads)?),
        })
    }

    /// The text of a view of 16 bytes: its length and first bytes, long ones in a table apart.
    fn text(
        &self,
        number: usize,
        view: &[u8; 16],
        rowid: i64,
        reads: &TableReads<'_>,
    ) -> Result<Vec<u8>, Error> {
        let length = u32::from_le_bytes(view.first_chunk().copied().unwrap_or_default()) as usize;
        if length <= SHORT_TEXT {
            return Ok(view[4..4 + length].to_vec());
        }
        let missing = || self.corrupt(format!("the long text of row {rowid} is missing"));
        let table = self.texts[number].as_ref().ok_or_else(missing)?;
        let found = reads.find(table, 0, ValueRef::Int(rowid))?.ok_or_else(missing)?;
        let mut rows = reads.rows(table)?;
        if !rows.seek(found)? {
            return Err(missing());
        }
        match rows.column(1)? {
            ValueRef::Text(text) if text.len() == length => Ok(text.to_vec()),
            _ => Err(self.corrupt(format!("the long text of row {rowid} has another length"))),
        }
    }

    /// The rowid of a value of the primary key.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn rowid_of(
        &self,
        key: &Value,
        reads: &TableReads<'_>,
    ) -> Result<Option<i64>, Error> {
        match (self.definition.is_text_key, key) {
            (true, Value::Text(_)) => reads.find(&self.rowids, 1, key.as_ref()),
            (false, Value::Int(rowid)) => {
                Ok(reads.rows(&self.rowids)?.seek(*rowid)?.then_some(*rowid))
            }
            (false, Value::Real(real)) if *real == (*real as i64) as f64 => {
                self.rowid_of(&Value::Int(*real as i64), reads)
            }
            _ => Ok(None),
        }
    }
}

/// An integer of a column.
trait IntoInt {
    fn into_int(self) -> Option<i64>;
}

impl IntoInt for ValueRef<'_> {
    fn into_int(self) -> Option<i64> {
        match self {
            ValueRef::Int(int) => Some(int),
            _ => None,
        }
    }
}

/// The metadata values of a chunk's rows.
#[derive(Clone, Debug)]
pub(crate) enum Metadata {
    /// Of booleans too.
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<Vec<u8>>),
}

impl Metadata {
    /// The value of a row.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> ValueRef<'_> {
        match self {
            Metadata::Integers(all) => ValueRef::Int(all[row]),
            Metadata::Floats(all) => ValueRef::Real(all[row]),
            Metadata::Texts(all) => ValueRef::Text(&all[row]),
        }
    }
}

/// The rows of a chunk without the free slots, from the chunk's row in `_chunks`.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) number: i64,
    pub(crate) partitions: Vec<Value>,
    pub(crate) rowids: Vec<i64>,
    pub(crate) slots: Vec<u16>,
}

/// The rows of a chunk with their vectors, without the free slots.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) chunk: i64,
    pub(crate) partitions: Vec<Value>,
    pub(crate) rowids: Vec<i64>,
    /// The slot of each row.
    pub(crate) slots: Vec<u16>,
    pub(crate) rows: Rows,
    /// The sums of squares of the rows, where the metric wants them.
    pub(crate) squares: Vec<f32>,
    /// The sum of the rows' digests and their number, once an index asked for them.
    pub(crate) digest: OnceLock<(u64, u64)>,
    /// The place of the vectors in the file.
    vectors: ShadowBlob,
}

impl Block {
    /// True where a chunk of a later state has the same rows and vectors.
    pub(crate) fn is_still(
        &self,
        chunk: &Chunk,
        vectors: &ShadowBlob,
        changed: &ChangedPages,
    ) -> bool {
        (self.chunk, &self.slots, &self.rowids, &self.partitions)
            == (chunk.number, &chunk.slots, &chunk.rowids, &chunk.partitions)
            && self.vectors.is_unchanged(vectors, changed)
    }

    /// The bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = match &self.rows {
            Rows::Floats(rows) => rows.len() * 4,
            Rows::Halves(rows) => rows.len() * 2,
            Rows::Bytes(rows) => rows.len(),
        };
        (rows + self.rowids.len() * 10 + self.squares.len() * 4) as u64
    }
}

impl Parts {
    /// Gives every chunk of a vector column to `each`, until `each` says `false`.
    ///
    /// # Errors
    /// Chunks of other lengths than the definition's; errors of `each`.
    pub(crate) fn each_block(
        &self,
        number: usize,
        reads: &TableReads<'_>,
        wants: impl FnMut(&[Value]) -> Result<bool, Error>,
        mut each: impl FnMut(Block) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut bytes = Vec::new();
        self.each_chunk(number, reads, wants, |chunk, vectors| {
            each(self.block(number, chunk, vectors, &mut bytes, reads)?)
        })
    }

    /// Gives the rows of every chunk, and the place of their vectors in a column, to `each`, until
    /// `each` says `false`.
    ///
    /// # Errors
    /// Chunks of other lengths than the definition's; errors of `each`.
    pub(crate) fn each_chunk(
        &self,
        number: usize,
        reads: &TableReads<'_>,
        mut wants: impl FnMut(&[Value]) -> Result<bool, Error>,
        mut each: impl FnMut(Chunk, ShadowBlob) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let size = self.definition.chunk_size;
        let (_, column) = self.vector_column(number)?;
        let width = column.bytes();
        let mut chunks = reads.rows(&self.chunks)?;
        let at = self.validity_column();
        let mut found = chunks.first()?;
        while found {
            reads.check()?;
            let chunk = chunks.rowid()?;
            let partitions = (0..self.definition.partitions())
                .map(|place| chunks.column(3 + place).map(Value::from))
                .collect::<Result<Vec<_>, _>>()?;
            if !wants(&partitions)? {
                found = chunks.next()?;
                continue;
            }
            let wrong = |what: &str| {
                self.corrupt(format!("chunk {chunk} has another number of {what} than {size}"))
            };
            let slots: Vec<u16> = match chunks.column(at)? {
                ValueRef::Blob(bits) if bits.len() == size / 8 => (0..size)
                    .filter(|slot| bits[slot / 8] >> (slot % 8) & 1 == 1)
                    .map(|slot| slot as u16)
                    .collect(),
                _ => return Err(wrong("validity bits")),
            };
            let rowids: Vec<i64> = match chunks.column(at + 1)? {
                ValueRef::Blob(bytes) if bytes.len() == size * 8 => {
                    let all = bytes.as_chunks::<8>().0;
                    slots.iter().map(|slot| i64::from_le_bytes(all[usize::from(*slot)])).collect()
                }
                _ => return Err(wrong("rowids")),
            };
            let vectors = match reads.blob(&self.vectors[number], chunk, 1)? {
                Some(vectors) if vectors.len() == size * width => vectors,
                _ => return Err(wrong("vectors")),
            };
            if !each(Chunk { number: chunk, partitions, rowids, slots }, vectors)? {
                return Ok(());
            }
            found = chunks.next()?;
        }
        Ok(())
    }

    /// The vectors of a chunk's rows. `bytes` is memory from one call to the next.
    ///
    /// # Errors
    /// Faults of the pages.
    pub(crate) fn block(
        &self,
        number: usize,
        chunk: Chunk,
        mut vectors: ShadowBlob,
        bytes: &mut Vec<u8>,
        reads: &TableReads<'_>,
    ) -> Result<Block, Error> {
        let (_, column) = self.vector_column(number)?;
        let width = column.bytes();
        bytes.resize(vectors.len(), 0);
        reads.read_blob(&mut vectors, 0, bytes)?;
        let Chunk { number: chunk, partitions, rowids, slots } = chunk;
        let mut rows = Rows::new(column.element);
        if slots.len() == self.definition.chunk_size {
            rows.extend(bytes);
        } else {
            for slot in &slots {
                let from = usize::from(*slot) * width;
                rows.extend(&bytes[from..from + width]);
            }
        }
        let (squares, digest) = (Vec::new(), OnceLock::new());
        Ok(Block { chunk, partitions, rowids, slots, rows, squares, digest, vectors })
    }

    /// The metadata of a block's rows.
    ///
    /// # Errors
    /// As [`Parts::metadata_value`].
    pub(crate) fn metadata_of(
        &self,
        (number, kind): (usize, MetadataType),
        block: &Block,
        reads: &TableReads<'_>,
    ) -> Result<Metadata, Error> {
        let length = kind.chunk_bytes(self.definition.chunk_size);
        let table = (&self.metadata[number], block.chunk, 1);
        let mut blob = self.chunk_blob(table, length, reads)?;
        let mut bytes = vec![0; length];
        reads.read_blob(&mut blob, 0, &mut bytes)?;
        let slots = block.slots.iter().map(|slot| usize::from(*slot));
        Ok(match kind {
            MetadataType::Boolean => Metadata::Integers(
                slots.map(|slot| i64::from(bytes[slot / 8] >> (slot % 8) & 1)).collect(),
            ),
            MetadataType::Integer => {
                let all = bytes.as_chunks().0;
                Metadata::Integers(slots.map(|slot| i64::from_le_bytes(all[slot])).collect())
            }
            MetadataType::Float => {
                let all = bytes.as_chunks().0;
                Metadata::Floats(slots.map(|slot| f64::from_le_bytes(all[slot])).collect())
            }
            MetadataType::Text => {
                let all = bytes.as_chunks().0;
                let text =
                    |(slot, rowid): (usize, &i64)| self.text(number, &all[slot], *rowid, reads);
                let texts = slots.zip(&block.rowids).map(text).collect::<Result<_, _>>()?;
                Metadata::Texts(texts)
            }
        })
    }

    /// A value of a column other than the key and the hidden ones.
    ///
    /// # Errors
    /// Faults of the shadow tables.
    pub(crate) fn value(
        &self,
        kind: Kind,
        (rowid, place): (i64, Place),
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        match kind {
            Kind::Vector(number, _) => self.vector(number, place, reads).map(Value::Blob),
            Kind::Metadata(number, kind) => {
                self.metadata_value((number, kind), (rowid, place), reads)
            }
            Kind::Partition(number, _) => {
                let mut rows = reads.rows(&self.chunks)?;
                match rows.seek(place.chunk)? {
                    true => Ok(Value::from(rows.column(3 + number)?)),
                    false => Err(self.corrupt(format!("chunk {} is missing", place.chunk))),
                }
            }
            Kind::Auxiliary(number, _) => {
                let Some(table) = &self.auxiliary else { return Ok(Value::Null) };
                let mut rows = reads.rows(table)?;
                match rows.seek(rowid)? {
                    true => Ok(Value::from(rows.column(1 + number)?)),
                    false => Ok(Value::Null),
                }
            }
        }
    }
}
