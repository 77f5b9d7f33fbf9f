//! SQL with computation: many groups, distinct values, functions of columns, recursions, and
//! queries within expressions, over Sharc's databases.

use super::query::Query;
use super::users::OnFile;

pub(super) fn on_files() -> Vec<OnFile> {
    let mut rows = aggregates();
    rows.extend(functions());
    rows.extend(queries());
    rows
}

fn aggregates() -> Vec<OnFile> {
    vec![
        (
            "core",
            "group_many",
            "users by email, 5,000 groups of one row: count(*), sum(score); all read",
            Query::new("SELECT email, count(*), sum(score) FROM users GROUP BY email", 3)
                .giving(5_000),
            20,
        ),
        (
            "core",
            "count_distinct_text",
            "SELECT count(DISTINCT email) FROM users: 5,000 of them",
            Query::new("SELECT count(DISTINCT email) FROM users", 1),
            20,
        ),
        (
            "core",
            "count_distinct_few",
            "SELECT dept, count(DISTINCT age) FROM users GROUP BY dept",
            Query::new("SELECT dept, count(DISTINCT age) FROM users GROUP BY dept", 2).giving(5),
            50,
        ),
        (
            "core",
            "group_concat",
            "SELECT group_concat(name) FROM users",
            Query::new("SELECT group_concat(name) FROM users", 1),
            50,
        ),
        (
            "core",
            "json_group_array",
            "SELECT json_group_array(name) FROM users",
            Query::new("SELECT json_group_array(name) FROM users", 1),
            50,
        ),
        (
            "core",
            "json_group_object",
            "SELECT json_group_object(email, age) FROM users",
            Query::new("SELECT json_group_object(email, age) FROM users", 1),
            50,
        ),
    ]
}

fn functions() -> Vec<OnFile> {
    vec![
        (
            "core",
            "printf",
            "SELECT printf('%05d %s %.2f', id, name, score) FROM users, read",
            Query::new("SELECT printf('%05d %s %.2f', id, name, score) FROM users", 1),
            20,
        ),
        (
            "core",
            "strftime",
            "SELECT strftime('%d/%m/%Y', created) FROM users, read",
            Query::new("SELECT strftime('%d/%m/%Y', created) FROM users", 1),
            20,
        ),
        (
            "core",
            "date_added",
            "SELECT date(created, '+1 day') FROM users, read",
            Query::new("SELECT date(created, '+1 day') FROM users", 1),
            20,
        ),
        (
            "core",
            "text_functions",
            "SELECT upper(name), replace(email, '@', ' at ') FROM users, both read",
            Query::new("SELECT upper(name), replace(email, '@', ' at ') FROM users", 2),
            20,
        ),
        (
            "core",
            "json_object",
            "SELECT json_object('id', id, 'name', name, 'score', score) FROM users, read",
            Query::new("SELECT json_object('id', id, 'name', name, 'score', score) FROM users", 1),
            20,
        ),
    ]
}

fn queries() -> Vec<OnFile> {
    const COUNT: &str = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c \
                         WHERE n < 5000) SELECT count(*) FROM c";
    vec![
        (
            "core",
            "recursion_count",
            "a common table that counts to 5,000, its rows counted",
            Query::new(COUNT, 1),
            20,
        ),
        (
            "idx",
            "exists_index",
            "users counted that have an order, EXISTS by the index of orders",
            Query::new(
                "SELECT count(*) FROM users u WHERE EXISTS \
                 (SELECT 1 FROM orders o WHERE o.user_id = u.id)",
                1,
            ),
            20,
        ),
        (
            "idx",
            "exists_rowid",
            "orders counted that have a user, EXISTS by the rowid of users",
            Query::new(
                "SELECT count(*) FROM orders o WHERE EXISTS \
                 (SELECT 1 FROM users u WHERE u.id = o.user_id)",
                1,
            ),
            20,
        ),
        (
            "idx",
            "in_select_index",
            "orders of users in Engineering, IN (SELECT ...) sought in the index of orders; all read",
            Query::new(
                "SELECT id, amount FROM orders WHERE user_id IN \
                 (SELECT id FROM users WHERE dept = 'Engineering')",
                2,
            ),
            20,
        ),
        (
            "idx",
            "correlated_sort",
            "of each user the status of the largest order: a query by the index, sorted by a \
             column without one; all read",
            Query::new(
                "SELECT id, (SELECT status FROM orders o WHERE o.user_id = u.id \
                 ORDER BY amount DESC LIMIT 1) FROM users u",
                2,
            ),
            5,
        ),
        (
            "idx",
            "scalar_index",
            "of each user the number of orders and the largest, two queries by the index; all read",
            Query::new(
                "SELECT id, (SELECT count(*) FROM orders o WHERE o.user_id = u.id), \
                 (SELECT max(amount) FROM orders o WHERE o.user_id = u.id) FROM users u",
                3,
            ),
            5,
        ),
    ]
}
