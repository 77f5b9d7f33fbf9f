//! Groups below joins: where they are made, where they must not be, and SQLite's answers by every
//! way.

use crate::common::{self, Scratch, check_forced, nodes, ours};
use shoal_sql::{Forced, ForcedAccess, ForcedChoice, Value};

/// Customers with orders, some of nobody, with NULLs and texts for customers; tags unique without
/// their case; stock without rowid; numbers near the end of integers.
const SHOP: &str = "
    create table customer(id integer primary key, name text, city text, kind int);
    create index customer_kind on customer(kind);
    create table orders(id integer primary key, customer int, price int, note text, weight real);
    create index orders_customer on orders(customer);
    create table tag(name text collate nocase unique, colour text, place int);
    create table tagged(tag text, what int);
    create table tagged_alike(tag text collate nocase, what int);
    create table stock(code text primary key, amount int) without rowid;
    create table moved(code text, by int);
    create table loose(k unique, v);
    create table big(customer int, n int);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 200)
    insert into customer select i, 'c' || (i * 7 % 60), case i % 3 when 0 then null else 'x' || (i % 4) end,
        i % 5 from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 3000)
    insert into orders select i, case when i % 17 = 0 then null when i % 19 = 0 then 'nobody'
        when i % 23 = 0 then 2.5 else i * 31 % 230 end, case when i % 11 = 0 then null else i % 90 end,
        case i % 4 when 0 then null else 'n' || (i % 8) end, i * 0.25 from i;
    insert into tag select 'T' || id, 'red' || (id % 3), id from customer where id < 40;
    insert into tag values (null, 'blue', 90), (null, 'green', 91);
    insert into tagged select case id % 2 when 0 then 't' else 'T' end || (id % 50), id from orders;
    insert into tagged_alike select * from tagged;
    insert into stock select 'T' || id, id * 3 from customer;
    insert into moved select 'T' || (id % 90), id % 7 - 3 from orders;
    insert into loose values (1, 'i'), (2.5, 'r'), ('2', 't'), (x'32', 'b'), (null, 'n'), (null, 'm');
    insert into big select 500 + id % 3, 9223372036854775000 from customer;
    insert into big select id % 7, id from customer;";

/// Whether the plan of a query has groups below a join.
fn is_below(connection: &mut shoal_sql::Connection, sql: &str) -> bool {
    let plan = nodes(connection, sql);
    plan.contains("groups")
}

