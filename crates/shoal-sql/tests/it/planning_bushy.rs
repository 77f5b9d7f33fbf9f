//! Bushy joins, and joins of which the first rows alone are read: where they are made, where they
//! must not be, and SQLite's answers by every way.

use crate::common::{Scratch, check_forced, nodes};
use shoal_sql::{Forced, ForcedChoice};

/// Two hundred orders of each of forty days, by customers of 25 nations; days and clerks repeat.
const SHOP: &str = "
    create table customer(id integer primary key, nation int, name text);
    create table orders(id integer primary key, customer int, day text, clerk text collate nocase,
        price real);
    create index orders_customer on orders(customer);
    create index orders_day on orders(day);
    create table line(id integer primary key, orders int, part int, amount int);
    create index line_orders on line(orders);
    create index line_part on line(part);
    create table part(id integer primary key, brand int, note text);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 2000)
    insert into customer select i, i * 7 % 25, 'c' || i from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 8000)
    insert into orders select i, case when i % 31 = 0 then null else i * 37 % 2000 + 1 end,
        case when i % 29 = 0 then null else 'd' || (i * 13 % 40) end,
        case i % 2 when 0 then 'Clerk' else 'CLERK' end || (i % 90), i % 100 * 1.5 from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 24000)
    insert into line select i, i * 11 % 8000 + 1, i * 17 % 900 + 1, i % 50 from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 900)
    insert into part select i, i % 25, 'p' || i from i;";

/// `joined` is the name of a build side made of several tables.
fn check(queries: &[&str], is_joined: bool) {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let queries: Vec<String> = queries.iter().map(|&query| query.to_owned()).collect();
    for query in &queries {
        connection.force(Forced::default().with(ForcedChoice::Bushy(true)));
        let plan = nodes(&mut connection, query);
        assert_eq!(plan.contains("joined"), is_joined, "{query}\n{plan}");
        connection.force(Forced::default().with(ForcedChoice::Bushy(false)));
        assert!(!nodes(&mut connection, query).contains("joined"), "{query}");
    }
    check_forced(&mut connection, &peer, &queries);
}

/// Orders of one nation beside orders of another one of the same day.
const PAIRS: &str = "from customer c, orders o, orders p, customer d where o.customer = c.id
    and p.day = o.day and d.id = p.customer and c.nation = 3 and d.nation = 4";

#[test]
fn joined_tables_are_the_build_side_of_others() {
    check(
        &[
            &format!("select count(*), sum(o.price), min(d.name) {PAIRS}"),
            &format!("select o.id, p.id, c.name || d.name {PAIRS} and o.price > p.price"),
            &format!("select o.day, count(distinct d.id) n {PAIRS} group by o.day order by n, 1"),
            &format!("select c.id, count(*) {PAIRS} group by c.id order by count(*), 1 limit 5"),
            &format!("select distinct c.nation, p.clerk {PAIRS} and p.price > 140"),
            &format!("select o.id, rank() over (order by o.price, o.id, p.id) {PAIRS} and o.price < 9"),
            &format!("select count(*) {PAIRS} and (select max(price) from orders x where x.customer = d.id) > 140"),
            &format!("select count(*) from part where id in (select o.id % 900 {PAIRS})"),
            &format!("select * from (select o.day as k, sum(p.id) as s {PAIRS} group by 1) where s > 9"),
            "select count(*) from customer c, orders o, orders p, customer d where o.customer = c.id
                and o.clerk = p.clerk and d.id = p.customer and c.nation = 3 and d.nation = 4",
            "select a.part, b.part, count(*) from line a, line b, part p, part q, orders o
                where a.orders = b.orders and p.id = a.part and q.id = b.part and o.id = a.orders
                and p.brand = 3 and q.brand = 8 and o.price > 90 group by 1, 2 order by 3, 1, 2",
            "select count(*) from line a, line b, part p, part q, orders o, orders r
                where a.orders = o.id and p.id = a.part and q.id = b.part and r.id = b.orders
                and o.day = r.day and p.brand = 3 and q.brand = 8 and o.price > 130 and r.price < 20",
        ],
        true,
    );
}

