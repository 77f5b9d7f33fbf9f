//! Orders, bounds and keys asked of subqueries in a `FROM`: where an order rises, where it must
//! stay, which groups are made, and SQLite's answers by every way.

use crate::common::{self, Scratch, check_forced, nodes, ours, ours_with, theirs, theirs_with};
use shoal_sql::{Forced, ForcedChoice, Value};

const SHOP: &str = "
    create table customer(id integer primary key, city text, name text collate nocase);
    create table orders(id integer primary key, customer int, day text, status text, price real);
    create index orders_customer on orders(customer);
    create index orders_status on orders(status, day);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 300)
    insert into customer select i, 'city' || (i * i % 40), char(65 + i % 26, 97 + i % 7) from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 4000)
    insert into orders select i, i * i % 311, 'd' || (i * 37 % 900), 's' || (i * 7 % 4), i * 13 % 1009 / 4.0
        from i;";

/// A query, and the same without the query around: both have one plan.
fn one_plan(pairs: &[(&str, &str)]) {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for (nested, plain) in pairs {
        let (nested, plain) = (nodes(&mut connection, nested), nodes(&mut connection, plain));
        assert_eq!(nested, plain);
    }
    for (nested, plain) in pairs {
        let rows = ours(&mut connection, nested).unwrap().rows;
        assert_eq!(rows, ours(&mut connection, plain).unwrap().rows, "{nested}");
        assert_eq!(rows, theirs(&peer, plain).unwrap().rows, "{nested}");
    }
    let queries: Vec<String> = pairs.iter().map(|(nested, _)| (*nested).to_owned()).collect();
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn an_order_rises_to_the_bound() {
    one_plan(&[
        (
            "select * from (select id, status, day from orders order by status, day, id) limit 30",
            "select id, status, day from orders order by status, day, id limit 30",
        ),
        (
            "select * from (select id, price from orders order by price desc, id) limit 7 offset 5",
            "select id, price from orders order by price desc, id limit 7 offset 5",
        ),
        (
            "select price, id from (select * from orders o join customer c on c.id = o.customer
                order by o.price, o.id) where city = 'city4' limit 9",
            "select price, o.id from orders o join customer c on c.id = o.customer
                where city = 'city4' order by o.price, o.id limit 9",
        ),
        (
            "select id from (select id, price from orders order by price * 2, id) limit 9",
            "select id from orders order by price * 2, id limit 9",
        ),
        (
            "select id + 1 as next from (select id, price as p from orders order by p, id desc)",
            "select id + 1 as next from orders order by price, id desc",
        ),
        (
            "with recent as (select * from orders order by id desc) select * from recent limit 4",
            "select * from orders order by id desc limit 4",
        ),
        (
            "select * from (select * from (select name, id from customer order by name, id)) limit 50",
            "select name, id from customer order by name, id limit 50",
        ),
        // An order around is the one that counts.
        (
            "select * from (select id, day from orders order by day) order by id desc limit 3",
            "select id, day from orders order by id desc limit 3",
        ),
        (
            "select count(*) from (select o.id, price from orders o join customer c
                on c.id = o.customer order by price)",
            "select count(*) from orders o join customer c on c.id = o.customer",
        ),
    ]);
}

#[test]
fn a_bound_goes_down_where_the_query_stays() {
    one_plan(&[
        (
            "select * from (select customer, count(*) from orders group by customer order by 2, 1)
                limit 8",
            "select * from (select customer, count(*) from orders group by customer order by 2, 1
                limit 8)",
        ),
        (
            "select * from (select distinct status, customer from orders order by 2, 1) limit 8 offset 3",
            "select * from (select distinct status, customer from orders order by 2, 1 limit 8 offset 3)",
        ),
        (
            "select * from (select id, rank() over (order by day) r from orders order by r, id) limit 8",
            "select * from (select id, rank() over (order by day) r from orders order by r, id limit 8)",
        ),
        (
            "select * from (select id, city from customer union select id, day from orders order by 1, 2)
                limit 9",
            "select * from (select id, city from customer union select id, day from orders order by 1, 2
                limit 9)",
        ),
    ]);
}

