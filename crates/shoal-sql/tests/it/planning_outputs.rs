//! Plans of views and applications' queries: outputs running queries, lists of correlated queries,
//! top-N with the first sort keys in an index's order.

use crate::common::{Scratch, check_forced, nodes, ours};
use shoal_sql::Value;

/// Books with authors, marks and sales, as a library keeps them.
const BOOKS: &str = "
    create table book(id integer primary key, title text, year int, shelf text);
    create table author(id integer primary key, name text collate nocase);
    create table wrote(id integer primary key, book int, author int, unique(book, author));
    create table mark(book int, mark int);
    create index mark_book on mark(book);
    create index book_year on book(year);
    create index book_shelf on book(shelf desc, year);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 400)
    insert into book select i, 't' || (i * 37 % 301), case i % 13 when 0 then null
        else 1900 + i * 7 % 40 end, case i % 5 when 0 then null else 's' || (i % 4) end from i;
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 120)
    insert into author select i, 'A' || (i * 11 % 50) from i;
    insert into wrote(book, author) select id, id * 7 % 120 + 1 from book where id % 4 > 0;
    insert or ignore into wrote(book, author) select id, id * 5 % 121 from book where id % 3 > 0;
    insert into mark select id % 200, id % 6 from book;
    create table long(k int, v text);
    create index long_k on long(k);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 30000)
    insert into long select i * 7919 % 6007, 'a text of some length ' || i from i;
    create view shown as select id, title, year, shelf,
        (select group_concat(name) from author where author.id in
            (select author from wrote where book = book.id)) as authors,
        (select max(mark) from mark where mark.book = book.id) as best,
        (select count(*) from wrote where wrote.book = book.id) as written from book;
    create view ranked as select id, year, title, row_number() over (order by year, id) as place,
        (select max(mark) from mark where mark.book = book.id) as best from book;";

fn strings(queries: &[&str]) -> Vec<String> {
    queries.iter().map(|&query| query.to_owned()).collect()
}

#[test]
fn values_of_a_list_are_sought_for_each_row_around() {
    let scratch = Scratch::new(BOOKS);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let queries = strings(&[
        "select id, (select group_concat(name) from author where author.id in
            (select author from wrote where wrote.book = book.id)) from book",
        "select id, (select count(*) from author where id in
            (select author from wrote where wrote.book = book.id) and name > 'A2') from book",
        "select id, exists (select 1 from author where id in
            (select author from wrote w where w.book = book.id and w.author > 50)) from book",
        "select b.id, a.name from book b join author a
            on a.id in (select author from wrote where wrote.book = b.id) where b.year = 1911",
        "select b.id, a.name from book b left join author a
            on a.id in (select author from wrote where wrote.book = b.id) where b.year < 1905",
        "select id, (select count(*) from mark where book in
            (select book.id union all select book.id + 1 union select null)) from book",
        "select id, (select sum(mark) from mark where book in
            (select w.book from wrote w where w.author = (select min(author) from wrote
                where wrote.book = book.id))) from book where id < 60",
        "select id from book where id in (select book from wrote where author = book.year - 1900)",
        "select id, (select count(*) from book c where c.year in
            (select year from book d where d.shelf = book.shelf and d.id < 20)
            and c.id in (select book from wrote)) from book where id < 30",
        "select id, (select name from author where id in
            (select author from wrote where wrote.book = book.id) order by id desc limit 1)
            from book",
    ]);
    let plan = nodes(&mut connection, &queries[0]);
    assert!(plan.contains("seek of each value"), "{plan}");
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn outputs_that_run_queries_are_computed_for_rows_given() {
    let scratch = Scratch::new(BOOKS);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let queries = strings(&[
        "select * from shown order by title, id limit 7",
        "select * from shown order by id desc limit 5 offset 3",
        "select authors, id from shown where year > 1930 order by year desc, id limit 9",
        "select * from shown where best > 3 order by id limit 9",
        "select * from shown where authors like '%A1%' and best is not null order by id limit 40",
        "select * from shown where authors like '%A1%' and length(authors) > 4 order by id",
        "select id, best || authors, written from shown where written = 2 and best < 5",
        "select * from shown order by best desc, authors, id limit 9",
        "select title, best from shown order by written desc, id limit 9",
        "select count(*) from shown",
        "select count(*), count(best) from shown where year is not null",
        "select count(*) from ranked",
        "select id, best from ranked order by year, id limit 6",
        "select max(place), count(*) from ranked where best = 3",
        "select shelf, count(*), max(best) from shown group by shelf",
        "select distinct shelf, best from shown order by shelf, best limit 4",
        "select s.id, s.best, a.name from shown s join wrote w on w.book = s.id
            join author a on a.id = w.author order by a.name, s.id limit 8",
        "select (select max(mark) from mark where book = b.id + 1), title || id from book b
            where shelf = 's1' order by title, id limit 5",
        "select id, (select count(*) from book c where c.year = b.year) n from book b
            order by title desc, n, id limit 6",
        "select * from (select id, (select best from shown where shown.id = book.id) x
            from book order by year desc, id limit 4) order by id",
        "select (select y from (select (select count(*) from mark where book = book.id) y, id
            from book) where id = author.id) from author order by name, id limit 5",
        "select id, x from (select id, (select max(mark) from mark where mark.book = book.id) x
            from book union all select id, (select 1 where author.id > 3) from author)
            order by id, x limit 12",
        "select id from (select id, (select max(mark) from mark where mark.book = book.id) x
            from book union select id, null from author) order by id limit 12",
        "select * from shown order by year limit 0",
        "select json_group_array(json(x) order by x) from (select json_array(id,
            (select max(mark) from mark where mark.book = book.id)) x from book where id < 9)",
    ]);
    let plan = nodes(&mut connection, &queries[0]);
    assert!(plan.find("computed output").unwrap() < plan.find("top-N").unwrap(), "{plan}");
    let plan = nodes(&mut connection, "select count(*) from shown");
    assert!(!plan.contains("subquery"), "{plan}");
    let plan = nodes(&mut connection, "select count(*) from ranked");
    assert!(!plan.contains("window"), "{plan}");
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn a_late_output_is_computed_once_for_each_row_given() {
    let scratch = Scratch::new(BOOKS);
    let mut connection = scratch.ours();
    let sql = "explain analyze select * from shown order by title, id limit 7";
    let table = ours(&mut connection, sql).unwrap();
    let runs = table.rows.iter().filter(|row| {
        matches!(&row[2], Value::Text(name)
        if name.trim_ascii() == b"subquery")
    });
    let runs: Vec<&Value> = runs.map(|row| &row[6]).collect();
    assert!(!runs.is_empty() && runs.iter().all(|runs| **runs == Value::Int(7)), "{table:?}");
}

