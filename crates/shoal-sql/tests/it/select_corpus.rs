//! Queries over real tables and over small awkward ones, as SQLite answers them.

use crate::common::{self, Scratch, check_all};

/// Both sides open on a copy of the same corpus file.
fn over(name: &str, queries: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    std::fs::copy(shoal_testkit::testdata(name), &path).unwrap();
    let peer = rusqlite::Connection::open(&path).unwrap();
    check_all(&mut common::open(&path), &peer, queries);
}

#[test]
fn chinook() {
    over(
        "sqlite/chinook.sqlite",
        r#"
select * from Artist limit 5;
select count(*) from Track;
select count(*), min(Milliseconds), max(Milliseconds), sum(Bytes), avg(UnitPrice), total(UnitPrice) from Track;
select Name from Track where TrackId = 100;
select Name from Track where TrackId = '100';
select Name from Track where TrackId = 100.0;
select Name from Track where TrackId = 100.5;
select Name from Track where TrackId = 'abc';
select Name from Track where TrackId = null;
select TrackId from Track where TrackId between 10 and 20;
select TrackId from Track where TrackId > 3490 and TrackId <= 3500.5;
select TrackId from Track where TrackId > 3490 order by TrackId desc;
select TrackId from Track order by TrackId desc limit 5;
select TrackId from Track order by TrackId desc limit 5 offset 3;
select TrackId, Name from Track order by Name, TrackId limit 20;
select TrackId, Name from Track order by Name collate nocase desc, TrackId limit 20;
select AlbumId, count(*) from Track group by AlbumId having count(*) > 20 order by 2 desc, 1;
select a.Name, count(*) as n from Artist a join Album b on a.ArtistId = b.ArtistId group by a.ArtistId order by n desc, a.Name limit 10;
select a.Title, t.Name from Album a join Track t using (AlbumId) where a.AlbumId = 5 order by t.TrackId;
select a.Title, t.Name from Album a natural join Track t where a.AlbumId = 5 order by t.TrackId;
select g.Name, sum(t.Milliseconds) / 60000 from Genre g left join Track t on t.GenreId = g.GenreId group by g.GenreId order by 1;
select c.FirstName || ' ' || c.LastName as name, e.LastName from Customer c join Employee e on c.SupportRepId = e.EmployeeId where c.Country = 'USA' order by name;
select e.LastName, m.LastName as boss from Employee e left join Employee m on e.ReportsTo = m.EmployeeId order by e.EmployeeId;
select Country, count(*) from Customer group by Country order by count(*) desc, Country;
select distinct Country from Customer order by Country;
select distinct BillingCountry, BillingCity from Invoice order by 1, 2;
select count(distinct BillingCountry) from Invoice;
select InvoiceId, Total from Invoice where Total > (select avg(Total) from Invoice) order by Total desc, InvoiceId limit 10;
select Name from Artist where ArtistId in (select ArtistId from Album group by ArtistId having count(*) > 5) order by Name;
select Name from Artist where ArtistId not in (select ArtistId from Album) order by Name limit 10;
select Name from Artist where exists (select 1 from Album where Album.ArtistId = Artist.ArtistId and Title like '%live%') order by Name;
select Name, (select count(*) from Album where Album.ArtistId = Artist.ArtistId) from Artist order by 2 desc, 1 limit 10;
select x.Country, x.n from (select Country, count(*) n from Customer group by Country) x where x.n > 3 order by x.n;
select * from (select AlbumId, count(*) as c from Track group by AlbumId) join Album using (AlbumId) order by c desc, AlbumId limit 5;
select Country from Customer union select BillingCountry from Invoice order by 1;
select Country from Customer union all select BillingCountry from Invoice order by Country limit 7;
select City from Customer except select BillingCity from Invoice;
select City from Customer intersect select BillingCity from Invoice order by City desc;
select substr(InvoiceDate, 1, 4) as year, round(sum(Total), 2) from Invoice group by year order by year;
select case when Milliseconds < 200000 then 'short' when Milliseconds < 400000 then 'medium' else 'long' end as len, count(*) from Track group by len order by len;
select Composer is null, count(*) from Track group by 1;
select upper(Name), length(Name), instr(Name, 'a') from Genre order by GenreId;
select group_concat(Name, '; ') from (select Name from Genre order by Name);
select Name from MediaType where Name like '%audio%' order by MediaTypeId;
select Name from MediaType where Name glob '*audio*' order by MediaTypeId;
select t.TrackId from Track t, PlaylistTrack p where t.TrackId = p.TrackId and p.PlaylistId = 18;
select p.Name, count(pt.TrackId) from Playlist p left join PlaylistTrack pt on p.PlaylistId = pt.PlaylistId group by p.PlaylistId order by p.PlaylistId;
select i.InvoiceId, sum(il.UnitPrice * il.Quantity) s, i.Total from Invoice i join InvoiceLine il on i.InvoiceId = il.InvoiceId group by i.InvoiceId having abs(s - i.Total) > 0.001;
select max(Milliseconds), Name from Track;
select min(Milliseconds), Name, TrackId from Track group by MediaTypeId order by MediaTypeId;
select AlbumId, Name, max(Bytes) from Track group by AlbumId order by AlbumId limit 10;
select typeof(UnitPrice), typeof(Name), typeof(Composer), typeof(TrackId) from Track where TrackId in (1, 2, 63);
select Title from Album where Title > 'T' and Title < 'U' order by Title;
select * from Employee where HireDate between '2002-01-01' and '2003-12-31' order by EmployeeId;
select count(*) from Track where Composer is not null and Composer <> '';
select count(*) from Track where not (UnitPrice > 1);
select count(*) filter (where UnitPrice > 1), count(*) from Track;
select a.ArtistId, b.ArtistId from Artist a cross join Artist b where a.ArtistId < 4 and b.ArtistId < 3 order by 1, 2;
select name, tbl_name from sqlite_schema where type = 'index' order by name;
select count(*) from sqlite_master;
select rowid, * from Genre where rowid < 4;
select Genre.rowid, Genre.oid, Genre._rowid_ from Genre limit 2;
with big as (select * from Invoice where Total > 15) select count(*), max(Total) from big;
with a as (select AlbumId, count(*) n from Track group by 1), b(id, k) as (select * from a where n > 25) select Title, k from b join Album on Album.AlbumId = b.id order by 2, 1;
select t1.Name from Track t1 join Track t2 on t1.AlbumId = t2.AlbumId and t1.Milliseconds < t2.Milliseconds where t2.TrackId = 14 order by 1;
select c.CustomerId, i.InvoiceId from Customer c left join Invoice i on c.CustomerId = i.CustomerId and i.Total > 20 where c.CustomerId < 30 order by 1, 2;
select c.CustomerId from Customer c left join Invoice i on c.CustomerId = i.CustomerId and i.Total > 20 where i.InvoiceId is null order by 1 limit 5;
select count(*) from Customer c left join (Invoice i join InvoiceLine l on i.InvoiceId = l.InvoiceId and l.TrackId > 3000) on c.CustomerId = i.CustomerId;
select a.Title from Album a where (select count(*) from Track t where t.AlbumId = a.AlbumId) = (select max(n) from (select count(*) n from Track group by AlbumId));
select BillingCountry, count(*) c, sum(Total) from Invoice group by BillingCountry order by sum(Total) desc limit 3;
select * from Track where TrackId = 1 or TrackId = 3 or Name = 'Restless and Wild';
values (1, 'a'), (2, 'b');
select * from (values (1, 'a'), (2, 'b')) order by 1 desc;
select column2 from (values (1, 'a'), (2, 'b'));
"#,
    );
}

