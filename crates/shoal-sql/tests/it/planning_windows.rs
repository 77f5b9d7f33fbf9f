//! Windows over an input in the order of their partitions: plans with such an input, first rows,
//! joins whose loops go on behind a partition, and SQLite's answers under every forced choice.

use crate::common::{Scratch, check_forced, lines, nodes, ours, theirs};
use shoal_sql::{Limits, Value};

const SHOP: &str = "
    create table customer(id integer primary key, city text collate nocase, name text);
    create index customer_city on customer(city);
    create table orders(id integer primary key, customer int, day text, status text, price real);
    create index orders_customer on orders(customer, day);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 120)
    insert into customer select i, char(65 + i * i % 9 + i % 2 * 32) || (i % 3), 'n' || (i * 7 % 120) from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 3000)
    insert into orders select i, nullif(i * i % 131, 7), 'd' || (i * 37 % 90), 's' || (i * 7 % 4), i * 13 % 1009 / 4.0
        from i;";

/// True where the plan takes one partition after the other.
fn is_in_order(connection: &mut shoal_sql::Connection, query: &str) -> bool {
    nodes(connection, query).contains("partitions in order")
}

#[test]
fn partitions_are_taken_one_by_one() {
    let scratch = Scratch::new(SHOP);
    let mut connection = scratch.ours();
    for query in [
        "select id, row_number() over (partition by customer order by day desc, id) from orders limit 9",
        "select customer, day, rank() over (partition by customer order by day) from orders",
        "select customer, sum(price) over (partition by customer) from orders limit 5",
        "select * from (select *, row_number() over (partition by customer order by price, id) n from orders)
            where n <= 2 limit 12",
        "select *, lag(day) over (partition by customer order by id) from orders
            order by customer, id limit 20",
        "select id, count(*) over (partition by customer), max(day) over (partition by customer order by id)
            from orders limit 5",
        "select c.name, o.id, rank() over (partition by c.id order by o.price, o.id)
            from customer c join orders o on o.customer = c.id limit 9",
    ] {
        assert!(is_in_order(&mut connection, query), "{query}");
    }
    for query in [
        "select id, row_number() over (partition by status order by day, id) from orders limit 9",
        "select id, row_number() over (order by day, id) from orders limit 9",
        // A sort above wants all rows, and the table is shorter to read than the index with it.
        "select *, lag(day) over (partition by customer order by id) from orders order by price, id limit 2",
        "select id, count(*) over (partition by customer), count(*) over (partition by status) from orders limit 5",
        "select count(*), customer, rank() over (partition by customer) from orders group by customer",
        // The index compares with another collation.
        "select id, count(*) over (partition by city collate binary) from customer limit 5",
    ] {
        assert!(!is_in_order(&mut connection, query), "{query}");
    }
}

