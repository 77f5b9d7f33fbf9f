//! Random queries over tables `t0`, `t1` and `t2` with columns `a` to `d`.

use proptest::prelude::*;

/// Ends queries whose values stand for all values equal to them.
pub(crate) const KEYS_ONLY: &str = "/* keys only */";

/// The columns of a table, the constraint behind them, and the words behind the parenthesis.
pub(crate) type Header = ([&'static str; 4], &'static str, &'static str);

/// Tables differing in types and keys.
pub(crate) fn header() -> impl Strategy<Value = Header> {
    prop::sample::select(vec![
        (["a integer primary key", "b int", "c text", "d"], "", ""),
        (["a int", "b text collate nocase", "c real", "d blob"], "", ""),
        (["a", "b", "c", "d"], ", unique (b, c)", ""),
        (
            ["a text primary key", "b numeric", "c int", "d text collate rtrim"],
            "",
            " without rowid",
        ),
        (["a int", "b int", "c text", "d real"], ", primary key (b, a desc)", " without rowid"),
        (["a integer primary key desc", "b text", "c", "d int"], "", ""),
    ])
}

/// True where the column `a` is the rowid, and takes integers alone.
pub(crate) fn names_rowid(columns: &[&str; 4]) -> bool {
    columns[0] == "a integer primary key"
}

pub(crate) fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("null".to_owned()),
        6 => (-2i64..6).prop_map(|int| int.to_string()),
        2 => (-4i32..12).prop_map(|int| format!("{:?}", f64::from(int) / 2.0)),
        4 => prop::sample::select(vec!["'a'", "'A'", "'b'", "'b '", "''", "'1'", "'2.0'", "'x'"])
            .prop_map(str::to_owned),
        // No blob reads as text matching LIKE 'a%': SQLite loses such rows where LIKE within OR
        // becomes a range of an index.
        1 => prop::sample::select(vec!["x'62'", "x''", "x'31'"]).prop_map(str::to_owned),
    ]
}

pub(crate) fn column(tables: usize) -> impl Strategy<Value = String> {
    (0..tables, prop::sample::select(vec!["a", "b", "c", "d"]))
        .prop_map(|(table, column)| format!("t{table}.{column}"))
}

pub(crate) fn operand(tables: usize) -> impl Strategy<Value = String> {
    prop_oneof![3 => column(tables), 2 => value(), 1 => column(tables).prop_map(|c| format!("{c} + 1"))]
}

pub(crate) fn condition(tables: usize) -> impl Strategy<Value = String> {
    let compare =
        prop::sample::select(vec!["=", "=", "=", "<", "<=", ">", ">=", "<>", "is", "is not"]);
    let simple = prop_oneof![
        6 => (column(tables), compare, operand(tables)).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        1 => (column(tables), operand(tables), operand(tables))
            .prop_map(|(a, b, c)| format!("{a} between {b} and {c}")),
        1 => (column(tables), any::<bool>())
            .prop_map(|(a, not)| format!("{a} is {}null", if not { "not " } else { "" })),
        1 => (column(tables), prop::collection::vec(value(), 1..12))
            .prop_map(|(a, list)| format!("{a} in ({})", list.join(","))),
        1 => column(tables).prop_map(|a| format!("{a} in (select b from t2)")),
        1 => column(tables).prop_map(|a| format!("{a} not in (select a from t1 where a is not null)")),
        1 => column(tables).prop_map(|a| format!("exists (select 1 from t2 x where x.b = {a})")),
        1 => column(tables).prop_map(|a| format!("(select count(*) from t1 x where x.c >= {a}) > 1")),
        1 => column(tables).prop_map(|a| format!("{a} like 'a%'")),
        1 => column(tables).prop_map(|a| format!("{a} glob 'b*'")),
        1 => (column(tables), value()).prop_map(|(a, b)| format!("+{a} = {b}")),
        1 => (column(tables), value()).prop_map(|(a, b)| format!("{a} + 1 = {b}")),
        1 => (column(tables), column(tables), value(), value(), value())
            .prop_map(|(a, b, x, y, z)| format!("({a} = {x} or {b} in ({y}, {z}) or {a} > {z})")),
        1 => (column(tables), column(tables))
            .prop_map(|(a, b)| format!("{a} in (select x.b from t2 x where x.c > {b})")),
        1 => (column(tables), column(tables), value(), value())
            .prop_map(|(a, b, x, y)| format!("({a}, {b}) >= ({x}, {y})")),
        1 => (column(tables), column(tables))
            .prop_map(|(a, b)| format!("({a}, {b}) in (select x.b, x.c from t2 x)")),
        1 => column(tables).prop_map(|a| format!("{a} = 'A' collate nocase")),
    ];
    simple.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            1 => inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// A table, or a query with the table's columns.
fn reference(number: usize) -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "T",
        "T",
        "T",
        "(select * from T where T.b is not null) T",
        "(select a, coalesce(b, 1) as b, c || '' as c, d from T where a > 0 or d < 3) T",
        "(select distinct a, b, c, d from T) T",
        "(select x.a, x.b, x.c, x.d from T x join t2 y on x.b = y.b where y.a is not null) T",
        "(select x.a, y.b, x.c, y.d from T x left join t2 y on x.b = y.b) T",
        "(select a, b, c, d from T union all select a, b, c, d from T) T",
        "(with q as (select * from T) select a, b, c, d from q where b is not 2) T",
        "(select b as a, c as b, count(*) as c, min(length(d)) as d from T group by b, c) T",
        "(select a, b, c, d from T where a > 1 union all select a, b, c, d from T where c = b) T",
    ])
    .prop_map(move |text| text.replace('T', &format!("t{number}")))
}