#[test]
fn other_joins_are_orders_of_single_tables() {
    check(
        &[
            // Keys find one row each.
            "select count(*) from line a, orders o, customer c, part p where o.id = a.orders
                and c.id = o.customer and p.id = a.part and c.nation = 3 and p.brand = 4",
            // The first rows end the reading.
            "select o.id from customer c, orders o, orders p, customer d
                where o.customer = c.id and p.day = o.day and d.id = p.customer limit 0",
            "select exists(select 1 from customer c, orders o, orders p, customer d
                where o.customer = c.id and p.day = o.day and d.id = p.customer)",
            // Rows without a match stay.
            "select count(*), count(d.id) from customer c join orders o on o.customer = c.id
                join orders p on p.day = o.day left join customer d on d.id = p.customer
                and d.nation = 4 where c.nation = 3 and o.price < 20",
            // The order is the writer's.
            "select count(*) from customer c cross join orders o cross join orders p cross join
                customer d where o.customer = c.id and p.day = o.day and d.id = p.customer
                and c.nation = 3 and d.nation = 4 and o.price < 20",
            // No equality of columns leads to the other tables.
            "select count(*) from customer c, orders o, orders p, customer d where o.customer = c.id
                and p.day = o.day || '' and d.id = p.customer and c.nation = 3 and d.nation = 4
                and o.price < 20",
        ],
        false,
    );
}

#[test]
fn pairs_of_rare_rows_are_joined_bushy() {
    let scratch = Scratch::new(SHOP);
    let mut connection = scratch.ours();
    let plan = nodes(&mut connection, &format!("select count(*) {PAIRS}"));
    assert!(plan.contains("'joined USING AUTOMATIC HASH INDEX"), "{plan}");
    // A handful of orders finds those of their days.
    let few = format!("select count(*) {PAIRS} and c.id = 7");
    let plan = nodes(&mut connection, &few);
    assert!(!plan.contains("joined"), "{plan}");
}

/// A page of a join in the order of a key: the other table is sought for the rows of the page, not
/// gathered in a hash table.
#[test]
fn the_first_rows_of_a_join_read_no_whole_table() {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let join = "from orders o join line l on l.orders = o.id";
    let queries = [
        format!("select o.id, l.amount {join} order by o.id, l.id limit 10"),
        format!("select o.id, sum(l.amount) {join} group by o.id order by o.id limit 10"),
        format!(
            "select o.id, sum(l.amount) {join} group by o.id order by o.id desc limit 10 offset 3"
        ),
        format!("select o.day, sum(l.amount) {join} group by o.day order by o.day limit 2"),
        format!("select o.id, count(*) n {join} group by o.id having n > 2 order by o.id limit 10"),
        format!(
            "select * from (select o.id as k, sum(l.amount) as s {join} group by o.id) where s > 40
            order by k limit 3"
        ),
        format!(
            "select o.id, count(*) {join} join part p on p.id = l.part where p.brand = 3
            group by o.id order by o.id limit 5"
        ),
    ];
    for query in &queries {
        let plan = nodes(&mut connection, query);
        assert!(!plan.contains("hash build"), "{query}\n{plan}");
    }
    check_forced(&mut connection, &peer, &queries);
    let streamed = [
        format!("select o.id, l.amount {join} where o.price > 20 limit 5"),
        format!("select distinct o.day {join} where l.amount = 3 limit 4"),
        format!(
            "select * from (select o.id as k, sum(l.amount) as s {join} group by o.id) where s > 40
            limit 3"
        ),
    ];
    for query in &streamed {
        let plan = nodes(&mut connection, query);
        assert!(!plan.contains("hash build") && !plan.contains("groups"), "{query}\n{plan}");
    }
}