/// Outputs, windows, conditions and ends of queries put together: all rows, and each way.
#[test]
fn answers_are_as_of_all_rows() {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let orders = [
        "order by day desc, id",
        "order by price, id",
        "order by id rows between 1 preceding and 1 following",
        "order by id groups between unbounded preceding and current row exclude ties",
        "order by price, id rows between 2 following and 3 following",
        "",
    ];
    let calls = [
        "row_number()",
        "sum(price)",
        "lag(day, 2, 'none')",
        "count(*) filter (where status > 's1')",
    ];
    let ends = ["", "limit 17", "limit 11 offset 40", "order by customer limit 0"];
    let mut queries = Vec::new();
    for (number, order) in orders.iter().enumerate() {
        for call in calls {
            if order.is_empty() && (call.starts_with("row") || call.starts_with("lag")) {
                continue;
            }
            // A bound among rows that are equal by the window may leave any of them out.
            let end = match order.is_empty() {
                true => "",
                false => ends[(number + call.len()) % ends.len()],
            };
            let window = format!("{call} over (partition by customer {order})");
            queries.push(format!("select customer, day, id, {window} from orders {end}"));
            queries.push(format!(
                "select customer, id, w from (select *, {window} w from orders where price > 40) where w > 1 {end}"
            ));
            // The inner loop goes on with the outer row's values behind each partition.
            queries.push(format!(
                "select c.name, c.city, o.id, {} from customer c join orders o on o.customer = c.id
                    and o.price < c.id * 2 {end}",
                window
                    .replace("(partition by customer", "(partition by c.id")
                    .replace("order by id", "order by o.id")
                    .replace(", id", ", o.id")
            ));
            queries.push(format!(
                "select c.id, (select group_concat(w) from (select {window} w from orders where customer = c.id
                    and id < 900 order by id)) from customer c where c.id < 30 order by c.id"
            ));
        }
    }
    queries.extend(
        [
            "select city, id, rank() over (partition by city order by name) from customer order by city, name",
            "select city, id, rank() over (partition by city order by id) from customer order by city, id limit 9",
            "select city, id, rank() over (partition by city order by id desc) from customer
                order by city desc, id limit 9",
            "select distinct customer, count(*) over (partition by customer) from orders limit 9",
            "select distinct status, count(*) over (partition by customer) from orders order by 2, 1 limit 9",
            "select id, first_value(id) over w, last_value(id) over w, ntile(3) over w, count(*) over
                (partition by customer order by id) from orders window w as (partition by customer order by day, id)
                limit 60",
            "select customer, total from (select customer, sum(price) over (partition by customer) total, row_number()
                over (partition by customer order by id) n from orders) where n = 1 and total > 500 limit 4",
            "select c.id, o.id, count(o.id) over (partition by c.id order by o.id) from customer c left join orders o
                on o.customer = c.id and o.status = 's1' limit 70",
            "select o.customer, count(*) over (partition by o.customer), c.name from orders o
                left join customer c on c.id = o.customer where o.id > 2000 limit 30",
            "select id, (select count(*) from orders p where p.customer = o.customer and p.id < o.id),
                row_number() over (partition by customer order by id) from orders o limit 50",
            "select max(n) from (select row_number() over (partition by customer order by day) n from orders)",
            "select id, count(*) over (partition by customer order by id) from orders where customer is null limit 5",
            "select id, count(*) over (partition by customer) from orders where id < 0 limit 5",
            "select 1 where exists (select row_number() over (partition by customer) from orders where customer = 3)",
            "select customer, id, sum(id) over (partition by customer order by id) from orders
                union all select 0, 0, 0 limit 40",
        ]
        .map(str::to_owned),
    );
    check_forced(&mut connection, &peer, &queries);
}

/// Rows come in the order of the window, and a page of that order needs no sort of its own.
#[test]
fn the_order_of_the_window_is_an_order() {
    let scratch = Scratch::new(SHOP);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for (query, sorts) in [
        ("select id, rank() over (partition by status order by day, id) r from orders order by status, day, id", false),
        ("select id, rank() over (order by price desc, id) r from orders order by price desc, id limit 9", false),
        ("select id, rank() over (order by price desc, id) r from orders order by price desc", false),
        ("select id, rank() over (order by price desc, id) r from orders order by price, id desc limit 9", true),
        ("select id, rank() over (order by price desc, id) r from orders order by r, id limit 9", true),
        ("select id, rank() over (partition by status) r from orders order by status desc, id", true),
        (
            "select status, count(*), rank() over (order by count(*), status) r from orders group by status
                order by count(*), status",
            false,
        ),
        (
            "select id, rank() over (order by day, id), rank() over (order by price, id) from orders
                order by day, id limit 7",
            false,
        ),
    ] {
        let plan = nodes(&mut connection, query);
        let is_sorted = plan.contains("sort") || plan.contains("top-N");
        assert_eq!(is_sorted, sorts, "{query}\n{plan}");
        let rows = ours(&mut connection, query).unwrap().rows;
        if !query.ends_with("desc") {
            assert_eq!(lines(&rows), lines(&theirs(&peer, query).unwrap().rows), "{query}");
        }
    }
}

/// Partitions within the limit of memory, and between them a partition beyond the limit.
#[test]
fn partitions_beside_one_too_large_for_memory() {
    let scratch = Scratch::new(
        "create table t(id integer primary key, g int, v text);
        create index t_g on t(g, v);
        with recursive i(i) as (select 1 union all select i + 1 from i where i < 6000)
        insert into t select i, case when i % 3 then 50 else i % 100 end, hex(i * 7919 % 10007) || 'text' from i;",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for query in [
        "select g, id, v, sum(id) over (partition by g order by v, id) from t",
        "select g, id, lead(v) over (partition by g order by id desc), count(*) over (partition by g) from t limit 4500",
        "select a.g, b.id, b.v, count(*) over (partition by a.g order by b.v, b.id)
            from (select distinct g from t) a join t b on b.g = a.g limit 5900",
    ] {
        let expect = theirs(&peer, query).unwrap().rows;
        for bytes in [u64::MAX, 400_000, 150_000] {
            connection.set_limits(Limits { memory_bytes: Some(bytes), ..Limits::default() });
            let rows: Vec<Vec<Value>> = ours(&mut connection, query).unwrap().rows;
            assert_eq!(lines(&rows), lines(&expect), "{query} in {bytes}");
        }
        connection.set_limits(Limits::default());
    }
}