fn from(tables: usize) -> BoxedStrategy<String> {
    let join = |number: usize| {
        (
            prop::sample::select(vec![
                "join",
                "left join",
                "right join",
                "full join",
                "cross join",
                ",",
            ]),
            reference(number),
            condition(number + 1),
            any::<bool>(),
        )
            .prop_map(move |(kind, table, on, with_on)| match kind {
                "," | "cross join" => format!(" {kind} {table}"),
                kind if with_on => format!(" {kind} {table} on {on}"),
                kind => format!(" {kind} {table} on t{}.b = t{number}.b", number - 1),
            })
    };
    match tables {
        1 => reference(0).boxed(),
        2 => (reference(0), join(1)).prop_map(|(a, b)| format!("{a}{b}")).boxed(),
        _ => (reference(0), join(1), join(2)).prop_map(|(a, b, c)| format!("{a}{b}{c}")).boxed(),
    }
}

pub(crate) fn query() -> impl Strategy<Value = String> {
    (1usize..4).prop_flat_map(|tables| {
        let filter = prop_oneof![Just(String::new()), condition(tables).prop_map(|c| format!(" where {c}"))];
        let plain = (
            any::<bool>(),
            prop::collection::vec(operand(tables), 1..4),
            from(tables),
            filter.clone(),
            prop::option::of((0usize..8, 0usize..4)),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(distinct, columns, from, filter, limit, ordered, descending)| {
                let direction = if descending { " desc" } else { "" };
                let order: Vec<String> =
                    (1..=columns.len()).map(|place| format!("{place} collate binary{direction}")).collect();
                let order = if ordered || limit.is_some() {
                    // Types break the ties between equal integers and reals.
                    let types: Vec<String> =
                        columns.iter().map(|column| format!("typeof({column})")).collect();
                    if distinct {
                        format!(" order by {}", order.join(","))
                    } else {
                        format!(" order by {}, {}", order.join(","), types.join(","))
                    }
                } else {
                    String::new()
                };
                let limit = match limit {
                    // SQL leaves open the row a DISTINCT keeps of several equal ones.
                    Some((limit, offset)) if !distinct => format!(" limit {limit} offset {offset}"),
                    _ => String::new(),
                };
                let distinct = if distinct { "distinct " } else { "" };
                let columns: Vec<String> = if distinct.is_empty() {
                    columns
                } else {
                    columns.iter().map(|column| format!("quote({column})")).collect()
                };
                format!("select {distinct}{} from {from}{filter}{order}{limit}", columns.join(", "))
            });
        let key = column(tables).boxed();
        let grouped = (key.clone(), prop::option::of(key), from(tables), filter, column(tables), any::<bool>())
            .prop_map(|(first, second, from, filter, value, having)| {
                let keys: Vec<String> = [Some(first), second].into_iter().flatten().collect();
                let having = if having { " having count(*) > 1" } else { "" };
                let keys_shown: Vec<String> =
                    keys.iter().map(|key| format!("lower({key})")).collect();
                format!(
                    "select count(*), count({value}), min({value}) collate nocase = max({value}), \
                     sum(abs(length({value}))), count(distinct {value}), total(length({keys_list})) \
                     from {from}{filter} group by {}{having}",
                    keys.join(", "),
                    keys_list = keys_shown.join(" || "),
                )
            });
        let set = prop::sample::select(vec!["union", "union all", "except", "intersect"]);
        let compound = (column(1), set.clone(), value(), set, condition(1)).prop_map(
            |(first, op, value, second, condition)| {
                format!(
                    "select quote({first}) from t0 {op} select quote(b) from t1 {second} \
                     select quote({value}) from t0 where {condition}"
                )
            },
        );
        let nested = (column(1), condition(1), condition(1)).prop_map(|(column, inner, outer)| {
            format!(
                "select t0.a, x.n from t0 left join (select t0.b as k, count(*) as n, max({column}) as m \
                 from t0 where {inner} group by 1) x on x.k = t0.b where {outer}"
            )
        });
        // Peers may come in any order: only values shared by peers are asked for.
        let window = (
            prop::sample::select(vec![
                "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "count(*)", "count(V)",
                "min(V)", "max(V)", "sum(abs(length(V)))", "count(*) filter (where V > 1)",
            ]),
            column(tables),
            column(tables),
            column(tables),
            prop::sample::select(vec![
                "", "range current row", "groups 1 preceding", "groups between 1 following and 2 following",
                "range between 1 preceding and 2 following", "groups between 2 preceding and current row exclude group",
                "range between unbounded preceding and 1 following", "groups between current row and unbounded following",
            ]),
            any::<bool>(),
            from(tables),
            condition(tables),
        )
            .prop_map(|(function, value, part, order, frame, descending, from, condition)| {
                let function = function.replace('V', &value);
                let direction = if descending { " desc" } else { "" };
                format!(
                    "select {part}, {order}, {function} over (partition by {part} order by {order}{direction} {frame}) \
                     from {from} where {condition}"
                )
            });
        // Keys alone, since equal rows may come in any order.
        let keys_only = (
            column(tables),
            column(tables),
            any::<bool>(),
            any::<bool>(),
            from(tables),
            condition(tables),
            prop::option::of((0usize..6, 0usize..3)),
            any::<bool>(),
        )
            .prop_map(|(first, second, first_down, second_down, from, condition, limit, filtered)| {
                let direction = |down| if down { " desc" } else { "" };
                let filter = if filtered { format!(" where {condition}") } else { String::new() };
                let limit = limit
                    .map(|(limit, offset)| format!(" limit {limit} offset {offset}"))
                    .unwrap_or_default();
                format!(
                    "select {first}, {second} from {from}{filter} order by {first}{}, {second}{}{limit}                      {KEYS_ONLY}",
                    direction(first_down),
                    direction(second_down),
                )
            });
        let extreme = (prop::sample::select(vec!["min", "max"]), column(tables), from(tables), condition(tables), any::<bool>())
            .prop_map(|(function, column, from, condition, filtered)| {
                let filter = if filtered { format!(" where {condition}") } else { String::new() };
                format!("select {function}({column}) from {from}{filter} {KEYS_ONLY}")
            });
        // SQLite's queue turns integral reals into integers: only properties common to both are
        // asked for.
        let plain_column = || prop::sample::select(vec!["t0.a", "t0.b"]);
        let recursive = (plain_column(), plain_column(), condition(1)).prop_map(|(start, step, condition)| {
            format!(
                "with recursive r(x, n) as (select {start}, 0 from t0 union select {step}, n + 1 from r join t0 \
                 on t0.b is r.x where n < 3 and {condition}) \
                 select cast(x as int), typeof(x) = 'text', n from r"
            )
        });
        prop_oneof![
            4 => plain, 3 => grouped, 1 => compound, 1 => nested, 2 => window, 1 => recursive,
            3 => keys_only, 1 => extreme
        ]
    })
}