const AWKWARD: &str = r#"
create table t(a integer primary key, b text, c real, d blob, e numeric, f);
insert into t values (1, 'one', 1.5, x'01', 10, null), (2, 'Two', 2, x'', '20', 'x'), (3, null, null, null, null, 1),
  (4, 'two  ', -3.25, 'text', 'abc', 2.0), (5, '5', 5, 5, 5.0, '5'), (-7, '', 1e300, x'00ff', 9223372036854775807, x'35');
create table n(k text collate nocase primary key, v int unique, w text collate rtrim) without rowid;
insert into n values ('a', 1, 'x'), ('B', 2, 'x  '), ('c', null, 'y'), ('D', 4, null);
create table p(x int, y int, z text, primary key (y desc, x)) without rowid;
insert into p values (1, 1, 'a'), (2, 1, 'b'), (1, 2, 'c'), (3, 0, 'd');
create table g(id integer primary key, a int, b int generated always as (a * 2) virtual, c text generated always as (a || '!') stored, d as (b + 1));
insert into g(id, a) values (1, 10), (2, null), (3, -4);
create index gi on g(b);
create table s(i int, r real, t text, b blob, x any) strict;
insert into s values (1, 2, 'three', x'04', 'five'), (null, 2.5, null, null, 5);
create table u(a, b, c, unique (a, b), unique (c collate nocase));
insert into u values (1, 2, 'X'), (1, 3, 'y'), (null, null, null), (null, 1, 'Z'), ('1', 2.0, 'w');
create index t_b on t(b collate nocase, e);
create index t_c on t(c desc);
create index t_e on t(e) where e > 5;
create index t_x on t(length(b));
create view v1 as select a, b as bee, c * 2 from t where a > 0;
create view v2(p, q) as select bee, a from v1;
create table old(a);
insert into old values (1), (2);
alter table old add column b default 'dflt';
alter table old add column c real default 7;
alter table old add column d integer default -3;
alter table old add column e text default 12;
alter table old add column f default true;
insert into old(a) values (3);
create table "odd ""name"" [x]"("co l" int, [br] text, `tick` blob, 'str' int);
insert into "odd ""name"" [x]" values (1, 'b', x'aa', 4);
create table idk(i integer primary key desc, x);
insert into idk values (5, 'a'), ('6', 'b'), (null, 'c');
create table e(a, b);
create table dup(a, a2, b);
insert into dup values (1, 1, 'x'), (1.0, 1, 'x'), ('1', 1, 'x'), (x'31', 1, 'x'), (null, 1, 'x'), (null, 2, 'X');
"#;