fn check(queries: &[&str], below: bool) {
    let scratch = Scratch::new(SHOP);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let queries: Vec<String> = queries.iter().map(|&query| query.to_owned()).collect();
    for query in &queries {
        connection.force(Forced::default().with(ForcedChoice::GroupsBelow(true)));
        assert_eq!(is_below(&mut connection, query), below, "{query}");
    }
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn groups_of_one_row_of_the_other_table_are_made_below_the_join() {
    check(
        &[
            "select c.id, c.name, count(*), sum(price) from customer c join orders o on o.customer = c.id
                group by c.id order by c.id",
            "select c.name, count(*) n, sum(price), total(weight), avg(price), min(note), max(note)
                from orders o join customer c on c.id = o.customer group by c.id, c.name, c.city
                order by n desc, c.id",
            "select o.customer, c.city, count(price) from customer c, orders o
                where c.id = o.customer group by o.customer order by o.customer",
            "select c.id, count(distinct note), sum(price) filter (where weight > 100.0), count(note)
                from customer c join orders o on o.customer = c.id where o.price > 10 and c.kind < 4
                group by c.id having count(*) > 2 and max(price) > 40 order by sum(price), c.id",
            "select upper(c.name) || count(*), c.kind + sum(price + 1) from customer c join orders o
                on o.customer = c.id group by c.id order by max(o.weight) desc, c.id limit 7 offset 2",
            "select * from (select c.id, c.city, count(*) n from customer c join orders o
                on o.customer = c.id group by c.id) where n > 10 order by id",
            "select s.code, s.amount + sum(by) from stock s join moved m on m.code = s.code
                group by s.code order by s.code",
            "select t.name, colour, count(*), sum(what) from tag t join tagged_alike a on a.tag = t.name
                group by t.name order by place",
            "select c.id, (select t.colour from tag t where t.place = c.id), count(*)
                from customer c join orders o on o.customer = c.id group by c.id order by c.id",
            "select c.id, count(*) from customer c join orders o on o.customer = c.id
                where c.kind in (select kind from customer where id < 3) group by c.id order by c.id",
            // Queries within expressions.
            "select name from customer where id in (select c.id from customer c join orders o
                on o.customer = c.id group by c.id having count(*) > 12) order by id",
            "select id, (select max(n) from (select c.id, count(*) n from customer c join orders o
                on o.customer = c.id group by c.id)) from customer where id < 4 order by id",
            "select (select c.id from customer c join orders o on o.customer = c.id group by c.id
                order by sum(price) desc, c.id) as best",
            "with n as (select c.id, count(*) k from customer c join orders o on o.customer = c.id
                group by c.id) select a.id, b.k from n a join n b on a.id = b.id + 1 order by a.id",
            // More tables, each with one row for a customer at most.
            "select c.id, s.amount, t.colour, sum(round(o.weight, 1)), max(length(note))
                from orders o join customer c on o.customer = c.id join stock s on s.code = 'T' || c.kind
                join tag t on t.place = c.id and t.name = s.code group by c.id order by c.id",
            "select c.id, d.name, count(*) from orders o join customer c on o.customer = c.id
                join customer d on d.id = c.kind where substr(note, 2) < '5' and d.city is not null
                group by c.id, d.name order by c.id",
            "select c.id, d.name, sum(price) from customer c left join customer d on d.id = c.kind + 0
                and d.city = 'x1' join orders o on o.customer = c.id group by c.id order by c.id",
        ],
        true,
    );
}

#[test]
fn rows_without_a_group_stay_in_left_joins() {
    check(
        &[
            "select c.id, count(o.id), count(*), sum(price), total(price), avg(weight), min(note), max(price)
                from customer c left join orders o on o.customer = c.id group by c.id order by c.id",
            "select c.name, count(distinct o.note) from customer c left join orders o
                on c.id = o.customer and o.price > 80 where c.kind > 1 group by c.id
                having count(o.id) < 2 order by c.id",
            "select c.id, o.customer, count(*) from customer c left join orders o on o.customer = c.id
                group by c.id order by c.id",
            "select c.id, d.name, count(o.id) from customer c join customer d on d.id = c.kind
                left join orders o on o.customer = c.id and date('2020-01-01') < o.note
                group by c.id order by c.id",
            "select c.id, d.name, count(o.id), sum(weight) from customer c
                left join customer d on d.id = c.kind and d.city = 'x2'
                left join orders o on o.customer = c.id where d.id is null or d.kind > 1
                group by c.id order by c.id",
            "select c.name, coalesce(sum(price), -1) s from customer c left join orders o
                on o.customer = c.id group by c.id order by s desc, c.id limit 9",
        ],
        true,
    );
}

