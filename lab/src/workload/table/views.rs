//! Views, and views over views: a stored name for a query should cost nothing.

use std::sync::Arc;

use super::query::{self, Query};
use super::row;
use crate::engine::table::Access;
use crate::engine::{Miss, TableEngine};
use crate::workload::Bench;

/// Sharc's chain of views over `users`, and its view with a host predicate as SQL.
const VIEWS: [&str; 4] = [
    "CREATE VIEW v_users AS SELECT name, age, score FROM users",
    "CREATE VIEW v_sub1 AS SELECT name, age FROM v_users",
    "CREATE VIEW v_sub2 AS SELECT name FROM v_sub1",
    "CREATE VIEW v_filtered AS SELECT name, age, score FROM users WHERE age > 30",
];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for (name, view, width, rows) in [
        ("view_depth_0", "v_users", 3, 5_000),
        ("view_depth_1", "v_sub1", 2, 5_000),
        ("view_depth_2", "v_sub2", 1, 5_000),
        ("filtered_view", "v_filtered", 3, 3_940),
    ] {
        let text = format!(
            "SELECT * FROM {view}, rows counted; the view is made in a copy of core.db: compare \
             with direct_table_count"
        );
        bench.add(row(name, "query", &text), move |engine, cx| {
            let engine = Arc::clone(engine);
            if !engine.opens_in_place() {
                return Err(Miss::NotRun("no views are made in its own copy".into()));
            }
            let (path, whole) = (cx.scratch.join("views.db"), cx.scratch.join("views.whole"));
            if !whole.exists() {
                std::fs::copy(cx.corpus("sharc/core.db")?, &path).map_err(Miss::failed)?;
                let mut db = engine.open(&path, Access::Write, &cx.scratch)?;
                for view in VIEWS {
                    engine.execute(&mut db, view)?;
                }
                drop(db);
                std::fs::write(&whole, []).map_err(Miss::failed)?;
            }
            let query = Query::new(&format!("SELECT * FROM {view}"), width).reading(0).giving(rows);
            query::prepare(&engine, cx, path, &query, cx.pick(50, 2))
        });
    }
}
