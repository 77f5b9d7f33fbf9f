//! Row values, and aggregates with an order of their rows, compared with SQLite.

use crate::common::{Scratch, check_all};

const ROWS: &str = "create table t(a int, b text collate nocase, c real); create index t_ab on t(a, b);
    insert into t values (1,'x',1.5),(1,'Y',2),(2,'x',null),(null,'z',3),(2,null,4),(3,'w',0),(1,'x',9);
    create table u(p, q); insert into u values (1,'X'),(2,null),(3,'w'),(null,'z');";

#[test]
fn rows_of_values() {
    let scratch = Scratch::new(ROWS);
    let mut queries = String::new();
    for op in ["=", "<>", "<", "<=", ">", ">=", "is", "is not"] {
        for right in [
            "(1, 'x')",
            "(2, 'x')",
            "(1, null)",
            "(null, 'z')",
            "(select p, q from u)",
            "(select 2, 'x')",
            "(select 1, 2 where 0)",
            "('1', 'y')",
        ] {
            queries += &format!(
                "select a, b, (a, b) {op} {right} from t; select a, b from t where (a, b) {op} {right}; select a, b from t where not (a, b) {op} {right};"
            );
        }
        queries += &format!(
            "select (1, 2, 3) {op} (1, 2, 4), (1, 2, null) {op} (1, 3, 4), (null, 1) {op} (1, 2), (1, 2) {op} (1, 2);"
        );
        queries += &format!(
            "select t.a, u.p from t join u on (t.a, t.b) {op} (u.p, u.q); select (select a, b from t where c = 9) {op} (a, b) from t;"
        );
    }
    queries += "
        select a, b from t where (a, b) in (select p, q from u); select a, b from t where (a, b) not in (select p, q from u); select a, b, (a, b) in (select p, q from u where p is not null) from t;
        select a, b, (a, b) in (values (1, 'x'), (2, null)), (a, b) not in (values (1, 'x'), (2, null)) from t; select (1, 2) in (select 1, 2 where 0); select (a, b) in (u) from t; select a from t where (a, b) in u; select (null, 1) in (values (1, 2)), (null, 1) in (values (2, 1));
        select a from t where (a, c) between (1, 1.6) and (2, 5); select a, (a, c) not between (1, 1.6) and (2, 5) from t; select case (a, b) when (1, 'x') then 'one' when (2, 'x') then 'two' else 'none' end from t;
        select a, c from t where (a, b, c) > (1, 'x', 2) order by a, c; select a from t where (a, b) = (1, 'X') and c > 2; select a from t where (a + 1, b) in (select p, q from u); select (1, 2) = (1, 2) and (3, 4) <> (3, 5);
        select (1, 2) = (1, 2, 3); select (1, 2) = 1; select (1, 2); select (1, 2) + 1; select (1, 2) in (1, 2); select (1, 2) in ((1, 2)); select * from t where (a, b); select max((1, 2)); select (1, 2) in (select 1); select 1 in (select 1, 2); select (select 1, 2) = 1; select (1, 2) like 'x'; select (1, (2, 3)) = (1, (2, 3)); select 1 = (select 1, 2); select (1, 2) is null; select ((1, 2)) = (1, 2); select a from t order by (a, b); select a from t group by (a, b);
    ";
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

#[test]
fn aggregates_in_an_order() {
    let scratch = Scratch::new(ROWS);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select group_concat(b order by b) from t; select group_concat(b, '-' order by c desc) from t; select a, group_concat(c order by b, c desc) from t group by a order by a; select group_concat(distinct b order by b desc) from t; select string_agg(b, ',' order by a nulls last, c) from t;
         select json_group_array(c order by c) from t; select json_group_object(b, c order by c) from t where b is not null; select sum(c order by a), count(* order by a), avg(c order by c) from t; select max(c order by a), a from t; select group_concat(b order by b) filter (where a = 1) from t;
         select group_concat(b order by b collate binary) from t; select group_concat(a order by (select q from u where p = a)) from t; select group_concat(b order by c) over () from t; select abs(a order by b) from t; select group_concat(b order by nosuch) from t; select total(a order by b) + group_concat(a order by c) from t;",
    );
}

/// Columns beside an extreme are those of its row, however often the call is written.
#[test]
fn columns_beside_extremes() {
    let rows = "create table t(id integer primary key, k int, x int, y, s text); \
        insert into t values (1,0,7,1,'a'),(2,0,0,5,'b'),(3,0,9,null,'c'),(4,1,null,2,'d'),\
        (5,1,3,2,'e'),(6,2,null,null,'f'),(7,0,0,9,'g'); create index tk on t(k);";
    let scratch = Scratch::new(rows);
    let mut queries = String::new();
    for call in ["min(x)", "max(x)", "max(y)"] {
        for more in ["", ", count(*), sum(x)", ", CALL + 1, CALL", ", count(*), count(*), total(x)"]
        {
            for having in ["", "having CALL < 8", "having count(*) > 1", "having CALL is not null"]
            {
                for order in ["", "order by CALL", "order by CALL desc, k", "order by s"] {
                    for table in ["t", "t not indexed"] {
                        let query = format!(
                            "select k, CALL{more}, s, id from {table} group by k {having} {order};\n\
                             select CALL{more}, s from {table} {having} {order};\n"
                        );
                        queries += &query.replace("CALL", call);
                    }
                }
            }
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}
