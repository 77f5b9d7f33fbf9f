//! `CREATE VIRTUAL TABLE ... USING vec_index(table, column, ...)`: the words of an index.

use shoal_sql::{Error, Object, Schema, ShadowTable};

use super::code::Coder;
use crate::definition::{Definition, VectorColumn};
use crate::shadow::part;

/// The name of the module.
pub(crate) const MODULE: &str = "vec_index";

/// The links aimed at for a new node, where the definition names no number.
const M: usize = 16;
/// The nearest nodes kept by a search, where neither the definition nor the query names a number.
const EF: usize = 64;
/// The nearest nodes kept while the links of a new node are searched.
const EF_CONSTRUCTION: usize = 100;
/// The largest `m`.
const M_MAX: usize = 64;
/// The largest `ef` and `ef_construction`.
pub(crate) const EF_MAX: usize = 10_000;

/// The definition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexDefinition {
    /// The index's own name.
    pub(crate) name: String,
    /// The `vec0` table.
    pub(crate) table: String,
    /// The vector column.
    pub(crate) column: String,
    pub(crate) m: usize,
    pub(crate) ef: usize,
    pub(crate) ef_construction: usize,
}

/// A name without its quotes.
fn unquoted(text: &str) -> String {
    let pairs = [('"', '"'), ('\'', '\''), ('`', '`'), ('[', ']')];
    for (open, close) in pairs {
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inner) = inner {
            return inner.replace(&format!("{close}{close}"), &close.to_string());
        }
    }
    text.to_owned()
}

impl IndexDefinition {
    /// Reads the arguments of `USING vec_index(...)`.
    ///
    /// # Errors
    /// Missing names, unknown options, numbers out of range.
    pub(crate) fn parse(name: &str, arguments: &[String]) -> Result<IndexDefinition, Error> {
        let refused = |why: String| Error::of_function(format!("vec_index: {why}"));
        let [table, column, options @ ..] = arguments else {
            return Err(refused("the arguments are a vec0 table and its vector column".into()));
        };
        let mut definition = IndexDefinition {
            name: name.to_owned(),
            table: unquoted(table),
            column: unquoted(column),
            m: M,
            ef: EF,
            ef_construction: EF_CONSTRUCTION,
        };
        for option in options {
            let unknown = || refused(format!("unknown option '{option}'"));
            let (key, value) = option.split_once('=').ok_or_else(unknown)?;
            let (place, least, most) = match key.trim().to_ascii_lowercase().as_str() {
                "m" => (&mut definition.m, 4, M_MAX),
                "ef" => (&mut definition.ef, 1, EF_MAX),
                "ef_construction" => (&mut definition.ef_construction, 1, EF_MAX),
                _ => return Err(unknown()),
            };
            let number = value.trim().parse().ok().filter(|number| (least..=most).contains(number));
            let range = || refused(format!("{} is a number of {least} to {most}", key.trim()));
            *place = number.ok_or_else(range)?;
        }
        Ok(definition)
    }

    /// The most links of a node.
    pub(crate) fn degree_max(&self) -> usize {
        self.m * 2
    }
}

/// An index of a vector column, with its shadow tables. Good for one version of the schema.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) definition: IndexDefinition,
    /// The number of the column among the table's vector columns.
    pub(crate) number: usize,
    pub(crate) column: VectorColumn,
    pub(crate) coder: Coder,
    /// A row for each node, by the rowid of the `vec0` table.
    pub(crate) nodes: ShadowTable,
    /// One row: where a walk begins, and the stamp of the rows.
    pub(crate) meta: ShadowTable,
}

impl Index {
    /// Opens an index of a column of `table`.
    ///
    /// # Errors
    /// Another table, no such column, a column with distances no index knows; missing shadow
    /// tables.
    pub(crate) fn open(
        definition: IndexDefinition,
        table: &Definition,
        schema: &Schema,
    ) -> Result<Index, Error> {
        let refused = |why: String| Error::of_function(format!("vec_index: {why}"));
        let found = table.vectors().enumerate();
        let found = { found }.find(|(_, (name, _))| name.eq_ignore_ascii_case(&definition.column));
        let Some((number, (_, column))) = found else {
            let (table, column) = (&definition.table, &definition.column);
            return Err(refused(format!("table {table} has no vector column {column}")));
        };
        let Some(coder) = Coder::new(column) else {
            let why = "l1 distances of floats are searched without an index";
            return Err(refused(why.to_owned()));
        };
        let part = |suffix: &str, columns: usize| {
            part(schema, (MODULE, &definition.name), suffix, columns)
        };
        let (nodes, meta) = (part("nodes", 2)?, part("meta", 7)?);
        Ok(Index { definition, number, column, coder, nodes, meta })
    }

    /// The indexes of a table, in the order of the schema; those without their parts are left out.
    pub(crate) fn of_table(table: &Definition, schema: &Schema) -> Vec<Index> {
        let indexes = schema.objects().iter().filter_map(|object| {
            let Object::Virtual(known) = object else { return None };
            if !known.module().eq_ignore_ascii_case(MODULE) {
                return None;
            }
            let definition = IndexDefinition::parse(known.name(), known.arguments()).ok()?;
            let is_own = definition.table.eq_ignore_ascii_case(&table.name);
            is_own.then(|| Index::open(definition, table, schema).ok()).flatten()
        });
        indexes.collect()
    }

    /// The error of a fault in the index.
    pub(crate) fn corrupt(&self, why: impl Into<String>) -> Error {
        Error::CorruptVirtual { table: self.definition.name.clone(), why: why.into() }
    }

    /// The kind of the vectors and the number of links, as the index keeps them: an index of
    /// another shape is of another table.
    pub(crate) fn shape(&self) -> String {
        let VectorColumn { element, dimensions, metric } = self.column;
        format!("{}[{dimensions}] {metric:?} m={}", element.name(), self.definition.m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_names_and_numbers_in_range() {
        let parse = |text: &str| {
            let arguments: Vec<String> = text.split(',').map(|it| it.trim().to_owned()).collect();
            IndexDefinition::parse("i", &arguments)
        };
        let known = parse("\"my \"\"places\", [feel], M = 8, ef=200, ef_construction=300").unwrap();
        assert_eq!((known.table.as_str(), known.column.as_str()), ("my \"places", "feel"));
        assert_eq!((known.m, known.ef, known.ef_construction), (8, 200, 300));
        for (text, why) in [
            ("places", "the arguments are a vec0 table and its vector column"),
            ("places, feel, m", "unknown option 'm'"),
            ("places, feel, n=4", "unknown option 'n=4'"),
            ("places, feel, m=65", "m is a number of 4 to 64"),
            ("places, feel, ef=0", "ef is a number of 1 to 10000"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