/// A group of several rows of the other tables, rows with NULL in a unique column, keys compared by
/// other rules than they are unique by.
#[test]
fn other_groups_are_made_of_parts() {
    check(
        &[
            "select c.name, count(*) from customer c join orders o on o.customer = c.id group by c.name
                order by 1, 2",
            "select city, count(price), sum(price), total(weight), avg(price), min(note), max(weight)
                from customer c join orders o on o.customer = c.id where o.id % 5 > 0 group by city
                having count(*) > 3 order by sum(price) desc, city",
            "select lower(city) || kind, count(*) filter (where price > 20), 1 + sum(price + 1)
                from orders o join customer c on c.id = o.customer group by city, kind order by city, kind",
            "select t.name, count(*) from tag t join tagged a on a.tag = t.name
                group by t.name collate nocase order by 1",
            "select t.name, count(*) from tag t join tagged a on a.tag = t.name collate binary
                group by t.name order by 1",
            "select v, count(*) from loose join orders on orders.customer = loose.k group by v order by v",
            "select o.customer, count(*), count(price) from customer c left join orders o
                on o.customer = c.id group by o.customer order by 1",
            "select city, count(*), count(o.id), sum(price), total(price), avg(weight), max(note)
                from customer c left join orders o on o.customer = c.id and o.price > 85
                group by city order by city",
            "select k, count(*) from loose join stock on stock.code = loose.k group by k order by k",
            "select kind, sum(n), total(n), avg(n) from customer c join big b on b.customer = c.id
                where n < 1000 group by kind order by kind",
            // A customer of two tables with many rows for one, and rows without a customer.
            "select c.id, count(*), sum(price) from customer c join orders o on o.customer = c.id
                join big b on b.customer = c.id where o.id < 90 group by c.id order by c.id",
            "select d.id, count(*), count(o.id) from customer c left join customer d on d.id = c.kind
                left join orders o on o.customer = d.id group by d.id order by d.id",
            "select t.name, count(*), count(a.what) from tag t left join tagged_alike a on a.tag = t.name
                group by t.name order by 1",
        ],
        true,
    );
}

#[test]
fn groups_of_anything_else_stay_above_the_join() {
    check(
        &[
            // A column of some row of the group, a computed one, and an aggregate of both tables.
            "select c.id, max(o.price), o.note from customer c join orders o on o.customer = c.id
                where o.id % 50 = 1 group by c.id order by c.id",
            "select c.city, count(*), c.kind from customer c join orders o on o.customer = c.id
                where c.kind = 1 and o.id < 60 group by c.city order by 1",
            "select c.id, sum(o.price * c.kind) from customer c join orders o on o.customer = c.id
                group by c.id order by c.id",
            // Values that differ among the rows of a part.
            "select c.city, count(distinct o.price) from customer c join orders o on o.customer = c.id
                group by c.city order by 1",
            "select c.id, d.name, count(*) from customer c left join orders o on o.customer = c.id
                left join customer d on d.id = o.price group by c.id order by c.id",
            "select c.id, count(*) from customer c join orders o on o.customer = c.id and o.price > c.kind
                group by c.id order by c.id",
            // A computed NULL.
            "select c.id, sum(coalesce(o.price, 5)) from customer c left join orders o
                on o.customer = c.id group by c.id order by c.id",
            "select c.id, count(*) from customer c left join orders o on o.customer = c.id
                where o.price is null group by c.id order by c.id",
            // Fails for rows of nobody; the first groups are all that is read; the program's order.
            "select c.id, sum(abs(o.price)) from customer c join orders o on o.customer = c.id
                group by c.id order by c.id",
            "select c.id, count(*) from customer c join orders o on o.customer = c.id group by c.id
                order by c.id limit 3",
            "select (select c.id from customer c join orders o on o.customer = c.id group by c.id
                order by c.id) as one",
            "select id from customer d where 3 < (select count(*) from customer c join orders o
                on o.customer = c.id where c.kind = d.kind group by c.id order by count(*)) order by id",
            "select c.id, count(*) from customer c cross join orders o on o.customer = c.id
                group by c.id order by c.id",
            "select c.id, group_concat(o.id, ',' order by o.id) from customer c join orders o on o.customer = c.id
                group by c.id order by c.id",
            "select c.id, count(*) from customer c, orders o where o.customer = c.id and o.price = 3",
        ],
        false,
    );
}

/// Orders of nobody sum up past the end of integers: no group of the join does.
#[test]
fn a_sum_fails_for_groups_with_a_row_alone() {
    let of = "select c.id, sum(n) from customer c join big b on b.customer = c.id group by c.id";
    check(
        &[
            "select kind, sum(n) from customer c join big b on b.customer = c.id group by kind
                order by kind",
            &format!("{of} order by c.id"),
            &format!("{of} having sum(n) > 200 order by sum(n), c.id"),
        ],
        true,
    );
    let scratch = Scratch::new(SHOP);
    scratch.theirs().execute("insert into customer(id) values (501)", []).unwrap();
    let mut connection = scratch.ours();
    let parts = "select kind, sum(n) from customer c join big b on b.customer = c.id group by kind";
    for (below, of) in [(true, of), (false, of), (true, parts), (false, parts)] {
        connection.force(Forced::default().with(ForcedChoice::GroupsBelow(below)));
        let failed = ours(&mut connection, of).unwrap_err().to_string();
        assert!(failed.contains("integer overflow"), "{failed}");
    }
}

