//! SQL over Sharc's user tables, orders and joins: the statements of Sharc's baseline, each
//! prepared once, parameters bound, all columns read unless the row says otherwise.

use super::query::{self, Parameter, Query};
use super::{USERS, Users, generated, row};
use crate::engine::TableEngine;
use crate::workload::Bench;

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for users in USERS {
        for (name, text, query) in on_users() {
            let text = format!("{text}; {} rows of users", users.count());
            let row = row(&format!("{name}{}", users.suffix()), "query", &text)
                .in_series(name, users.count());
            // Row counts are known for Sharc's data only.
            let query =
                Query { expected: query.expected.filter(|_| users == Users::Core), ..query };
            bench.add(row, move |engine, cx| {
                let times = if users == Users::Core { cx.pick(50, 2) } else { 1 };
                query::prepare(engine, cx, users.path(cx)?, &query, times)
            });
        }
    }
    for (database, name, text, query, times) in on_files() {
        bench.add(row(name, "query", text), move |engine, cx| {
            let path = cx.corpus(&format!("sharc/{database}.db"))?;
            query::prepare(engine, cx, path, &query, cx.pick(times, 2))
        });
    }
    for (size, label) in [(1_000_000, "1M"), (5_000_000, "5M")] {
        for (name, text, query) in on_orders(size) {
            let text = format!("{text}; {size} orders");
            let row = row(&format!("{name}/{label}"), "query", &text).in_series(name, size);
            bench.add(row, move |engine, cx| {
                let path = generated(cx, size)?;
                let present = Users::Generated { rows: size, label }.present(cx);
                let mut query = query.clone();
                if let Parameter::Random(bound) = &mut query.parameter {
                    *bound = present;
                }
                let times = if name == "index_seek" { cx.pick(10_000, 10) } else { 1 };
                query::prepare(engine, cx, path, &query, times)
            });
        }
    }
}

/// Statements on `users` of `core.db`, and of the generated databases of the same columns.
fn on_users() -> Vec<(&'static str, &'static str, Query)> {
    vec![
        (
            "scan_id",
            "SELECT id FROM users, read (Sharc's TypeDecode; the rowid needs no decoding)",
            Query::new("SELECT id FROM users", 1),
        ),
        (
            "scan_decode",
            "SELECT age, score FROM users, both read: what TypeDecode should have been",
            Query::new("SELECT age, score FROM users", 2),
        ),
        (
            "null_scan",
            "count the rows WHERE bio IS NULL, the engine counting",
            Query::new("SELECT count(*) FROM users WHERE bio IS NULL", 1),
        ),
        (
            "null_scan_read",
            "SELECT bio FROM users, each seen to be NULL or not",
            Query::new("SELECT bio FROM users", 1),
        ),
        (
            "filter_star",
            "SELECT id FROM users WHERE age > 30 AND score < 50",
            Query::new("SELECT id FROM users WHERE age > 30 AND score < 50", 1).giving(1_987),
        ),
        (
            "sequential_scan",
            "all nine columns of every row read",
            Query::new(
                "SELECT id, name, email, age, score, bio, active, dept, created FROM users",
                9,
            ),
        ),
        (
            "direct_table_count",
            "SELECT name, age, score FROM users, rows counted, nothing read",
            Query::new("SELECT name, age, score FROM users", 3).reading(0),
        ),
        (
            "direct_table_read",
            "SELECT name, age, score FROM users, all read",
            Query::new("SELECT name, age, score FROM users", 3),
        ),
        (
            "direct_table_where",
            "SELECT name, age, score FROM users WHERE age > 30, rows counted",
            Query::new("SELECT name, age, score FROM users WHERE age > 30", 3)
                .reading(0)
                .giving(3_940),
        ),
        (
            "cross_type",
            "SELECT name FROM users WHERE age > 30.5, rows counted",
            Query::new("SELECT name FROM users WHERE age > 30.5", 1).reading(0).giving(3_940),
        ),
        (
            "same_type",
            "SELECT name FROM users WHERE age > 30, rows counted",
            Query::new("SELECT name FROM users WHERE age > 30", 1).reading(0).giving(3_940),
        ),
        ("count_star", "SELECT count(*) FROM users", Query::new("SELECT count(*) FROM users", 1)),
        (
            "group_by",
            "SELECT dept, count(*), avg(score) FROM users GROUP BY dept",
            Query::new(
                "SELECT dept, count(*) AS cnt, avg(score) AS mean FROM users GROUP BY dept",
                3,
            )
            .giving(5),
        ),
        (
            "order_limit",
            "SELECT id, name, score FROM users ORDER BY score DESC LIMIT 50",
            Query::new("SELECT id, name, score FROM users ORDER BY score DESC LIMIT 50", 3)
                .ordered_by(2)
                .giving(50),
        ),
        (
            "where_text",
            "SELECT id, name FROM users WHERE dept = ?1 ('eng'), no index",
            Query::new("SELECT id, name FROM users WHERE dept = ?1", 2)
                .bound(Parameter::Text("eng"))
                .giving(1_046),
        ),
        (
            "sum_column",
            "SELECT sum(age), max(score) FROM users",
            Query::new("SELECT sum(age), max(score) FROM users", 2),
        ),
        (
            "like",
            "SELECT count(*) FROM users WHERE name LIKE '%9%8%'",
            Query::new("SELECT count(*) FROM users WHERE name LIKE '%9%8%'", 1),
        ),
        (
            "computed_sum",
            "SELECT sum(CASE WHEN age > 40 THEN age * 2 ELSE 1 END) FROM users",
            Query::new("SELECT sum(CASE WHEN age > 40 THEN age * 2 ELSE 1 END) FROM users", 1),
        ),
        (
            "computed_where",
            "SELECT id FROM users WHERE age > 30 AND length(name) + age > 50, read",
            Query::new("SELECT id FROM users WHERE age > 30 AND length(name) + age > 50", 1),
        ),
        (
            "computed_columns",
            "SELECT id + age, name || '!' FROM users, both read",
            Query::new("SELECT id + age, name || '!' FROM users", 2),
        ),
    ]
}

