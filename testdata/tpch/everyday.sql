-- window_rank
select o_custkey, o_orderkey, rank() over(partition by o_custkey order by o_totalprice desc) r from orders order by 1,3,2 limit 20;

-- window_running_sum
select sum(s) from (select sum(o_totalprice) over(partition by o_custkey order by o_orderdate rows between 3 preceding and current row) s from orders);

-- lag
select avg(d) from (select o_totalprice-lag(o_totalprice) over(order by o_orderdate,o_orderkey) d from orders);

-- group_high_card
select l_partkey, count(*), sum(l_quantity) from lineitem group by 1 order by 3 desc limit 10;

-- group_2_keys
select l_suppkey, l_returnflag, count(*) from lineitem group by 1,2 order by 3 desc,1,2 limit 10;

-- distinct_count
select count(distinct l_partkey), count(distinct l_suppkey) from lineitem;

-- order_by_big
select l_orderkey,l_extendedprice from lineitem order by l_extendedprice desc, l_orderkey, l_linenumber limit 5 offset 500000;

-- like
select count(*) from lineitem where l_comment like '%furious%';

-- substr_group
select substr(l_shipdate,1,7) m, sum(l_extendedprice) from lineitem group by m order by m;

-- strftime
select strftime('%Y',o_orderdate) y, count(*) from orders group by y;

-- case
select sum(case when l_returnflag='R' then l_extendedprice else 0 end)/sum(l_extendedprice) from lineitem;

-- in_list
select count(*) from lineitem where l_shipmode in ('AIR','MAIL','SHIP') and l_quantity between 10 and 20;

-- exists
select count(*) from customer c where exists(select 1 from orders o where o.o_custkey=c.c_custkey and o.o_totalprice>300000);

-- not_in
select count(*) from customer where c_custkey not in (select o_custkey from orders);

-- scalar_corr
select count(*) from orders o where o_totalprice > (select avg(o_totalprice) from orders i where i.o_custkey=o.o_custkey);

-- recursive
with recursive t(n,a) as (select 1,0 union all select n+1, a+n%7 from t where n<500000) select max(a) from t;

-- self_join
select count(*) from orders a join orders b on a.o_custkey=b.o_custkey and a.o_orderkey<b.o_orderkey;

-- 3_join_no_idx
select p_brand, count(*) from part join partsupp on p_partkey=ps_partkey join supplier on s_suppkey=ps_suppkey where s_acctbal>5000 group by 1 order by 2 desc limit 5;

-- union
select count(*) from (select l_partkey from lineitem where l_quantity>49 union select ps_partkey from partsupp where ps_availqty<50);

-- left_join_null
select count(*) from customer left join orders on c_custkey=o_custkey where o_orderkey is null;

-- group_concat
select length(group_concat(n_name,', ')) from (select n_name from nation order by 1);

-- json_build
select sum(length(json_object('k',o_orderkey,'p',o_totalprice,'c',o_comment))) from orders;

-- json_extract
select sum(json_extract(j,'$.p')) from (select json_object('k',o_orderkey,'p',o_totalprice) j from orders);

-- upper_replace
select count(*) from orders where upper(replace(o_comment,'e','')) like '%FINL%';

-- printf
select count(distinct printf('%05d-%s',o_custkey,o_orderstatus)) from orders;

-- point_x1
select * from orders where o_orderkey=12345;

-- max_by_idx
select max(o_orderkey), min(o_orderkey), count(*) from orders;

-- orders_per_customer
select c_name, count(o_orderkey) n, sum(o_totalprice) s from customer left join orders on o_custkey = c_custkey group by c_custkey order by s desc, c_custkey limit 10;

-- sales_per_part
select p_name, count(*) n, sum(l_quantity) s from part join lineitem on l_partkey = p_partkey group by p_partkey order by s desc, p_partkey limit 10;

-- supplier_averages
select s_name, n_name, avg(l_quantity) a, count(*) n from supplier join nation on n_nationkey = s_nationkey join lineitem on l_suppkey = s_suppkey where l_shipdate > '1995-01-01' group by s_suppkey having count(*) > 300 order by a, s_name;

-- largest_orders
select o_orderkey, o_orderdate, sum(l_extendedprice) s from orders join lineitem on l_orderkey = o_orderkey group by o_orderkey order by s desc, o_orderkey limit 10;

-- same_day_pairs
select count(*), sum(o.o_totalprice) from customer c join orders o on o.o_custkey = c.c_custkey join orders p on p.o_orderdate = o.o_orderdate join customer d on d.c_custkey = p.o_custkey where c.c_nationkey = 1 and d.c_nationkey = 2;

-- brands_together
select p.p_partkey, q.p_partkey, count(*) n from lineitem a join part p on p.p_partkey = a.l_partkey join lineitem b on b.l_orderkey = a.l_orderkey join part q on q.p_partkey = b.l_partkey where p.p_brand = 'Brand#12' and q.p_brand = 'Brand#23' group by 1, 2 order by n desc, 1, 2 limit 10;

-- first_orders
select o_orderkey, sum(l_quantity), count(*) from orders join lineitem on l_orderkey = o_orderkey group by o_orderkey order by o_orderkey limit 20;

-- first_page
select * from (select o_orderkey as id, c_name as name, o_orderdate as day, o_totalprice as price from orders join customer on c_custkey = o_custkey order by o_totalprice desc, o_orderkey) limit 20 offset 20;

-- totals_of_some
select c_name, n, s from customer left join (select o_custkey, count(*) n, sum(o_totalprice) s from orders group by o_custkey) on o_custkey = c_custkey where c_phone like '13-702%' order by c_custkey;

-- newest_of_both
select * from (select o_orderdate as day, o_orderkey as id, 'ordered' as what from orders union all select l_shipdate, l_orderkey * 10 + l_linenumber, 'shipped' from lineitem) order by day desc, id limit 20;

-- newest_of_each
select o_custkey, o_orderkey, o_totalprice from (select o_custkey, o_orderkey, o_totalprice, row_number() over (partition by o_custkey order by o_orderdate desc, o_orderkey desc) n from orders) where n = 1 limit 20;
