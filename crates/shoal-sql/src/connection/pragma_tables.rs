//! The pragmas that read, as table-valued functions: `pragma_table_info` and its relatives; and the
//! list of all modules that a connection begins with.

use std::sync::{Arc, OnceLock};

use super::pragma::Kind;
use crate::Error;
use crate::modules::built_in;
use crate::schema::{MadeRows, Module, ModuleContext, ModuleRows, Modules};
use crate::value::{Value, text_of};

/// The modules of every connection.
pub(super) fn modules() -> Modules {
    static ALL: OnceLock<Modules> = OnceLock::new();
    let pragma = |(name, kind)| {
        let table = PragmaTable { name: format!("pragma_{name}"), kind };
        Arc::new(table) as Arc<dyn Module>
    };
    ALL.get_or_init(|| Modules(built_in().chain(Kind::of_tables().map(pragma)).collect())).clone()
}

#[derive(Debug)]
struct PragmaTable {
    name: String,
    kind: Kind,
}

impl Module for PragmaTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<&str> {
        self.kind.columns().to_vec()
    }

    fn arguments(&self) -> &[&str] {
        if self.kind.has_argument() { &["arg", "schema"] } else { &["schema"] }
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let schema = context.schema.expect("a module that reads the schema is given it");
        let given = |place: usize| arguments.get(place).and_then(Option::as_ref);
        let has_argument = self.kind.has_argument();
        let argument = if has_argument { given(0) } else { None };
        let database = given(usize::from(has_argument)).and_then(|name| text_of(name.as_ref()));
        let database = database.map(|name| String::from_utf8_lossy(&name).into_owned());
        let rows = self.kind.rows(argument, database.as_deref(), schema, context.txns)?;
        Ok(MadeRows::boxed(rows))
    }
}