/// The database, the row, its description, the statement, and the runs per sample.
pub(super) type OnFile = (&'static str, &'static str, &'static str, Query, usize);

/// Statements on Sharc's other databases.
fn on_files() -> Vec<OnFile> {
    let mut rows = small_reads();
    rows.extend(two_tables());
    rows.extend(execution_tiers());
    rows.extend(joins_and_indexes());
    rows.extend(super::computed::on_files());
    rows
}

fn small_reads() -> Vec<OnFile> {
    vec![
        (
            "core",
            "five_row_read",
            "five rows of five columns, read: a real one, where Sharc's own \
            row touched no database",
            Query::new("SELECT id, name, email, age, score FROM users LIMIT 5", 5).giving(5),
            2_000,
        ),
        (
            "core",
            "hundred_int_scan",
            "SELECT id, age FROM users LIMIT 100, read: a real one, where \
            Sharc's own row touched no database",
            Query::new("SELECT id, age FROM users LIMIT 100", 2).giving(100),
            1_000,
        ),
        (
            "core",
            "rowid_list",
            "name and email of sixteen users, WHERE id IN (their rowids)",
            Query::new(
                "SELECT name, email FROM users WHERE id IN (3571, 17, 4711, 902, 2500, 1, 4999, \
                 1313, 2048, 777, 3333, 4096, 128, 1999, 2718, 601)",
                2,
            )
            .giving(16),
            500,
        ),
        (
            "core",
            "metadata",
            "PRAGMA page_size, prepared: what Sharc compares its header parse with",
            Query::new("PRAGMA page_size", 1),
            2_000,
        ),
        (
            "graph",
            "schema_read",
            "SELECT type, name, tbl_name, sql FROM sqlite_schema",
            Query::new("SELECT type, name, tbl_name, sql FROM sqlite_schema", 4),
            500,
        ),
    ]
}

fn two_tables() -> Vec<OnFile> {
    const A: &str = "SELECT id, name, dept FROM users_a";
    const B: &str = "SELECT id, name, dept FROM users_b";
    let compound = |operator: &str| Query::new(&format!("{A} {operator} {B}"), 3);
    vec![
        (
            "rt",
            "union",
            "users_a UNION users_b on id, name, dept; column 0 read",
            compound("UNION").reading(1).giving(4_500),
            20,
        ),
        (
            "rt",
            "intersect",
            "users_a INTERSECT users_b; column 0 read",
            compound("INTERSECT").reading(1).giving(500),
            20,
        ),
        (
            "rt",
            "except",
            "users_a EXCEPT users_b; column 0 read",
            compound("EXCEPT").reading(1).giving(2_000),
            20,
        ),
        (
            "rt",
            "union_all",
            "users_a UNION ALL users_b; all read",
            compound("UNION ALL").giving(5_000),
            20,
        ),
        (
            "rt",
            "union_all_three",
            "id, name of users_a, users_b, users_a; column 0 read",
            Query::new(
                "SELECT id, name FROM users_a UNION ALL SELECT id, name FROM users_b UNION \
                ALL SELECT id, name FROM users_a",
                2,
            )
            .reading(1)
            .giving(7_500),
            20,
        ),
        (
            "rt",
            "group_by_rt",
            "dept, count(*), avg(score) of users_a GROUP BY dept",
            Query::new(
                "SELECT dept, COUNT(*) AS cnt, AVG(score) AS avg_score FROM users_a GROUP \
                BY dept",
                3,
            )
            .giving(5),
            50,
        ),
        (
            "rt",
            "cte",
            "WITH active AS (... active = 1) SELECT ... WHERE score > 50; all read",
            Query::new(
                "WITH active AS (SELECT id, name, score FROM users_a WHERE active = 1) \
                SELECT id, name, score FROM active WHERE score > 50",
                3,
            )
            .giving(634),
            50,
        ),
        (
            "rt",
            "cte_union_all",
            "a CTE of dept 'eng' UNION ALL users_b; all read",
            Query::new(
                "WITH eng AS (SELECT id, name, dept FROM users_a WHERE dept = 'eng') SELECT \
                id, name, dept FROM eng UNION ALL SELECT id, name, dept FROM users_b",
                3,
            )
            .giving(2_998),
            20,
        ),
        (
            "rt",
            "union_order_limit",
            "UNION ALL of both, ORDER BY score DESC LIMIT 50; ties differ, \
            so scores are compared",
            Query::new(
                "SELECT id, name, score FROM users_a UNION ALL SELECT id, name, score FROM \
                users_b ORDER BY score DESC LIMIT 50",
                3,
            )
            .ordered_by(2)
            .giving(50),
            20,
        ),
        (
            "rt",
            "where_order_limit",
            "WHERE age >= 25 AND active = 1 ORDER BY score DESC LIMIT 100",
            Query::new(
                "SELECT id, name, score FROM users_a WHERE age >= 25 AND active = 1 ORDER BY \
                score DESC LIMIT 100",
                3,
            )
            .ordered_by(2)
            .giving(100),
            20,
        ),
        (
            "rt",
            "where_full",
            "id, name, age of users_a WHERE age > 30; all read",
            Query::new("SELECT id, name, age FROM users_a WHERE age > 30", 3).giving(1_982),
            50,
        ),
    ]
}

fn execution_tiers() -> Vec<OnFile> {
    vec![
        (
            "rt",
            "select_star_first",
            "SELECT * FROM users_a, 2,500 rows of 8 columns, column 0 read \
            (Sharc's label says 3 columns)",
            Query::new("SELECT * FROM users_a", 8).reading(1).giving(2_500),
            50,
        ),
        (
            "rt",
            "select_star_all",
            "SELECT * FROM users_a, all 8 columns read",
            Query::new("SELECT * FROM users_a", 8).giving(2_500),
            50,
        ),
        (
            "rt",
            "filtered_first",
            "id, name, age of users_a WHERE age > 30, column 0 read; Sharc's \
            execution hints (DIRECT, CACHED, JIT) are all this prepared statement",
            Query::new("SELECT id, name, age FROM users_a WHERE age > 30", 3)
                .reading(1)
                .giving(1_982),
            50,
        ),
        (
            "rt",
            "narrow_text",
            "SELECT name FROM users_a WHERE age > 30, read",
            Query::new("SELECT name FROM users_a WHERE age > 30", 1).giving(1_982),
            50,
        ),
        (
            "rt",
            "parameterised",
            "id, name, age of users_a WHERE age > ?1 (40), column 0 read",
            Query::new("SELECT id, name, age FROM users_a WHERE age > ?1", 3)
                .bound(Parameter::Int(40))
                .reading(1)
                .giving(1_571),
            50,
        ),
    ]
}

fn joins_and_indexes() -> Vec<OnFile> {
    const JOIN: &str = "SELECT u.name, o.amount FROM users u JOIN orders o ON u.id = o.user_id";
    vec![
        (
            "join1000",
            "join_1000",
            "users JOIN orders, 2,000 rows; read, no index but the rowid",
            Query::new(JOIN, 2).giving(2_000),
            10,
        ),
        (
            "join5000",
            "join_5000",
            "users JOIN orders, 10,000 rows; read, no index but the rowid",
            Query::new(JOIN, 2).giving(10_000),
            5,
        ),
        (
            "join5000",
            "join_computed_5000",
            "the join, both columns computed: name || '-' || o.id, amount + 1; read",
            Query::new(
                "SELECT u.name || '-' || o.id, o.amount + 1 FROM users u JOIN orders o \
                 ON u.id = o.user_id",
                2,
            )
            .giving(10_000),
            5,
        ),
        (
            "join1000",
            "join_where_1000",
            "the join WHERE u.id < 100",
            Query::new(&format!("{JOIN} WHERE u.id < 100"), 2).giving(198),
            20,
        ),
        (
            "join5000",
            "join_where_5000",
            "the join WHERE u.id < 100",
            Query::new(&format!("{JOIN} WHERE u.id < 100"), 2).giving(198),
            20,
        ),
        (
            "join5000",
            "left_join_5000",
            "users LEFT JOIN orders, aggregated by user",
            Query::new(
                "SELECT u.id, count(o.id) FROM orders o LEFT JOIN users u ON u.id = \
                o.user_id GROUP BY u.id",
                2,
            ),
            5,
        ),
        (
            "join1000",
            "full_join_1000",
            "users FULL OUTER JOIN orders",
            Query::new(
                "SELECT u.name, o.amount FROM users u FULL OUTER JOIN orders o ON u.id = \
                o.user_id",
                2,
            ),
            5,
        ),
        (
            "idx",
            "index_seek",
            "orders WHERE user_id = ?1, a random one of 5,000, through the index; \
            all read",
            Query::new("SELECT id, user_id, amount FROM orders WHERE user_id = ?1", 3)
                .bound(Parameter::Random(5_000)),
            5_000,
        ),
        (
            "idx",
            "index_seek_2500",
            "orders WHERE user_id = ?1 (2500), always the same; all read",
            Query::new("SELECT id, user_id, amount FROM orders WHERE user_id = ?1", 3)
                .bound(Parameter::Int(2_500))
                .giving(3),
            5_000,
        ),
        (
            "idx",
            "index_full_scan",
            "the same without the index (WHERE +user_id = ?1)",
            Query::new("SELECT id, user_id, amount FROM orders WHERE +user_id = ?1", 3)
                .bound(Parameter::Int(2_500))
                .giving(3),
            50,
        ),
        (
            "idx",
            "group_by_index",
            "orders counted by user_id, which has an index: 5,000 groups; all read",
            Query::new("SELECT user_id, count(*) FROM orders GROUP BY user_id", 2).giving(5_000),
            20,
        ),
        (
            "idx",
            "group_by_text_index",
            "users counted by dept, which has an index: 5 groups; all read",
            Query::new("SELECT dept, count(*) FROM users GROUP BY dept", 2).giving(5),
            50,
        ),
        (
            "idx",
            "text_index_seek",
            "users WHERE dept = ?1 ('Engineering') through the index; all read",
            Query::new("SELECT id, name, dept FROM users WHERE dept = ?1", 3)
                .bound(Parameter::Text("Engineering"))
                .giving(1_021),
            50,
        ),
        (
            "idx",
            "text_full_scan",
            "the same without the index (WHERE +dept = ?1)",
            Query::new("SELECT id, name, dept FROM users WHERE +dept = ?1", 3)
                .bound(Parameter::Text("Engineering"))
                .giving(1_021),
            50,
        ),
        (
            "idx",
            "status_scan",
            "orders WHERE status = 'Pending', no index",
            Query::new("SELECT id, amount FROM orders WHERE status = 'Pending'", 2).giving(3_796),
            20,
        ),
    ]
}

/// Statements on `orders` of the generated databases: one order for each user on average.
fn on_orders(size: u64) -> Vec<(&'static str, &'static str, Query)> {
    vec![
        (
            "index_seek",
            "orders WHERE user_id = ?1, a random one, through the index; all read",
            Query::new("SELECT id, user_id, amount FROM orders WHERE user_id = ?1", 3)
                .bound(Parameter::Random(size)),
        ),
        (
            "scan_ints",
            "SELECT id, user_id FROM orders, both read (Sharc's 100K int scan, larger)",
            Query::new("SELECT id, user_id FROM orders", 2),
        ),
        (
            "join_sum",
            "sum(o.amount) by dept of users JOIN orders ON u.id = o.user_id",
            Query::new(
                "SELECT u.dept, count(*), sum(o.amount) FROM orders o JOIN users u ON u.id = \
                o.user_id GROUP BY u.dept",
                3,
            ),
        ),
    ]
}
