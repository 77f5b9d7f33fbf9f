//! Views made and dropped, and `PRAGMA integrity_check`, compared with SQLite.

use crate::common::{Scratch, ours, theirs};
use shoal_sql::{Connection, Value};
use shoal_store::{Access, Store, vfs::OsVfs};

#[test]
fn views_are_made_as_sqlite_makes_them() {
    let script = [
        "create view a as select 1 as x",
        "create view if not exists a as select 2",
        "CREATE  VIEW \"b c\"(p, q) as select x, x + 1 from a; ",
        "create view d as select * from nowhere",
        "drop view if exists zilch",
        "drop view d",
    ];
    let mine = Scratch::new("create table t(y)");
    let peer = Scratch::new("create table t(y)");
    let store = Store::open(std::sync::Arc::new(OsVfs), &mine.path(), Access::ReadWrite).unwrap();
    let mut connection = Connection::open(store).unwrap();
    for sql in script {
        let mut statement = connection.prepare(sql).unwrap();
        connection.execute(&mut statement).unwrap();
        peer.theirs().execute_batch(sql).unwrap();
    }
    for sql in [
        "create view a as select 1",
        "create view t as select 1",
        "drop view zilch",
        "drop view t",
        "create view e as select ?1",
    ] {
        let error = connection.prepare(sql).map(|_| ()).unwrap_err().to_string();
        let expect = peer.theirs().execute_batch(sql).unwrap_err().to_string();
        assert!(expect.starts_with(&error), "{sql}: {error}, not {expect}");
    }
    let stored =
        "select type, name, tbl_name, rootpage, sql from sqlite_schema where type = 'view'";
    let expect = theirs(&peer.theirs(), stored).unwrap();
    assert_eq!(ours(&mut connection, stored).unwrap(), expect);
    assert_eq!(theirs(&mine.theirs(), stored).unwrap(), expect);
    assert_eq!(
        ours(&mut connection, "select * from \"b c\"").unwrap(),
        theirs(&mine.theirs(), "select * from \"b c\"").unwrap()
    );
}

#[test]
fn integrity_is_checked() {
    let scratch = Scratch::new(
        "create table t(a integer primary key, b text unique not null, c check (c < 10), d as (c + 1));
         create index t_c on t(c desc) where c > 1; create index t_e on t(length(b), d);
         create table w(k primary key, v) without rowid; create index w_v on w(v);
         insert into t(b, c) values ('x', 1), ('y', 5), ('z', null); insert into w values (1, 2), ('q', null);",
    );
    let check = |expect: &[&str], pragma: &str| {
        let mut connection = scratch.ours();
        let expect: Vec<Vec<Value>> = expect.iter().map(|line| vec![Value::text(*line)]).collect();
        assert_eq!(ours(&mut connection, pragma).unwrap().rows, expect, "{pragma}");
        assert_eq!(theirs(&scratch.theirs(), pragma).unwrap().rows, expect, "{pragma}");
    };
    check(&["ok"], "pragma integrity_check");
    check(&["ok"], "pragma quick_check(t)");
    // An index taken for another's: every entry is at the wrong place.
    scratch
        .theirs()
        .execute_batch(
            "pragma writable_schema = on; update sqlite_schema set sql = 'CREATE TABLE t(a integer primary key, b text unique not null, c check (c < 5), d as (c + 1))' where name = 't';",
        )
        .unwrap();
    check(&["CHECK constraint failed in t"], "pragma integrity_check");
    check(&["CHECK constraint failed in t"], "pragma integrity_check(1)");
    check(&["ok"], "pragma integrity_check(w)");
    let entries = "update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'w_v') where name = 't_c'";
    scratch.theirs().execute_batch(&format!("pragma writable_schema = on; {entries};")).unwrap();
    let mut connection = scratch.ours();
    let found = ours(&mut connection, "pragma integrity_check").unwrap().rows;
    let text = format!("{found:?}");
    assert!(found.len() > 1 && text != "ok", "{text}");
}
