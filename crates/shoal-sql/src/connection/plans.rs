//! Plans kept by the text of their queries, for those who prepare the same text again and again.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::statement::Compiled;
use crate::parse::Parsed;
use crate::schema::Schema;

/// Most plans that are kept; all are forgotten when there would be more.
const PLANS_MAX: usize = 512;

/// A query's plan.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) parsed: Arc<Parsed>,
    pub(crate) compiled: Arc<Compiled>,
    /// The schema that it is for.
    pub(crate) schema: Arc<Schema>,
}

/// The plans of a connection.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_text: FxHashMap<Box<str>, Plan>,
}

impl Plans {
    /// The plan of a text, unless the schema is another one by now.
    pub(crate) fn get(&self, sql: &str, schema: &Arc<Schema>) -> Option<Plan> {
        let plan = self.by_text.get(sql)?;
        Arc::ptr_eq(&plan.schema, schema).then(|| plan.clone())
    }

    pub(crate) fn keep(&mut self, sql: &str, plan: Plan) {
        if self.by_text.len() >= PLANS_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(sql.into(), plan);
    }
}
