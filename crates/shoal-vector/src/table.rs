//! A table: how its rows are found, and its shadow tables as a whole.

use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Schema, TableReads, TableWrites, Taken,
    VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use crate::check;
use crate::cursor::VectorCursor;
use crate::definition::{Definition, Kind};
use crate::filter::Subject;
use crate::search::Residents;
use crate::shadow::{Parts, drop_shadows, quoted, rename_shadows};
use crate::vector::Element;
use crate::writer::VectorWriter;

/// All rows.
pub(crate) const ALL: i32 = 0;
/// One row by its key.
pub(crate) const BY_KEY: i32 = 1;
/// Rows by distance; the vector column is the number less this one.
pub(crate) const NEAREST: i32 = 2;

/// The words before the name of an index in the text of a choice.
pub(crate) const INDEX: &str = " index ";

/// A table of a file.
#[derive(Debug)]
pub(crate) struct VectorTable {
    parts: Arc<Parts>,
    residents: Arc<Residents>,
    columns: Vec<VirtualColumn>,
}

/// The use of one argument of the cursor: a letter of the choice's text, then a column for some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Use {
    /// `M`: the query of `MATCH`.
    Match,
    /// `K`: the number of rows wanted.
    Limit,
    /// `E`: the number of nodes kept by a search of an index.
    Effort,
    /// `=`, `<`, `[`, `>`, `]`: a condition on a column, or on the rowid.
    Condition(ConstraintOp, Option<usize>),
}

impl Use {
    fn write(self, out: &mut String) {
        let (letter, column) = match self {
            Use::Match => ('M', None),
            Use::Limit => ('K', None),
            Use::Effort => ('E', None),
            Use::Condition(op, column) => {
                let letter = match op {
                    ConstraintOp::Less => '<',
                    ConstraintOp::AtMost => '[',
                    ConstraintOp::Greater => '>',
                    ConstraintOp::AtLeast => ']',
                    _ => '=',
                };
                (letter, column)
            }
        };
        out.push(letter);
        if let Some(column) = column {
            out.push_str(&column.to_string());
        }
    }

    /// Reads the text of a choice, up to the name of an index.
    pub(crate) fn read(text: &str) -> Vec<Use> {
        let mut uses = Vec::new();
        let mut rest = text.split_once(' ').map_or(text, |(uses, _)| uses);
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let column = rest[..end].parse().ok();
            rest = &rest[end..];
            uses.push(match letter {
                'M' => Use::Match,
                'K' => Use::Limit,
                'E' => Use::Effort,
                '<' => Use::Condition(ConstraintOp::Less, column),
                '[' => Use::Condition(ConstraintOp::AtMost, column),
                '>' => Use::Condition(ConstraintOp::Greater, column),
                ']' => Use::Condition(ConstraintOp::AtLeast, column),
                _ => Use::Condition(ConstraintOp::Equal, column),
            });
        }
        uses
    }
}

impl VectorTable {
    pub(crate) fn open(definition: Definition, schema: &Schema) -> Result<VectorTable, Error> {
        let columns = definition.virtual_columns();
        let parts = Parts::open(definition, schema)?;
        let residents = Residents::new(parts.vectors.len(), parts.indexes.len());
        Ok(VectorTable { parts: Arc::new(parts), residents: Arc::new(residents), columns })
    }

