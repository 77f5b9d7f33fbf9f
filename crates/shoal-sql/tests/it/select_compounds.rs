//! Columns of compounds: the rules of their comparisons.

use crate::common::{Scratch, check_all};

/// The affinity of a compound's column is the affinity of the first part with one, unless another
/// part may hold values of the other kind, as far as its form tells: a column's, a sum's, a
/// function's.
#[test]
fn affinities_of_compounds() {
    let scratch = Scratch::new(
        "create table t(i int, s text, r real, n, v int as (s), w text as (i)); insert into t values (1, '1', 1.5, '1');
         create table e(x int primary key, y) without rowid; insert into e values (7, 7);
         create view f as select e.x, t.v, t.w from t full join e on t.i = e.y;",
    );
    let terms = [
        "i",
        "s",
        "r",
        "n",
        "v",
        "w",
        "+i",
        "+v",
        "+s",
        "-i",
        "'1'",
        "1",
        "x'31'",
        "s || ''",
        "null",
        "cast(s as int)",
        "cast(i as text)",
        "case when i then i end",
        "case i when 1 then v else 2 end",
        "case when n then '1' else i end",
        "case (i, s) when (1, '1') then v end",
        "iif(1, v, i)",
        "likely(v)",
        "coalesce(i, 1)",
        "(select v from t)",
        "abs(i)",
        "i + 1",
        "x",
        "(i is null)",
        "v collate nocase",
        "+(+w)",
        "max(i)",
    ];
    let mut queries = String::new();
    for first in ["i", "s", "n", "v", "x"] {
        for second in terms {
            let from = "(select t.*, f.x from t, f)";
            let queries = &mut queries;
            *queries += &format!(
                "with q(c) as materialized (select {first} from {from} union all select {second} from {from})
                 select typeof(c), c = '1', c = 1, c < '2', c >= '', typeof(max(c, '1')) from q;
                 with q(c) as materialized (select {second} from {from} union all select {first} from {from}
                 union all select 'a') select typeof(c), c = '1', c = 1, c < '2', c >= '' from q;
                 with q(c) as materialized (select {second} from {from} union all select {first} from
                 (select {first} from {from})) select c = '1', c = 1, c < '2', c >= '' from q;",
            );
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}
