//! Built-in modules, independent of any connection: `json_each`, `json_tree`, `generate_series`.

mod json;
mod series;

use std::sync::Arc;

use crate::schema::Module;

/// All built-in modules.
pub(crate) fn built_in() -> impl Iterator<Item = Arc<dyn Module>> {
    let series: Arc<dyn Module> = Arc::new(series::GenerateSeries);
    json::ALL.into_iter().map(|json| Arc::new(json) as Arc<dyn Module>).chain([series])
}