    /// The choice of rows by distance; `None` without a `MATCH`.
    fn nearest(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let definition = &self.parts.definition;
        let mut found = None;
        for (place, constraint) in request.constraints.iter().enumerate() {
            let kind = constraint.column.and_then(|column| definition.kind(column));
            let (ConstraintOp::Match, Some(Kind::Vector(number, column))) = (constraint.op, kind)
            else {
                continue;
            };
            if found.is_some() {
                let why = "only 1 MATCH operator is allowed in a single vec0 query";
                return Err(Error::of_function(why));
            }
            let subtype = constraint.subtype;
            let given = Element::of_subtype(subtype);
            if matches!(subtype, 223..=226) && given != column.element {
                let name = definition.vectors().nth(number).map_or("", |(name, _)| name);
                return Err(Error::of_function(format!(
                    "Query vector for the \"{name}\" column is expected to be of type {}, but a \
                     {} vector was provided.",
                    column.element.name(),
                    given.name()
                )));
            }
            found = Some((place, number));
        }
        let Some((constraint, number)) = found else { return Ok(None) };
        let mut choice = IndexChoice {
            number: NEAREST + i32::try_from(number).unwrap_or(0),
            taken: vec![Taken { constraint, is_exact: true }],
            cost: 30.0,
            rows: 10.0,
            ..IndexChoice::default()
        };
        Use::Match.write(&mut choice.text);
        for (constraint, known) in request.constraints.iter().enumerate() {
            let is_limit = known.column == Some(definition.distance_place() + 1);
            let is_effort = known.column.is_some() && known.column == definition.ef_place();
            // A key perhaps of a row of another table: `k` counts before the join, whichever of the
            // tables comes first.
            let is_key = Subject::of(definition, known.column) == Some(Subject::Rowid);
            if is_key && known.op == ConstraintOp::Equal && known.value.is_none() {
                continue;
            }
            let action = match known.op {
                ConstraintOp::Equal if is_limit && choice.limit.is_none() => {
                    choice.limit = Some(choice.taken.len());
                    Use::Limit
                }
                ConstraintOp::Equal if is_effort && !choice.text.contains('E') => Use::Effort,
                ConstraintOp::Equal
                | ConstraintOp::Less
                | ConstraintOp::AtMost
                | ConstraintOp::Greater
                | ConstraintOp::AtLeast
                    if !is_limit && Subject::of(definition, known.column).is_some() =>
                {
                    Use::Condition(known.op, known.column)
                }
                _ => continue,
            };
            action.write(&mut choice.text);
            choice.taken.push(Taken { constraint, is_exact: true });
        }
        choice.is_ordered = matches!(request.order, [order]
            if order.column == Some(definition.distance_place()) && !order.descending);
        // Without a number of rows all of them are wanted, the nearest first.
        if let Some(index) = self.parts.index_of(number).filter(|_| choice.limit.is_some()) {
            choice.text.push_str(INDEX);
            choice.text.push_str(&self.parts.indexes[index].definition.name);
            // Rows asked for beyond `k` may be nearer than rows before.
            choice.is_ordered = false;
        }
        Ok(Some(choice))
    }
}

impl VirtualTable for VectorTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        if let Some(choice) = self.nearest(request)? {
            return Ok(Some(choice));
        }
        let is_text = self.parts.definition.is_text_key;
        let by_key = request.constraints.iter().position(|constraint| {
            let is_key = constraint.column == Some(0) || !is_text && constraint.column.is_none();
            constraint.op == ConstraintOp::Equal && is_key
        });
        Ok(Some(match by_key {
            Some(constraint) => IndexChoice {
                number: BY_KEY,
                taken: vec![Taken { constraint, is_exact: true }],
                cost: 10.0,
                rows: 1.0,
                ..IndexChoice::default()
            },
            None => IndexChoice {
                number: ALL,
                cost: 3_000_000.0,
                rows: 100_000.0,
                is_ordered: matches!(request.order, [order]
                    if order.column.is_none() && !order.descending),
                ..IndexChoice::default()
            },
        }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        let parts = (Arc::clone(&self.parts), Arc::clone(&self.residents));
        Ok(Box::new(VectorCursor::new(parts)))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Ok(Box::new(VectorWriter::new(Arc::clone(&self.parts))))
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let definition = &self.parts.definition;
        if let Some(index) = self.parts.indexes.first() {
            let index = &index.definition.name;
            return Err(Error::of_function(format!(
                "vec0 table {} has the vec_index {index}: drop the index first, make it again \
                 under the new name",
                definition.name
            )));
        }
        rename_shadows((&definition.name, new_name), definition.suffixes(), writes)
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let definition = &self.parts.definition;
        for index in &self.parts.indexes {
            writes.execute(&format!("DROP TABLE {}", quoted(&index.definition.name)), &[])?;
        }
        drop_shadows(&definition.name, definition.suffixes(), writes)
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        check::faults(&self.parts, reads)
    }
}
