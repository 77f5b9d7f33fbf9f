//! TPC-H: 22 queries over eight tables, and queries over them as people type them. Real joins,
//! beside the rows isolating one thing each.

use std::path::PathBuf;

use super::query::{self, Query};
use super::row;
use crate::dataset::tpch::{self, SCALE, Variant};
use crate::engine::{Miss, TableEngine};
use crate::workload::{Bench, Context};

/// Columns of the 22 results, in the order of the queries.
const WIDTHS: [usize; 22] = [10, 8, 4, 2, 2, 1, 4, 2, 3, 8, 2, 3, 2, 1, 5, 4, 1, 6, 1, 2, 2, 3];

/// The everyday queries in the order of their file: the name, the columns of the result, and the
/// column to compare alone where rows tie at the `LIMIT`.
const EVERYDAY: [(&str, usize, Option<usize>); 38] = [
    ("window_rank", 3, None),
    ("window_running_sum", 1, None),
    ("lag", 1, None),
    ("group_high_card", 3, Some(2)),
    ("group_2_keys", 3, None),
    ("distinct_count", 2, None),
    ("order_by_big", 2, None),
    ("like", 1, None),
    ("substr_group", 2, None),
    ("strftime", 2, None),
    ("case", 1, None),
    ("in_list", 1, None),
    ("exists", 1, None),
    ("not_in", 1, None),
    ("scalar_corr", 1, None),
    ("recursive", 1, None),
    ("self_join", 1, None),
    ("3_join_no_idx", 2, Some(1)),
    ("union", 1, None),
    ("left_join_null", 1, None),
    ("group_concat", 1, None),
    ("json_build", 1, None),
    ("json_extract", 1, None),
    ("upper_replace", 1, None),
    ("printf", 1, None),
    ("point_x1", 9, None),
    ("max_by_idx", 3, None),
    ("orders_per_customer", 3, None),
    ("sales_per_part", 3, None),
    ("supplier_averages", 4, None),
    ("largest_orders", 3, None),
    ("same_day_pairs", 2, None),
    ("brands_together", 3, None),
    ("first_orders", 3, None),
    ("first_page", 4, None),
    ("totals_of_some", 3, None),
    ("newest_of_both", 3, None),
    ("newest_of_each", 3, None),
];

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for variant in Variant::ALL {
        for (number, width) in (1..).zip(WIDTHS) {
            let text = format!(
                "query {number} of TPC-H at scale 0.2 (1,200,000 lines; {SCALE} names another in \
                 thousandths) {}, prepared once, all read; its text is in testdata/tpch/queries",
                variant.words()
            );
            let name = format!("{}q{number:02}", variant.part());
            bench.add(row(&name, "query", &text), move |engine, cx| {
                let sql = cx.corpus(&format!("tpch/queries/{number}.sql"))?;
                let sql = std::fs::read_to_string(sql).map_err(Miss::failed)?;
                query::prepare(engine, cx, path(cx, variant)?, &Query::new(&sql, width), 1)
            });
        }
    }
    for (name, width, determined) in EVERYDAY {
        let text = format!(
            "`{name}` of testdata/tpch/everyday.sql over TPC-H's tables at scale 0.2, prepared \
             once, all read"
        );
        bench.add(row(&format!("tpch/everyday/{name}"), "query", &text), move |engine, cx| {
            let file = cx.corpus("tpch/everyday.sql")?;
            let file = std::fs::read_to_string(file).map_err(Miss::failed)?;
            let sql = everyday(&file, name)
                .ok_or_else(|| Miss::Failed(format!("{name} is not in everyday.sql")))?;
            let query = Query { determined, ..Query::new(sql, width) };
            query::prepare(engine, cx, path(cx, Variant::Indexed)?, &query, 1)
        });
    }
}

fn path(cx: &Context, variant: Variant) -> Result<PathBuf, Miss> {
    tpch::found(cx, variant).ok_or_else(|| Miss::NotRun("the tables of TPC-H were not made".into()))
}

/// The query below the comment with its name.
fn everyday<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.split("-- ").find_map(|part| {
        let (title, sql) = part.split_once('\n')?;
        (title == name).then_some(sql.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_everyday_query_of_the_file_is_a_row_and_the_other_way_round() {
        let file = include_str!("../../../../testdata/tpch/everyday.sql");
        for (name, ..) in EVERYDAY {
            assert!(everyday(file, name).is_some_and(|sql| sql.ends_with(';')), "{name}");
        }
        assert_eq!(file.matches("-- ").count(), EVERYDAY.len());
    }
}
