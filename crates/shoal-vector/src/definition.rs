//! `CREATE VIRTUAL TABLE ... USING vec0(...)`: columns and options, read as sqlite-vec reads them.

use shoal_sql::{Error, VirtualColumn, VisibleArguments, VisibleRowids};

use crate::distance::Metric;
use crate::vector::Element;

/// The most vector, metadata and auxiliary columns.
const COLUMNS_MAX: usize = 16;
/// The most partition keys.
const PARTITIONS_MAX: usize = 4;
/// The most dimensions of a column.
const DIMENSIONS_MAX: usize = 8192;
/// The most rows in a chunk.
const CHUNK_MAX: usize = 4096;

/// The type of a metadata column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataType {
    Boolean,
    Integer,
    Float,
    Text,
}

impl MetadataType {
    /// The bytes of so many rows in a chunk.
    pub(crate) const fn chunk_bytes(self, rows: usize) -> usize {
        match self {
            MetadataType::Boolean => rows / 8,
            MetadataType::Integer | MetadataType::Float => rows * 8,
            MetadataType::Text => rows * 16,
        }
    }
}

/// The type of a partition key, an auxiliary column or a primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Float,
    Text,
    Blob,
}

impl Class {
    /// The class in error messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Class::Integer => "INTEGER",
            Class::Float => "FLOAT",
            Class::Text => "TEXT",
            Class::Blob => "BLOB",
        }
    }
}

/// A vector column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct VectorColumn {
    pub(crate) element: Element,
    pub(crate) dimensions: usize,
    pub(crate) metric: Metric,
}

impl VectorColumn {
    /// The bytes of a vector.
    pub(crate) const fn bytes(&self) -> usize {
        self.element.bytes(self.dimensions)
    }
}

/// The kind of a column, with its number among its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Vector(usize, VectorColumn),
    Partition(usize, Class),
    Auxiliary(usize, Class),
    Metadata(usize, MetadataType),
}

/// A column between the primary key and the hidden ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defined {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The definition of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// The table's name.
    pub(crate) name: String,
    /// The name of the primary key; `rowid` where none is defined.
    pub(crate) key: String,
    pub(crate) is_text_key: bool,
    pub(crate) columns: Vec<Defined>,
    /// The number of rows in a chunk.
    pub(crate) chunk_size: usize,
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::of_function(format!("vec0 constructor error: {why}"))
}

/// The words of an argument: names, numbers, and the signs `+[]=(),`.
fn words(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'+' | b'[' | b']' | b'=' | b'(' | b')' | b',' => at + 1,
            b'0'..=b'9' => {
                let rest = &bytes[at..];
                at + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
            }
            b'a'..=b'z' | b'A'..=b'Z' => {
                let rest = &bytes[at..];
                let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                at + rest.iter().position(|byte| !is_in(byte)).unwrap_or(rest.len())
            }
            _ => return None,
        };
        words.push(&text[at..end]);
        at = end;
    }
    Some(words)
}

fn is(word: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(word))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn class(word: &str) -> Option<Class> {
    Some(match word {
        _ if is(word, &["text"]) => Class::Text,
        _ if is(word, &["int", "integer"]) => Class::Integer,
        _ if is(word, &["float", "double"]) => Class::Float,
        _ if is(word, &["blob"]) => Class::Blob,
        _ => return None,
    })
}