#[test]
fn an_order_stays_where_rows_are_seen_one_behind_the_other() {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let queries = [
        "select group_concat(id) from (select id from orders where id < 50 order by price, id)",
        "select count(*), id from (select id from orders where id < 50 order by price, id desc)",
        "select json_group_array(id) from (select id from orders where id < 9 order by day, id)",
        "select customer, group_concat(id) from (select * from orders order by price, id)
            group by customer order by customer",
        "select id, row_number() over () from (select id from orders order by price, id) limit 20",
        "select * from (select id, price from orders order by price, id limit 9) limit 5",
        "select * from (select id, price from orders order by price, id limit 9) where id > 900 limit 5",
        "select * from (select id, price from orders order by price, id limit 9) order by id",
        "select count(*) from (select id from orders order by price limit 9)",
        "select * from (select customer, sum(price) s from orders group by customer order by s, 1)
            where s > 900 limit 5",
        "select * from (select id, json_object('id', id) as j from customer order by name, id) limit 5",
        "select json_array(j) from (select json_object('id', id) as j from customer order by name, id)
            limit 5",
        "select * from (select * from customer order by name, id) c left join orders o
            on o.customer = c.id and o.price > 250 order by c.id, o.id limit 40",
        "select * from orders where id in (select id from (select id, price from orders order by price, id)
            limit 9)",
        "select (select id from (select * from orders o where o.customer = c.id order by price, id) limit 1)
            from customer c where c.id < 40 order by c.id",
        "select * from (select id from orders order by price, id) limit 0",
        "select * from (select id from orders order by price, id) limit -1 offset 3990",
        "select * from (select id, price from orders where price < 20 order by price, id)
            union all select * from (select id, id from customer where id < 5 order by id desc) limit 99",
    ];
    let queries: Vec<String> = queries.iter().map(|&query| query.to_owned()).collect();
    check_forced(&mut connection, &peer, &queries);
    // Random numbers are in the order of the rows they were made for.
    let sql = "select id, random() from (select id from orders order by price, id) limit 20";
    let plan = nodes(&mut connection, sql);
    assert!(plan.contains("subquery"), "{plan}");
}

#[test]
fn conditions_reach_a_common_table_named_once() {
    one_plan(&[
        (
            "with n as (select customer, count(*) c from orders group by customer)
                select * from n where customer = 9",
            "select * from (select customer, count(*) c from orders group by customer) n where customer = 9",
        ),
        (
            "with u as (select id, day from orders union all select id, city from customer)
                select * from u where id = 70",
            "select * from (select id, day from orders union all select id, city from customer) u
                where id = 70",
        ),
        (
            "with u as (select distinct customer, status from orders)
                select name, status from customer c join u on u.customer = c.id where c.id = 25",
            "select name, status from customer c join (select distinct customer, status from orders) u
                on u.customer = c.id where c.id = 25",
        ),
    ]);
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let queries = [
        "with n as (select customer, count(*) c from orders group by customer)
            select a.c, b.c from n a join n b on a.customer + 1 = b.customer where a.customer < 40 order by 1, 2",
        "with n as materialized (select customer, count(*) c from orders group by customer)
            select * from n where customer = 9",
        "with n as not materialized (select customer, count(*) c from orders group by customer)
            select a.c, b.c from n a join n b on a.customer + 1 = b.customer where a.customer < 40 order by 1, 2",
        "with n as (select customer, count(*) c from orders group by customer), m as (select * from n where c > 9)
            select (select count(*) from m), (select max(c) from m)",
        "with n(k, c) as (select customer, count(*) from orders group by customer)
            select id, (select c from n where k = customer.id) from customer order by id limit 40",
    ];
    let queries: Vec<String> = queries.iter().map(|&query| query.to_owned()).collect();
    check_forced(&mut connection, &peer, &queries);
}

/// Two tables beside each other, the newest rows of both asked for.
const BOTH: &str = "select day, id, 'order' as kind from orders
    union all select 'd' || (id * 7 % 900), id, city from customer";

