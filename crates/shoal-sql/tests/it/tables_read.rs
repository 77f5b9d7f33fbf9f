//! The tables that a query reads, as whoever watches a query or runs one without its file asks.

use crate::common::{self, Scratch};

#[test]
fn each_table_of_main_is_told_the_schema_among_them() {
    let scratch = Scratch::new(
        "create table t (a integer primary key, b); create index i on t (b);
         create table w (k primary key) without rowid; create view v as select * from t, w;
         create view s as select name from sqlite_schema;",
    );
    let mut connection = scratch.ours();
    common::ours(&mut connection, "create temp table x (a)").unwrap();
    let schema = "sqlite_schema";
    for (sql, expect) in [
        ("select 1", Some(vec![])),
        ("select 'sqlite_schema', value from json_each('[1]')", Some(vec![])),
        ("values (1), (2)", Some(vec![])),
        ("select * from t", Some(vec!["t"])),
        ("select count(*) from t", Some(vec!["t"])),
        ("select b from t where b > 1", Some(vec!["t"])),
        ("select * from w where k = 1", Some(vec!["w"])),
        ("select max(b) from v", Some(vec!["t", "w"])),
        ("select 1 where exists (select 1 from w)", Some(vec!["w"])),
        ("with x as materialized (select b from t) select * from x, x y", Some(vec!["t"])),
        ("select * from sqlite_schema", Some(vec![schema])),
        ("select name from sqlite_master where type = 'table'", Some(vec![schema])),
        ("select count(*) from main.sqlite_schema", Some(vec![schema])),
        ("select count(*) from \"sqlite_master\"", Some(vec![schema])),
        ("select max(rowid) from sqlite_schema", Some(vec![schema])),
        ("select * from s order by 1", Some(vec![schema])),
        ("select (select count(*) from sqlite_schema)", Some(vec![schema])),
        ("select * from sqlite_schema natural join t", Some(vec![schema, "t"])),
        ("select * from pragma_table_info('t')", None),
        ("select * from pragma_table_list", None),
        ("select * from x, json_each('[]')", None),
        ("select count(*) from t, x", None),
        ("select * from sqlite_temp_schema", None),
    ] {
        let statement = connection.prepare(sql).unwrap();
        assert_eq!(statement.tables_read(), expect, "{sql}");
    }
}

#[test]
fn an_empty_file_has_a_schema_to_read() {
    let scratch = Scratch::new("");
    let mut connection = scratch.ours();
    for (sql, expect) in [
        ("select 1, 'sqlite_'", vec![]),
        ("select count(*) from sqlite_schema", vec!["sqlite_schema"]),
        ("select * from sqlite_master", vec!["sqlite_schema"]),
    ] {
        let statement = connection.prepare(sql).unwrap();
        assert_eq!(statement.tables_read(), Some(expect), "{sql}");
    }
}