/// A vector column; `Ok(None)` for words without the beginning of one.
fn vector(words: &[&str], text: &str) -> Result<Option<VectorColumn>, Error> {
    let [_, type_name, "[", rest @ ..] = words else { return Ok(None) };
    let begins = |start: &str| {
        type_name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
    };
    let element = match () {
        () if begins("float16") || begins("f16") => Element::F16,
        () if begins("float") || begins("f32") => Element::F32,
        () if begins("int8") || begins("i8") => Element::Int8,
        () if begins("bit") => Element::Bit,
        () => return Ok(None),
    };
    let wrong = || refused(format_args!("could not parse vector column '{text}'"));
    let [digits, "]", options @ ..] = rest else { return Err(wrong()) };
    let dimensions: usize = digits.parse().map_err(|_| wrong())?;
    if dimensions == 0 || element == Element::Bit && !dimensions.is_multiple_of(8) {
        return Err(wrong());
    }
    if dimensions > DIMENSIONS_MAX {
        return Err(refused(format_args!(
            "Dimension on vector column too large, provided {dimensions}, maximum {DIMENSIONS_MAX}"
        )));
    }
    let metric = match (element, options) {
        (Element::Bit, []) => Metric::Hamming,
        (_, []) => Metric::L2,
        (Element::Bit, ["distance_metric", "=", "hamming"]) => Metric::Hamming,
        (Element::Bit, _) => return Err(wrong()),
        (_, [key, "=", name]) if is(key, &["distance_metric"]) => match name {
            _ if is(name, &["l2"]) => Metric::L2,
            _ if is(name, &["l1"]) => Metric::L1,
            _ if is(name, &["cosine"]) => Metric::Cosine,
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    Ok(Some(VectorColumn { element, dimensions, metric }))
}

/// A metadata column's type.
fn metadata(words: &[&str]) -> Option<MetadataType> {
    let [_, word] = words else { return None };
    Some(match word {
        _ if is(word, &["boolean", "bool"]) => MetadataType::Boolean,
        _ if is(word, &["int64", "integer64", "integer", "int"]) => MetadataType::Integer,
        _ if is(word, &["float", "double", "float64", "f64"]) => MetadataType::Float,
        _ if is(word, &["text"]) => MetadataType::Text,
        _ => return None,
    })
}

impl Definition {
    /// Reads the arguments of `USING vec0(...)`.
    ///
    /// # Errors
    /// Arguments refused by sqlite-vec, in its words.
    pub(crate) fn parse(name: &str, arguments: &[String]) -> Result<Definition, Error> {
        let mut definition = Definition {
            name: name.to_owned(),
            key: "rowid".to_owned(),
            is_text_key: false,
            columns: Vec::new(),
            chunk_size: 1024,
        };
        let mut has_key = false;
        for text in arguments {
            let wrong = || refused(format_args!("Could not parse '{text}'"));
            let words = words(text).ok_or_else(wrong)?;
            if let Some(column) = vector(&words, text)? {
                let number = definition.count(|kind| matches!(kind, Kind::Vector(..)));
                if number >= COLUMNS_MAX {
                    return Err(refused(format_args!(
                        "Too many provided vector columns, maximum {COLUMNS_MAX}"
                    )));
                }
                definition.add(words[0], Kind::Vector(number, column));
                continue;
            }
            match words.as_slice() {
                [name, kind, partition, key]
                    if is_name(name) && is(partition, &["partition"]) && is(key, &["key"]) =>
                {
                    let class = class(kind)
                        .filter(|class| matches!(class, Class::Text | Class::Integer))
                        .ok_or_else(wrong)?;
                    let number = definition.count(|kind| matches!(kind, Kind::Partition(..)));
                    if number >= PARTITIONS_MAX {
                        return Err(refused(format_args!(
                            "More than {PARTITIONS_MAX} partition key columns were provided"
                        )));
                    }
                    definition.add(name, Kind::Partition(number, class));
                }
                [name, kind, primary, key]
                    if is_name(name) && is(primary, &["primary"]) && is(key, &["key"]) =>
                {
                    if has_key {
                        return Err(refused(
                            "More than one primary key definition was provided, vec0 only suports \
                             a single primary key column",
                        ));
                    }
                    definition.is_text_key = match class(kind) {
                        Some(Class::Text) => true,
                        Some(Class::Integer) => false,
                        _ => return Err(wrong()),
                    };
                    definition.key = (*name).to_owned();
                    has_key = true;
                }
                ["+", name, kind] if is_name(name) => {
                    let class = class(kind).ok_or_else(wrong)?;
                    let number = definition.count(|kind| matches!(kind, Kind::Auxiliary(..)));
                    if number >= COLUMNS_MAX {
                        return Err(refused(format_args!(
                            "More than {COLUMNS_MAX} auxiliary columns were provided"
                        )));
                    }
                    definition.add(name, Kind::Auxiliary(number, class));
                }
                [key, "=", value] => definition.option(key, value)?,
                words if metadata(words).is_some() && is_name(words[0]) => {
                    let number = definition.count(|kind| matches!(kind, Kind::Metadata(..)));
                    if number >= COLUMNS_MAX {
                        return Err(refused(format_args!(
                            "More than {COLUMNS_MAX} metadata columns were provided"
                        )));
                    }
                    let kind = metadata(words).ok_or_else(wrong)?;
                    definition.add(words[0], Kind::Metadata(number, kind));
                }
                _ => return Err(wrong()),
            }
        }
        if definition.count(|kind| matches!(kind, Kind::Vector(..))) == 0 {
            return Err(refused("At least one vector column is required"));
        }
        Ok(definition)
    }

    /// The arguments of a table with some columns of another, and how its rowids come; `None`
    /// without a column of vectors.
    ///
    /// # Errors
    /// As [`Definition::parse`].
    pub(crate) fn of_columns(
        name: &str,
        arguments: &[String],
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<Option<VisibleArguments>, Error> {
        let definition = Definition::parse(name, arguments)?;
        let mut columns = definition.columns.iter();
        if !columns.any(|it| matches!(it.kind, Kind::Vector(..)) && is_visible(&it.name)) {
            return Ok(None);
        }
        let is_kept = |argument: &&String| match words(argument).as_deref() {
            Some([_, "=", _]) => true,
            Some(["+", name, ..] | [name, ..]) => is_visible(name),
            Some([]) | None => false,
        };
        let rowids = match is_visible(&definition.key) {
            true if definition.is_text_key => VisibleRowids::Others,
            true => VisibleRowids::Column,
            false => VisibleRowids::Given,
        };
        let arguments = arguments.iter().filter(is_kept).cloned().collect();
        Ok(Some(VisibleArguments { arguments, rowids }))
    }

    fn option(&mut self, key: &str, value: &str) -> Result<(), Error> {
        if !is(key, &["chunk_size"]) {
            return Err(refused(format_args!("Unknown table option: {key}")));
        }
        self.chunk_size = match value.parse::<usize>() {
            Ok(size) if size > CHUNK_MAX => return Err(refused("chunk_size too large")),
            Ok(0) | Err(_) => {
                return Err(refused("chunk_size must be a non-zero positive integer"));
            }
            Ok(size) if size % 8 != 0 => {
                return Err(refused("chunk_size must be divisible by 8"));
            }
            Ok(size) => size,
        };
        Ok(())
    }

    fn add(&mut self, name: &str, kind: Kind) {
        self.columns.push(Defined { name: name.to_owned(), kind });
    }

    fn count(&self, is: impl Fn(&Kind) -> bool) -> usize {
        self.columns.iter().filter(|column| is(&column.kind)).count()
    }

    /// The columns as SQL sees them: the key, the defined columns, `distance`, `k` and `ef`.
    pub(crate) fn virtual_columns(&self) -> Vec<VirtualColumn> {
        let mut columns = vec![VirtualColumn::new(&self.key, "")];
        for column in &self.columns {
            let mut shown = VirtualColumn::new(&column.name, "");
            if let Kind::Vector(_, vector) = column.kind {
                shown.subtype = vector.element.subtype();
            }
            columns.push(shown);
        }
        columns.extend([VirtualColumn::hidden("distance"), VirtualColumn::hidden("k")]);
        if self.ef_place().is_some() {
            columns.push(VirtualColumn::hidden("ef"));
        }
        columns
    }

    /// The place of the hidden column `ef`, the nodes kept by a search of an index; `None` where
    /// the table has a column of this name.
    pub(crate) fn ef_place(&self) -> Option<usize> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let is_taken = names.chain([self.key.as_str()]).any(|name| is(name, &["ef"]));
        (!is_taken).then(|| self.distance_place() + 2)
    }

    /// The place of the hidden column `distance`; `k` is the next.
    pub(crate) fn distance_place(&self) -> usize {
        self.columns.len() + 1
    }

    /// The kind of the column at a place of the table; `None` for the key and hidden ones.
    pub(crate) fn kind(&self, place: usize) -> Option<Kind> {
        Some(self.columns.get(place.checked_sub(1)?)?.kind)
    }

    /// The vector columns, in order.
    pub(crate) fn vectors(&self) -> impl Iterator<Item = (&str, VectorColumn)> {
        self.columns.iter().filter_map(|column| match column.kind {
            Kind::Vector(_, vector) => Some((column.name.as_str(), vector)),
            _ => None,
        })
    }

    /// The metadata columns, in order.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = MetadataType> {
        self.columns.iter().filter_map(|column| match column.kind {
            Kind::Metadata(_, kind) => Some(kind),
            _ => None,
        })
    }

    /// The number of partition keys.
    pub(crate) fn partitions(&self) -> usize {
        self.count(|kind| matches!(kind, Kind::Partition(..)))
    }

    /// The number of auxiliary columns.
    pub(crate) fn auxiliaries(&self) -> usize {
        self.count(|kind| matches!(kind, Kind::Auxiliary(..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Definition, String> {
        let arguments: Vec<String> = text.split(';').map(|it| it.trim().to_owned()).collect();
        Definition::parse("t", &arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn definitions_are_read_as_sqlite_vec_reads_them() {
        let known = parse(
            "id text primary key; e float[3] distance_metric=cosine; u integer partition key; \
             +note text; n int; chunk_size=16; b bit[16]; f f16[4]",
        )
        .unwrap();
        assert_eq!((known.key.as_str(), known.is_text_key, known.chunk_size), ("id", true, 16));
        let cosine = VectorColumn { element: Element::F32, dimensions: 3, metric: Metric::Cosine };
        assert_eq!(known.kind(1), Some(Kind::Vector(0, cosine)));
        assert_eq!(known.kind(2), Some(Kind::Partition(0, Class::Integer)));
        assert_eq!(known.kind(3), Some(Kind::Auxiliary(0, Class::Text)));
        assert_eq!(known.kind(4), Some(Kind::Metadata(0, MetadataType::Integer)));
        assert_eq!(known.distance_place(), 7);
        for (text, why) in [
            ("n int", "At least one vector column is required"),
            ("e float[0]", "could not parse vector column 'e float[0]'"),
            ("e float[9000]", "Dimension on vector column too large, provided 9000, maximum 8192"),
            ("e float[4]; chunk_size=7", "chunk_size must be divisible by 8"),
            ("e float[4]; chunk_size=8192", "chunk_size too large"),
            ("e float[4]; size=8", "Unknown table option: size"),
            ("e float[4]; what is this", "Could not parse 'what is this'"),
            ("e bit[8] distance_metric=l2", "could not parse vector column"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_table_of_some_columns_keeps_rowids_where_it_can() {
        let of = |text: &str, hidden: &str| {
            let arguments: Vec<String> = text.split(';').map(|it| it.trim().to_owned()).collect();
            let made = Definition::of_columns("t", &arguments, &|name| name != hidden).unwrap();
            made.map(|made| (made.arguments.join("; "), made.rowids))
        };
        let text = "id integer primary key; e float[2]; +note text; n int; chunk_size=8";
        assert_eq!(of(text, "x"), Some((text.to_owned(), VisibleRowids::Column)));
        let without = "e float[2]; +note text; n int; chunk_size=8".to_owned();
        assert_eq!(of(text, "id"), Some((without, VisibleRowids::Given)));
        let without = "id integer primary key; e float[2]; n int; chunk_size=8".to_owned();
        assert_eq!(of(text, "note"), Some((without, VisibleRowids::Column)));
        assert_eq!(of(text, "e"), None);
        let keyed = "id text primary key; e bit[8]";
        assert_eq!(of(keyed, "x"), Some((keyed.to_owned(), VisibleRowids::Others)));
        assert_eq!(of("e bit[8]", "rowid"), Some(("e bit[8]".to_owned(), VisibleRowids::Given)));
    }
}