#[test]
fn awkward_tables() {
    let scratch = Scratch::new(AWKWARD);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
select * from t; select * from n; select * from p; select * from g; select * from s; select * from u;
select * from v1; select * from v2; select * from old; select * from idk; select * from e;
select * from "odd ""name"" [x]"; select "co l", br, tick, str from [odd "name" [x]];
select "co l" + 1, "nothing", 'lit' from `odd "name" [x]`;
select typeof(a), typeof(b), typeof(c), typeof(d), typeof(e), typeof(f) from t order by a;
select typeof(a), typeof(b), typeof(c), typeof(d), typeof(e), typeof(f) from old order by a;
select a from t where b = 'two'; select a from t where b = 'two' collate nocase;
select a from t where b collate nocase = 'TWO'; select a from t where b = 'two' collate rtrim;
select a from t where c > 1 order by c; select a from t where c >= 1.5 and c < 5 order by a;
select a from t where c < 2; select a from t where c is null; select a from t where c is not null;
select a from t where c = '2'; select a from t where c = '2.0'; select a from t where c = 'x';
select a from t where e > 5; select a from t where e = '10'; select a from t where e = 'abc'; select a from t where e > 'a';
select a from t where f = 1; select a from t where f = '5'; select a from t where f = 5; select a from t where f = x'35';
select a from t where b = 5; select a from t where b > 4 order by a; select a from t where b in (5, 'one');
select a from t where a in ('1', 2.0, null, x'33'); select a from t where f in (1, 2, '5'); select a from t where f not in (1, 2);
select a from t where f not in (1, null); select a from t where e in (5, '10', 'abc', 1, 2, 3, 4, 6, 7, 8, 9);
select a from t where b in ('ONE', 'two', '5', '', 'a', 'b', 'c', 'd', 'e', 'f');
select a in (select v from n), a not in (select v from n) from t; select k from n where k = 'A'; select k from n where 'b' = k;
select k from n where k > 'a' order by k; select k from n order by k desc; select v from n where v = 2; select k from n where v is null;
select w from n where w = 'x'; select distinct w from n; select w, count(*) from n group by w order by w; select k from n where k in ('A', 'd', 'q');
select max(k), min(k) from n; select k, w from n where k between 'A' and 'b';
select * from p order by y desc, x; select * from p where y = 1; select * from p where y = 1 and x > 1; select * from p where y < 2;
select * from p where y > 0 and y <= 2; select z from p where x = 1; select * from p order by y, x desc;
select id, b, c, d from g where b = 20; select id from g where b > 0; select id, d from g order by d; select b + d from g; select c from g where c like '%!';
select * from s where i = 1; select typeof(i), typeof(r), typeof(t), typeof(b), typeof(x) from s;
select * from u where a = 1 and b = 2; select * from u where a = 1; select * from u where a is null; select * from u where a is null and b = 1;
select * from u where c = 'x'; select * from u where c = 'x' collate nocase; select * from u where a = '1'; select * from u where a = 1.0 and b > 2;
select bee from v1 where a = 2; select q, p from v2 where q < 3; select count(*) from v2; select v1.bee, t.b from v1 join t on v1.a = t.a order by 1;
select * from v1 a join v2 b on a.a = b.q order by 1; select v2.* from v2 order by q;
select b, count(*) from dup group by b; select a, count(*) from dup group by a; select distinct a from dup; select distinct a, a2 from dup;
select count(distinct a), count(a), sum(distinct a2) from dup; select b, count(*) from dup group by b collate nocase;
select a from dup union select a2 from dup; select a from dup except select 1; select a from dup intersect select '1';
select b from dup union select upper(b) from dup order by 1; select b from dup union all select 1 order by 1 desc;
select count(*) from e; select sum(a), total(a), avg(a), min(a), max(a), group_concat(a) from e; select a, count(*) from e group by a;
select count(*), a from e; select max(a), b from e; select sum(a) from e having sum(a) is null; select 1 from e; select count(*) from e group by 1;
select a, b from t group by b; select b, max(a), c from t group by b is null order by 1; select min(c), a from t; select max(c), a, b from t; select max(a), min(a), b from t;
select a, sum(c) over_ from t group by a; select a as x, x from t; select a as b from t order by b; select -a as a from t order by a; select -a as z from t order by -z;
select a from t order by b nulls last, a; select a from t order by b desc nulls first, a; select a, b from t order by 2, 1; select a from t order by c desc, a limit 2 offset 1;
select a from t order by typeof(f), f; select a from t order by f; select b from t order by b collate nocase, a; select b from t order by b collate rtrim desc, a;
select a from t order by a limit 3; select a from t order by a limit -1 offset 4; select a from t order by a limit 2, 3; select a from t order by a limit '2'; select a from t order by a limit 1 + 1 offset (select 1); select a from t limit 0;
select a from t limit 'x'; select a from t limit null; select a from t limit 1.5; select a from t order by a limit 2.0;
select a from t where a > 2 and b is not null or c < 0 and not d is null; select not null, not 1, not 0.0, not 'a', not '1';
select a is 1, a is not 1, f is null, f is 'x', f is distinct from 'x', f is not distinct from 'x' from t;
select a is true, a is not true, f is false, f is not false, true, false, true + 1 from t; select null is null, null = null, null <> 1, null and 0, null or 1, null and 1, null or 0;
select a between 1 and 3, a not between 1 and 3, null between 1 and 2, 2 between null and 1, '5' between 4 and 6 from t;
select case a when 1 then 'one' when 2 then 'two' end, case when a > 3 then 'big' else b end, case f when '5' then 1 when 5 then 2 else 3 end from t;
select cast(b as int), cast(c as text), cast(d as text), cast(e as real), cast(f as blob), cast(a as numeric), cast('12abc' as integer), cast('1e3' as int), cast(9e18 as int), cast(1e20 as int), cast(x'3132' as int), cast('' as real), cast(1.0 as text), cast(-0.0 as text) from t;
select 1 + 1, 1 + '1', 1 + 'a', '1.5' + 1, 1 / 2, 1 / 2.0, 1 / 0, 1 % 0, -7 / 2, -7 % 3, 7 % -3, 5.5 % 2, '7' % '4', 9223372036854775807 + 1, -9223372036854775808 - 1, 9223372036854775807 * 2, -9223372036854775808 / -1, -9223372036854775808 % -1;
select -9223372036854775808, -(-9223372036854775808), 9223372036854775808, 0x7fffffffffffffff, 0xffffffffffffffff, -0x1, 1_000, 1e3, .5, 5., 1.5e-3;
select 5 & 3, 5 | 3, ~5, 1 << 3, 1 << 64, -1 >> 1, -1 >> 64, 1 << -1, 8 >> 3, '5' & 6, 5.9 & 7, null & 1, -1 << 63, 1 << 63;
select 'a' || 'b', 1 || 2, null || 'x', 1.0 || 'x', x'61' || 'b', typeof(x'61' || x'62'), 'a' || 1 + 2;
select 'abc' like 'A%', 'abc' like 'a_c', 'a%c' like 'a\%c' escape '\', 'abc' glob 'a*', 'abc' glob 'A*', 'abc' not like 'x%', null like 'a', 'a' like null, 5 like '5', 'ä' like 'Ä';
select 'a' = 'A', 'a' = 'A' collate nocase, 'a ' = 'a' collate rtrim, 'a' < 'B', 'a' < 'B' collate nocase, 1 = '1', 1 = 1.0, '1' = '1.0', x'61' = 'a', 1 < 'a', 'a' < x'00', null < 1;
select (select a from t where b = 'one'), (select a from t where 0), (select count(*) from t), exists (select 1 from t where a = 2), exists (select 1 from e), not exists (select 1 from e);
select a, (select b from t t2 where t2.a = t.a + 1) from t order by a; select a from t where (select count(*) from u where u.a = t.a) > 0; select a from t where a = (select max(a) from t);
select (select group_concat(k) from (select k from n where v <= t.a order by k)) from t order by a;
select t.a, n.k from t left join n on t.a = n.v order by t.a; select t.a, n.k from t join n on t.a = n.v; select t.a, n.k from t left join n on t.a = n.v where n.k is null;
select t.a, n.k from t left join n on t.a = n.v and n.k > 'a' order by 1; select t.a, u.b from t left join u on t.a = u.a and u.b = 3 order by 1, 2; select * from t cross join e; select t.a from t left join e on 1;
select x.a, y.a from t x, t y where x.a = y.a + 1 order by 1; select x.a, y.a from t x join t y on x.b = y.b collate nocase and x.a <> y.a; select x.a, y.f from t x join t y on x.f = y.e;
select x.a, y.a from t x join t y on x.c < y.c where x.a > 3 order by 1, 2; select * from n natural join u; select * from t natural join old; select a, t.a, old.a from t join old using (a);
select * from t left join old using (a) order by a; select a from t left join (select a as z, b from old) o on o.z = t.a where o.b = 'dflt' order by 1;
select * from (select a, b from t) x join (select a as a2, c from t) y on x.a = y.a2 order by 1; select * from (select 1 as a, 2 as a); select a from (select 1 as a) where a = 1;
select * from (t join n on t.a = n.v) join u on u.b = n.v; select t.a from (t left join n on t.a = n.v); select count(*) from t left join (n join u on n.v = u.b) on t.a = n.v;
select * from t a left join n b on a.a = b.v left join u c on c.b = b.v order by a.a, c.c; select sum(t.a) from t, n, p where t.a = n.v and p.x = n.v;
select typeof(sum(a)), typeof(sum(c)), typeof(sum(b)), typeof(avg(a)), typeof(total(a)), typeof(count(*)) from t; select sum(e) from t; select group_concat(b), group_concat(b, '-') from (select b from t order by a); select group_concat(distinct b) from dup;
select count(*), count(b), count(distinct b), max(b), min(b) from t; select max(d), min(d), max(e), min(e), max(f), min(f) from t; select avg(distinct a2) from dup; select sum(a) filter (where a > 2) from t;
select min(1, 2), max('a', 'B'), max(1, null), min('a', 'B' collate nocase), max(k, 'C') from n; select coalesce(b, c, 'x'), ifnull(b, 'n'), nullif(a, 1), iif(a > 2, 'y', 'n') from t;
select abs(c), round(c, 1), length(b), upper(b), lower(b), substr(b, 2), trim(b), hex(d), quote(b), quote(c), quote(d), typeof(f), instr(b, 'o'), replace(b, 'o', '0'), char(65), unicode(b) from t;
select 1 as "a b", 2 as [c], 3 as 'd', 4 e; select 1, 'x', 1+1, ( 1 + 2 ), a+b, a || 'x' , count(*) from t where a = 1; select (a), +a, a collate nocase, t.a, "a", [a] from t; select t.* , 1 from t; select rowid, oid from t; select t.rowid from t;
select count(*) from t where 1; select a from t where 0; select a from t where null; select a from t where 'x'; select 1 where 1; select 1 where 0; select 5 limit 1; select 1 union select 2 union select 1 order by 1 desc;
select 1 union all select 2 except select 1; select 1 union select 2 intersect select 2; select count(*) from (select 'a' union select 'A' collate nocase); select a from t union select a from old order by a limit 3; select * from (select a, b from t where a < 3 union all values (9, 'nine')) order by 1;
select a x from t where a < 3 union select a from old order by x; select * from t where a = 1 union select * from t where a = 2; select count(*) from (select a from t union all select a from old);
select sum(x) from (select a as x from t union all select 5 order by x limit 3); select * from (select a from t order by a desc limit 2) order by a; select a from (select a from t where a > 1 limit 2) where a > 2;
select group_concat(a) from (select a from t order by a); select distinct typeof(a) from t; select distinct a > 2, b is null from t; select distinct b collate nocase from t; select distinct a from t order by a desc limit 2;
select b, count(*) from t group by b collate nocase order by 2 desc, 1; select count(*), b from t group by 2 order by 2; select a % 2 as m, sum(a) from t group by m order by m; select a % 2 m, a > 2 n, count(*) from t group by m, n order by m, n;
select a % 2, count(*) from t group by 1 having count(*) > 2; select max(a) from t group by a % 2 having max(a) > 4; select a % 2 m from t group by m having m = 1; select sum(a) s from t group by a % 2 order by s; select count(*) from t having count(*) > 3;
select a, b from t where b > 'a' and b < 'z' order by b; select a from t where length(b) = 3; select a from t where b like 'tw%'; select a from t where e between 5 and 20; select a from t where a > 1 and a > 2 and a < 5 and a <> 4;
select a from t where a = 1 and a = 2; select a from t where a > 9223372036854775807; select a from t where a >= -9223372036854775808 and a < 0; select a from t where a > 1e300; select a from t where a < 1e300; select a from t where a > 'x'; select a from t where a < 'x'; select a from t where a < x'00' and a > -1e400;
select idk.i, rowid from idk order by rowid; select i from idk where i = 5; select x from idk where i is null; select * from old where b = 'dflt' and c = 7; select e, typeof(e) from old where e = '12'; select d + 1 from old where d < 0;
select current_date like '____-__-__', current_time like '__:__:__', current_timestamp like '____-__-__ __:__:__';
with x as (select 1 a), y as (select a + 1 b from x) select * from x, y; with x(q) as (values (1), (2)) select sum(q) from x; with t as (select 99 as a) select a from t; select * from (with z as (select 3 c) select c from z);
select a from t indexed by t_c where c > 1; select a from t not indexed where b = 'one'; select main.t.a, main.t.b from main.t where main.t.a = 1; select * from main.e;
select a + (select count(*) from t) from t where a < (select 3) order by a; select (select (select (select max(a) from t))); select a from t where a in (select a from old where old.a in (select v from n)); select exists(select 1 from t where t.a = u.a) from u;
select a from t group by a having a > (select min(a) from old) order by a; select count(*) from t where exists (select 1 from n where n.v = t.a and exists (select 1 from p where p.x = n.v));
select a as q, (select q) from t where q = 1; select sum(a) as s, (select max(v) from n) from t; select a, (select sum(v) from n where v < t.a) from t group by a order by a; select b, (select count(*) from n where n.v = max(t.a)) from t group by b;
select json_extract('{"a":[1,2]}', '$.a[1]'), '{"a":5}' -> 'a', '{"a":"x"}' ->> 'a'; select printf('%05d|%s', 42, 'x'), date('2024-02-29', '+1 year'), strftime('%Y', '2020-01-01');
"#,
    );
}

