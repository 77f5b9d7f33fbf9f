//! `json_each`, `json_tree` and their JSONB forms.

use crate::Error;
use crate::functions::{Elements, Walk, elements};
use crate::schema::{MadeRows, Module, ModuleContext, ModuleRows};
use crate::value::Value;

/// A walk over the elements of a JSON text or JSONB blob.
#[derive(Debug)]
pub(super) struct JsonTable {
    name: &'static str,
    walk: Walk,
}

pub(super) const ALL: [JsonTable; 4] = [
    JsonTable { name: "json_each", walk: Walk { deep: false, blob: false } },
    JsonTable { name: "jsonb_each", walk: Walk { deep: false, blob: true } },
    JsonTable { name: "json_tree", walk: Walk { deep: true, blob: false } },
    JsonTable { name: "jsonb_tree", walk: Walk { deep: true, blob: true } },
];

impl Module for JsonTable {
    fn name(&self) -> &str {
        self.name
    }

    fn columns(&self) -> Vec<&str> {
        vec!["key", "value", "type", "atom", "id", "parent", "fullkey", "path"]
    }

    fn arguments(&self) -> &[&str] {
        &["json", "root"]
    }

    fn default_argument(&self, argument: usize) -> Value {
        match argument {
            1 => "$".into(),
            _ => Value::Null,
        }
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        _context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let given = |place: usize| arguments.get(place).and_then(Option::as_ref);
        let found = given(0).map(|json| elements(self.walk, json, given(1))).transpose()?;
        Ok(match found.flatten() {
            Some(elements) => Box::new(elements),
            None => MadeRows::boxed(Vec::new()),
        })
    }
}

impl ModuleRows for Elements {
    fn next(&mut self, row: &mut Vec<Value>, _context: &ModuleContext<'_>) -> Result<bool, Error> {
        Elements::next(self, row)
    }

    fn reads(&mut self, columns: &[usize], _folds: bool) {
        self.only(columns);
    }
}