/// A pair of tables with a condition that joins them, columns of both, and conditions on both.
struct Pair {
    from: [&'static str; 2],
    on: [&'static str; 2],
    of_other: &'static [&'static str],
    of_grouped: &'static [&'static str],
    conditions: &'static [&'static str],
}

const PAIRS: [Pair; 5] = [
    Pair {
        from: ["customer c", "orders o"],
        on: ["o.customer = c.id", "c.id = o.customer and o.price < 60"],
        of_other: &["c.id", "c.name", "c.city", "c.kind + 1"],
        of_grouped: &["o.id", "o.price", "o.note", "o.weight", "o.customer"],
        conditions: &[
            "c.kind > 2",
            "o.price > 30",
            "o.note is not null",
            "c.city = 'x1'",
            "o.customer > 4",
        ],
    },
    Pair {
        from: ["stock s", "moved m"],
        on: ["m.code = s.code", "s.code = m.code and m.by > 0"],
        of_other: &["s.code", "s.amount", "lower(s.code)"],
        of_grouped: &["m.by", "m.code"],
        conditions: &["s.amount < 200", "m.by <> 2", "m.code > 'T3'", "s.code < 'T7'"],
    },
    Pair {
        from: ["tag t", "tagged_alike a"],
        on: ["a.tag = t.name", "t.name = a.tag and a.what % 3 > 0"],
        of_other: &["t.name", "t.colour", "t.place"],
        of_grouped: &["a.what", "a.tag"],
        conditions: &["a.what > 900", "t.place < 30", "a.tag > 't2'", "t.colour is not null"],
    },
    Pair {
        from: ["loose l", "orders o"],
        on: ["o.customer = l.k", "l.k = o.customer"],
        of_other: &["l.k", "l.v"],
        of_grouped: &["o.price", "o.weight", "o.customer"],
        conditions: &["o.price > 30", "l.v <> 'r'"],
    },
    Pair {
        from: ["customer c", "big b"],
        on: ["b.customer = c.id", "b.customer = c.id and b.n < 150"],
        of_other: &["c.id", "c.name"],
        of_grouped: &["b.n", "b.customer"],
        conditions: &["b.n > 7", "c.id > 2"],
    },
];

/// A query over one of the pairs, by the numbers of a generator.
fn random_query(next: &mut dyn FnMut(usize) -> usize) -> String {
    let pair = &PAIRS[next(PAIRS.len())];
    let one = |next: &mut dyn FnMut(usize) -> usize, of: &[&str]| of[next(of.len())].to_owned();
    let (mut from, on) = (pair.from, pair.on[usize::from(next(4) == 0)]);
    let join = ["join", "left join", ","][next(3)];
    if join != "left join" && next(2) == 0 {
        from.reverse();
    }
    let mut conditions: Vec<String> = Vec::new();
    for _ in 0..next(3) {
        conditions.push(one(next, pair.conditions));
    }
    let from = match join {
        "," => {
            conditions.push(on.to_owned());
            format!("{}, {}", from[0], from[1])
        }
        _ => format!("{} {join} {} on {on}", from[0], from[1]),
    };
    let aggregate = |next: &mut dyn FnMut(usize) -> usize| {
        let of = one(next, pair.of_grouped);
        let call = ["count(", "sum(", "total(", "avg(", "min(", "max(", "count(distinct "][next(7)];
        match next(8) {
            0 => "count(*)".to_owned(),
            2 => format!("sum({of} + 1) filter (where {of} > 20)"),
            _ => format!("{call}{of})"),
        }
    };
    let mut keys = vec![pair.of_other[0].to_owned()];
    match next(6) {
        0 => keys[0] = one(next, pair.of_grouped),
        1 | 3 => keys[0] = one(next, pair.of_other),
        2 => keys.push(one(next, pair.of_other)),
        _ => {}
    }
    let mut outputs = keys.clone();
    for _ in 0..=next(3) {
        outputs.push(aggregate(next));
    }
    if next(4) == 0 {
        outputs.push(format!("coalesce({}, -1) || ''", aggregate(next)));
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" where {}", conditions.join(" and ")),
    };
    let having = match next(4) {
        0 => format!(" having {} > {}", aggregate(next), next(50)),
        _ => String::new(),
    };
    format!(
        "select {} from {from}{filter} group by {}{having}",
        outputs.join(", "),
        keys.join(", ")
    )
}