#[test]
fn parts_of_a_union_give_their_own_first_rows() {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let queries = [
        format!("{BOTH} order by day desc, id, kind limit 10"),
        format!("select * from ({BOTH}) order by day desc, id, kind limit 10 offset 30"),
        format!("select kind, id + 1 from ({BOTH}) order by day, id, kind limit 10"),
        format!("select kind from ({BOTH}) where id % 3 = 1 order by day, id, kind limit 10"),
        format!("select id from ({BOTH}) order by day || 'x', id, kind limit 10"),
        format!("select count(*), min(day) from (select * from ({BOTH}) order by day, id limit 10)"),
        format!("{BOTH} union all values ('d5', 0, 'v'), ('d95', 9, null) order by 1 desc, 2, 3 limit 12"),
        format!("{BOTH} union select day, id, status from orders order by 1, 2, 3 limit 12"),
        format!("{BOTH} union all select day, count(*), max(status) from orders group by day
            order by 2 desc, 1, 3 limit 12"),
        "select distinct status, 1 from orders union all select name, id from customer order by 1, 2 limit 9"
            .to_owned(),
        format!("select id, (select kind from ({BOTH}) b where b.id < c.id order by b.day, b.id, kind limit 1)
            from customer c where id < 40 order by id"),
        format!("with recent as ({BOTH} order by day desc, id, kind limit 20)
            select kind, count(*) from recent group by kind order by kind"),
    ];
    check_forced(&mut connection, &peer, &queries);
    let plan = nodes(&mut connection, &queries[0]);
    assert_eq!(plan.matches("first").count(), 2, "{plan}");
    let bounded = format!("{BOTH} order by day desc, id, kind limit ? offset ?");
    for bounds in
        [[3, 0], [3, 5], [-1, 4290], [5, -2], [0, 0], [i64::MAX, 1], [20_000, 4280], [2, 20_000]]
    {
        let bounds = bounds.map(Value::Int);
        let rows = ours_with(&mut connection, &bounded, &bounds).unwrap().rows;
        assert_eq!(rows, theirs_with(&peer, &bounded, &bounds).unwrap().rows, "{bounds:?}");
    }
    for bounds in [[Value::Null, Value::Int(1)], [Value::Text(b"x".to_vec()), Value::Int(0)]] {
        assert!(ours_with(&mut connection, &bounded, &bounds).is_err(), "{bounds:?}");
    }
}

/// The totals of each customer, and of each status of each customer.
const TOTALS: &str = "
    create view totals as select customer, count(*) n, sum(price) s from orders group by customer;
    create view kinds as select customer, status, max(day) last from orders group by customer, status;
    create table account(name text primary key, customer int unique, level real);
    insert into account select name || id, case when id % 7 then id end, id % 10 from customer;";

#[test]
fn groups_are_made_of_the_asked_keys_alone() {
    let scratch = Scratch::new(&format!("{SHOP}{TOTALS}"));
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let queries = [
        "select name, s from customer c join totals t on t.customer = c.id where c.id = 25",
        "select name, s from customer c join totals t on t.customer = c.id where c.id in (25, 36, 49)",
        "select name, s from customer c join totals t on t.customer = c.id where t.customer between 20 and 21",
        "select name, s from customer c left join totals t on t.customer = c.id where c.id = 25",
        "select name, s from customer c left join totals t on t.customer = c.id where c.id < 30",
        "select name, s from customer c left join totals t on t.customer = c.id and n > 12 where c.id < 30",
        "select name, s from customer c join totals t on t.customer = c.id where c.name = 'bc'",
        "select name, s from customer c left join totals t on t.customer = c.id where c.name = 'bc'",
        "select name, s from customer c left join totals t on t.customer = c.id where c.name like 'b%'",
        "select name, status, last from customer c join kinds k on k.customer = c.id where c.city = 'city9'",
        "select a.name, s from account a join totals t on t.customer = a.customer where a.level = 3",
        "select a.name, s from account a left join totals t on t.customer = a.customer where a.level = 3",
        "select c.name, a.level, s from customer c left join account a on a.customer = c.id
            left join totals t on t.customer = a.customer where a.level = 3",
        "select c.name, a.level, s from customer c left join account a on a.customer = c.id
            left join totals t on t.customer = a.customer where a.level is null",
        "select name, s from totals t left join customer c on c.id = t.customer where c.name = 'bc'",
        "select name, s from totals t left join customer c on c.id = t.customer and c.name = 'bc'",
        "select name, last from customer c join (select customer, day last, row_number() over
            (partition by customer order by day desc, id) r from orders) t
            on t.customer = c.id and r = 1 where c.city = 'city9'",
        "select name, x from customer c join (select customer x from orders union
            select customer from account) t on t.x = c.id where c.city = 'city9'",
        "select name, d from customer c join (select distinct customer, day d from orders) t
            on t.customer = c.id where c.city = 'city9' and c.id % 2",
        "select count(*) from customer c join totals t on t.customer = c.id join kinds k on k.customer = c.id
            where c.city = 'city9' and k.status = 's1'",
        "select name, t.s from customer c join (select * from totals limit 50) t on t.customer = c.id
            where c.city = 'city9'",
        "select name, (select sum(s) from totals t join customer d on d.id = t.customer
            where d.city = c.city) from customer c where c.id < 20",
        "select name, s from customer c right join totals t on t.customer = c.id where c.city = 'city9'",
        "select name, s from totals t full join customer c on t.customer = c.id where c.city = 'city9'",
        "select c.name, t.n, u.n from customer c, totals t, totals u where t.customer = c.id
            and u.customer = t.customer and c.name = 'bc'",
    ];
    let queries: Vec<String> = queries.iter().map(|&query| query.to_owned()).collect();
    check_forced(&mut connection, &peer, &queries);
    connection.force(Forced::default().with(ForcedChoice::KeysBelow(true)));
    for query in [0, 1, 2, 3, 6, 7, 9].map(|place| &queries[place]) {
        let plan = ours(&mut connection, &format!("explain query plan {query}")).unwrap();
        let plan = common::lines(&plan.rows);
        assert!(plan.contains("SEARCH orders USING"), "{query}\n{plan}");
    }
    // A list of most keys would cost more than it saves.
    connection.force(Forced::default());
    for (city, is_asked) in [("= 'city9'", true), ("<> 'city9'", false)] {
        let query = format!(
            "select name, s from customer c join totals t on t.customer = c.id where c.city {city}"
        );
        let plan = ours(&mut connection, &format!("explain query plan {query}")).unwrap();
        let plan = common::lines(&plan.rows);
        assert_eq!(plan.matches(" c").count() > 1, is_asked, "{query}\n{plan}");
    }
}