#[test]
fn errors_agree() {
    let scratch = Scratch::new(AWKWARD);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
select nothing from t; select t.nothing from t; select x.a from t; select * from nothing; select nothing(1); select abs(); select abs(1, 2); select count(1, 2);
select a from t, old; select sum(sum(a)) from t; select a from t where sum(a) > 1; select a from t group by sum(a); select a from t having a > 1; select a from t order by 9; select a from t order by 0; select a from t group by 9;
select 1 union select 1, 2; select (select 1, 2); select a from t where a in (select a, b from t); select * from t natural join t using (a); select * from t join old using (zzz); select *; select x.* from t;
selec 1; select 1 from; select from t; select 1 2 3; select 'abc; select "abc; select [abc; select 1 +; select (1; select 1); select * form t; select 12abc; select 0x; select x'1'; select x'zz'; select @; select ?0; select ?99999; select 1 limit; select a b c from t;
values (1), (2, 3); select a from t limit a; select abs(-9223372036854775808); select 'x' like 'y' escape 'zz'; select 0x10000000000000000; select 1 collate nosuch; select a from t indexed by nosuch; select distinct count(distinct a, b) from t; select count(distinct) from t;
select max(distinct a, b) from t; select abs(distinct a) from t; select abs(a) filter (where 1) from t; select upper(*) from t; select sum(*) from t; select * from t where rowid2 = 1; select nosuch.t.a from t; select * from nosuch.t; select 1 from t where a = b.c;
select raise(abort, 'x'); select a from t union select b from t order by nosuch; select rowid from n; select rowid from v1; select a from t join u using (a, b) where c = 1; select sum(9223372036854775807) from t where a < 0; select sum(a) from (select 9223372036854775807 a union all select 1);
"#,
    );
}