#[test]
fn an_index_begins_an_order() {
    let scratch = Scratch::new(BOOKS);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let mut queries = Vec::new();
    let orders = [
        "year, title, id",
        "year desc, title, id desc",
        "year desc nulls last, title, id",
        "year nulls last, title, id",
        "shelf desc, title, id",
        "shelf, title desc, id",
        "shelf desc, year, title, id",
        "shelf desc, year desc, id",
        "shelf, year collate nocase, title collate nocase, id",
        "year, best, id",
        "id, title",
    ];
    for order in orders {
        for bounds in
            ["limit 1", "limit 10", "limit 25 offset 30", "limit 5 offset 390", "limit -1"]
        {
            queries.push(
                format!("select id, title, year from book order by {order} {bounds}")
                    .replace("best", "(select max(mark) from mark where book = book.id)"),
            );
        }
        let order = order.replace("best", "title").replace("year", "b.year");
        let (first, rest) = order.split_once(", ").unwrap();
        let rest = rest.replace("id", "b.id").replace("title", "b.title");
        let first = first.replace("id", "b.id").replace("shelf", "b.shelf");
        queries.push(format!(
            "select b.id, m.mark, m.rowid from book b join mark m on m.book = b.id
                where b.title > 't1' order by {first}, m.mark, {rest}, m.rowid limit 12"
        ));
        queries.push(format!(
            "select b.id, m.mark from book b left join mark m on m.book = b.id and m.mark > 2
                order by {first}, {rest}, m.mark, m.rowid limit 12"
        ));
    }
    let plan = nodes(&mut connection, &queries[1]);
    assert!(plan.contains("3 keys, 1 in order"), "{plan}");
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn groups_of_an_index_end_with_the_limit() {
    let scratch = Scratch::new(BOOKS);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let queries = strings(&[
        "select year, count(*) from book group by year order by year limit 4",
        "select year, count(*) from book group by year having count(*) > 20 order by year limit 4",
        "select year, sum(id) from book group by year order by year desc limit 3 offset 2",
        "select shelf, year, count(*) from book group by shelf, year order by shelf desc, year
            limit 5",
        "select year, count(*) from book group by year order by count(*), year limit 4",
        "select year, max(title) from book where shelf = 's2' group by year order by year limit 4",
        "select b.year, count(m.mark) from book b left join mark m on m.book = b.id group by b.year
            order by b.year limit 4",
        "select count(*) from (select year from book group by year limit 7)",
        "select k, max(v) from long group by k order by k limit 3",
        "select k, max(v) from long group by k having count(*) > 5 order by k desc limit 3",
    ]);
    check_forced(&mut connection, &peer, &queries);
    let plan = nodes(&mut connection, "select k, max(v) from long group by k order by k limit 3");
    assert!(plan.contains("1 key, in order"), "{plan}");
}
