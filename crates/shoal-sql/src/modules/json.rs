//! `json_each`, `json_tree` and their JSONB forms.

use crate::Error;
use crate::functions::{Walk, walk};
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
        let rows = match given(0) {
            None => Vec::new(),
            Some(json) => walk(self.walk, json, given(1))?,
        };
        Ok(MadeRows::boxed(rows))
    }
}
