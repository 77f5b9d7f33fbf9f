//! Procedures that a case defines by a table: rows whose inputs are equal to the arguments.

use std::collections::BTreeMap;

use shoal_graph::{Bounds, Graph, Input, Procedures, Result, Signature, Value, ValueKind};

/// Procedures by name.
#[derive(Default)]
pub(crate) struct Tables {
    all: BTreeMap<String, (Signature, Vec<Vec<Value>>)>,
}

impl Tables {
    /// Adds a procedure: `name(in :: INTEGER?) :: (out :: STRING?)`.
    pub(crate) fn add(
        &mut self,
        signature: &str,
        header: &[String],
        rows: Vec<Vec<Value>>,
    ) -> std::result::Result<(), String> {
        let (name, rest) = signature.split_once('(').ok_or("a procedure has arguments")?;
        let (inputs, rest) = rest.split_once(')').ok_or("arguments end")?;
        let outputs = rest
            .trim()
            .trim_start_matches("::")
            .trim()
            .trim_start_matches('(')
            .trim_end_matches([')', ' ']);
        let fields = |list: &str| -> Vec<(String, String)> {
            list.split(',')
                .filter_map(|field| field.split_once("::"))
                .map(|(name, kind)| {
                    (name.trim().to_owned(), kind.trim().trim_end_matches('?').to_owned())
                })
                .collect()
        };
        let input = |(name, kind): (String, String)| {
            let kind = match kind.as_str() {
                "STRING" => ValueKind::Text,
                "INTEGER" => ValueKind::Integer,
                "FLOAT" => ValueKind::Float,
                "NUMBER" => ValueKind::Number,
                "BOOLEAN" => ValueKind::Boolean,
                _ => ValueKind::Any,
            };
            Input { name, kind, is_optional: false }
        };
        let signature = Signature {
            inputs: fields(inputs).into_iter().map(input).collect(),
            outputs: fields(outputs).into_iter().map(|(name, _)| name).collect(),
        };
        let count = signature.inputs.len() + signature.outputs.len();
        if count > 0 && header.len() != count {
            return Err(format!("{} columns for {count} arguments and results", header.len()));
        }
        let rows = if count == 0 { Vec::new() } else { rows };
        self.all.insert(name.trim().to_owned(), (signature, rows));
        Ok(())
    }
}

impl Procedures for Tables {
    fn signature(&self, name: &str) -> Option<Signature> {
        self.all.get(name).map(|(signature, _)| signature.clone())
    }

    fn call(
        &self,
        name: &str,
        args: &[Value],
        _: &dyn Graph,
        _: &dyn Bounds,
    ) -> Result<Vec<Vec<Value>>> {
        let (signature, rows) = &self.all[name];
        let count = signature.inputs.len();
        let fits = |row: &&Vec<Value>| row.iter().zip(args).all(|(a, b)| a.order(b).is_eq());
        Ok(rows.iter().filter(fits).map(|row| row[count..].to_vec()).collect())
    }
}