/// `SHOAL_GROUPS=20000` asks so many queries.
#[test]
fn random_groups_of_joins_are_sqlites() {
    let count = std::env::var("SHOAL_GROUPS").ok().and_then(|it| it.parse().ok()).unwrap_or(400);
    let scratch = Scratch::new(SHOP);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let (mut seed, mut below, mut failures) = (17_u64, 0, Vec::new());
    for _ in 0..count {
        let mut next = |end: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % end
        };
        let sql = random_query(&mut next);
        for is_forced in [true, false] {
            connection.force(Forced::default().with(ForcedChoice::GroupsBelow(is_forced)));
            below += usize::from(is_forced && is_below(&mut connection, &sql));
            failures.extend(common::check(&mut connection, &peer, &sql, &[]).err());
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n\n"));
    assert!(below > count / 5, "{below} of {count}");
}

/// Without an `ORDER BY` groups come in the order of their keys, wherever they are made.
#[test]
fn groups_come_in_the_order_of_their_keys() {
    let scratch = Scratch::new(SHOP);
    let mut connection = scratch.ours();
    for sql in [
        "select c.name, c.id, count(*) from customer c join orders o on o.customer = c.id
            group by c.name, c.id",
        "select c.id, count(o.id) from customer c left join orders o on o.customer = c.id group by c.id",
        "select s.code, sum(by) from stock s left join moved m on m.code = s.code group by s.code",
        "select t.name, count(*) from tag t join tagged_alike a on a.tag = t.name group by t.name",
        "select * from (select c.city, c.id, count(*) n from customer c join orders o
            on o.customer = c.id group by c.city, c.id) where n > 9",
        "select c.city, count(*) from customer c join orders o on o.customer = c.id group by c.city",
        // By the index, in another order than that of rowids.
        "select c.id, count(o.id) from customer c left join orders o on o.customer = c.id
            where c.kind > 0 group by c.id",
    ] {
        let below = Forced::default().with(ForcedChoice::GroupsBelow(true));
        connection.force(below.with(ForcedChoice::Access(ForcedAccess::Seek)));
        assert!(is_below(&mut connection, sql), "{sql}");
        let got = ours(&mut connection, sql).unwrap().rows;
        connection.force(Forced::default().with(ForcedChoice::GroupsBelow(false)));
        assert_eq!(got, ours(&mut connection, sql).unwrap().rows, "{sql}");
    }
}

/// By the numbers of rows, without a word of the caller: many rows a group, and no condition that
/// finds them.
#[test]
fn groups_are_made_below_joins_where_that_saves_lookups() {
    let scratch = Scratch::new(SHOP);
    let mut connection = scratch.ours();
    let all = "select c.name, count(o.id) from customer c left join orders o on o.customer = c.id group by c.id";
    assert!(is_below(&mut connection, all));
    let few = "select c.name, count(*) from customer c join orders o on o.customer = c.id
        where c.id < 9 group by c.id";
    assert!(!is_below(&mut connection, few));
    let small =
        "select c.id, count(*) from customer c join big b on b.customer = c.id group by c.id";
    assert!(!is_below(&mut connection, small));
    assert_eq!(ours(&mut connection, all).unwrap().rows[1][0], Value::Text("c14".into()));
}
