//! The shape of a table: its columns, and the layout of its nodes.

use shoal_sql::{Error, VirtualColumn};

use crate::node::Coordinates;

/// Most dimensions of a box.
pub(crate) const DIMENSIONS_MAX: usize = 5;
/// Most auxiliary columns.
const AUXILIARY_MAX: usize = 100;
/// Most cells of a node, whatever the page's size.
const CELLS_MAX: usize = 51;
/// Fewest bytes of a node: a page of 512 without its own header.
pub(crate) const NODE_BYTES_MIN: usize = 512 - 64;

/// A table's columns and the layout of its cells.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) kind: Coordinates,
    /// The id, the coordinates, the auxiliary columns.
    pub(crate) columns: Vec<VirtualColumn>,
    /// Twice the number of dimensions.
    pub(crate) coordinates: usize,
    pub(crate) auxiliary: usize,
}

impl Shape {
    /// The shape of a table from its arguments.
    ///
    /// # Errors
    /// A wrong number of columns, in SQLite's words.
    pub(crate) fn new(name: &str, kind: Coordinates, arguments: &[String]) -> Result<Shape, Error> {
        let refused = |what: &str| Err(Error::of_function(what));
        if arguments.len() < 3 {
            return refused("Too few columns for an rtree table");
        }
        if arguments.len() > AUXILIARY_MAX {
            return refused("Too many columns for an rtree table");
        }
        let declared = match kind {
            Coordinates::Real => "REAL",
            Coordinates::Integer => "INT",
        };
        let mut columns = vec![VirtualColumn::new(first_token(&arguments[0]), "INT")];
        let (mut coordinates, mut auxiliary) = (0, 0);
        for argument in &arguments[1..] {
            match argument.strip_prefix('+') {
                Some(name) => {
                    auxiliary += 1;
                    columns.push(VirtualColumn::new(first_token(name), ""));
                }
                None if auxiliary > 0 => {
                    return refused("Auxiliary rtree columns must be last");
                }
                None => {
                    coordinates += 1;
                    columns.push(VirtualColumn::new(first_token(argument), declared));
                }
            }
        }
        if coordinates < 2 {
            return refused("Too few columns for an rtree table");
        }
        if coordinates > 2 * DIMENSIONS_MAX {
            return refused("Too many columns for an rtree table");
        }
        if coordinates % 2 == 1 {
            return refused("Wrong number of columns for an rtree table");
        }
        for (place, column) in columns.iter().enumerate() {
            let same = |other: &VirtualColumn| other.name.eq_ignore_ascii_case(&column.name);
            if columns[..place].iter().any(same) {
                return Err(Error::of_function(format!("duplicate column name: {}", column.name)));
            }
        }
        Ok(Shape { name: name.to_owned(), kind, columns, coordinates, auxiliary })
    }

    /// Bytes of a cell.
    pub(crate) fn cell_bytes(&self) -> usize {
        8 + 4 * self.coordinates
    }

    /// Bytes of the nodes of a new table in a file of this page size.
    pub(crate) fn node_bytes(&self, page_size: usize) -> usize {
        page_size.saturating_sub(64).min(4 + self.cell_bytes() * CELLS_MAX)
    }

    /// The error of a node or mapping.
    pub(crate) fn corrupt(&self, why: impl Into<String>) -> Error {
        Error::CorruptVirtual { table: self.name.clone(), why: why.into() }
    }

    /// The name of a shadow table.
    pub(crate) fn shadow(&self, part: &str) -> String {
        format!("{}_{part}", self.name)
    }
}

/// The first token of an argument without its quotes: types behind a column's name mean nothing.
fn first_token(argument: &str) -> String {
    let text = argument.trim_start();
    let close = match text.chars().next() {
        Some('[') => ']',
        Some(quote @ ('"' | '\'' | '`')) => quote,
        _ => {
            let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
            let end = text.find(|char: char| !is_part(char)).unwrap_or(text.len());
            return text[..end].to_owned();
        }
    };
    let mut name = String::new();
    let mut chars = text.chars().skip(1).peekable();
    while let Some(char) = chars.next() {
        if char == close {
            if close == ']' || chars.peek() != Some(&close) {
                break;
            }
            chars.next();
        }
        name.push(char);
    }
    name
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns() {
        assert_eq!(first_token(" x0 REAL"), "x0");
        assert_eq!(first_token("\"a \"\"b\" INT"), "a \"b");
        assert_eq!(first_token("[a b]x"), "a b");
    }
}
