//! JSON functions, compared with SQLite.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, check_all};

#[test]
fn building_and_changing() {
    let scratch = Scratch::new(
        r#"create table d(id integer primary key, j text, k, v); insert into d values (1,'{"a":1,"b":[1,2]}','x',1),(2,'[]','y','[1]'),(3,null,null,2.5),(4,'{a:.5,}','x',x'ff');"#,
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
select json_array(1, 2.5, 'a"b', null, json('[1]'), '[1]', json_array(2)), json_array(), json_object('a', 1, 'b', json_array(1, 2), 'c', '{}'), json_object(), json_quote('a"b'), json_quote(1.5), json_quote(json('[1]')), json_quote(null), json_array(1e999, -1e999);
select json_object('a'), 1; select json_object(1, 2); select json_object(null, 2); select json_array(x'00'); select json_quote(x'ff'); select json_set('{}', '$.a'); select json_set('{}', 'a', 1); select json_set('{}', '$.a[', 1); select json('{'); select json_insert('[1'); select json_remove('{}', 'x'); select json_patch('{', '{}'); select json_set();
select json_set('{"a":1}', '$.a', 2, '$.b', 3), json_set('{"a":1}', '$.b.c.d', json('[1]')), json_set('[1,2]', '$[1]', 9, '$[2]', 3, '$[5]', 4), json_set('[1]', '$[#]', 2), json_set('[1,2]', '$[#-1]', 'x'), json_set('{}', '$.a[0]', 1), json_set('{}', '$.a[1]', 1), json_set('5', '$', 6), json_set('{"a":{"b":1}}', '$.a.b', null), json_set('[]', '$.a', 1), json_set('{}', '$[0]', 1), json_set('{"a b":1}', '$."a b"', 2), json_set(null, '$.a', 1), json_set('{}', null, 1);
select json_insert('{"a":1}', '$.a', 2, '$.b', 3), json_insert('[1,2]', '$[0]', 9, '$[2]', 3, '$[#]', 4), json_replace('{"a":1}', '$.a', 2, '$.b', 3), json_replace('[1,2]', '$[0]', 'z'), json_replace('{"a":[1,2,3]}', '$.a[1]', json('{"x":1}')), json_replace('1', '$', 2), json_insert('1', '$', 2);
select json_remove('{"a":1,"b":2}', '$.a'), json_remove('[1,2,3]', '$[0]', '$[0]'), json_remove('[1,2,3]', '$[#-1]'), json_remove('{"a":1}', '$'), json_remove('{"a":1}', '$.z'), json_remove('{"a":{"b":1,"c":2}}', '$.a.b'), json_remove('[1]'), json_remove(null, '$.a'), json_remove('[1]', null);
select json_patch('{"a":1,"b":{"c":2}}', '{"b":{"c":null,"d":3},"e":4}'), json_patch('[1]', '{"a":1}'), json_patch('{"a":1}', '[2]'), json_patch('{"a":1}', '{"a":{"b":null,"c":1}}'), json_patch('{}', null), json_patch(null, '{}'), json_patch('{"a":"x"}', '{"a":null}');
select json_array_insert('[1,2]', '$[0]', 9), json_array_insert('[1,2]', '$[1]', json('[5]')), json_array_insert('[1,2]', '$[2]', 3), json_array_insert('{"a":[1]}', '$.a[0]', 0);
select id, json_array(j), json_object('k', k, 'j', json(j)) from d where id < 4 and k is not null order by id; select json_group_array(v), json_group_array(json(j)) from d where id < 4; select json_group_object(k, v) from d where id < 3; select json_group_array(k) filter (where id < 2), json_group_array(distinct k) from d where k is not null; select json_group_array(1) from d where 0; select json_group_object('a', 1) from d where 0; select json_group_object(k, v) from d where id < 4; select json_group_array(v) from d;
select json_object('all', json_group_array(json_object('id', id, 'k', k))) from d; select json_array((select json_group_array(id) from d), (select json_array(1)), coalesce(json_array(1), 2), case when 1 then json('{}') end, iif(1, json('[]'), 0)); select json_object('x', json_extract('{"a":[1],"b":"[2]"}', '$.a'), 'y', json_extract('{"a":[1],"b":"[2]"}', '$.b'), 'z', '{"a":[1]}' -> 'a', 'w', '{"a":[1]}' ->> 'a');
select json_array(json_extract('{"a":"x","b":1.50}', '$.a'), json_extract('{"a":"x"}', '$.z'), json_extract('{"a":"x","b":1.50}', '$.b'), json_extract('{"a":1}', '$.a', '$.b')); select json_group_array(v) over (order by id rows 1 preceding) from d where id < 4;
select json_pretty('{"a":[1,{"b":[]},{}],"c":"x"}'), json_pretty('[1,[2]]', '  '), json_pretty('5'), json_pretty('[]'), json_pretty(null); select json_error_position('[1,2'), json_error_position('[1,2]'), json_error_position('{"a":x}'), json_error_position(null), json_error_position('[1,+]');
select json('{a:1, ''b'': +2, /*c*/ c: .5, d: 5., e: 0x1F, f: Infinity, g: NaN, }'), json('[1,2,]'), json('"a\u0041\n"'), json('''it\''s'''), json('  [ 1 , 2 ]  '), json('{"a":1}'), json('-0'), json('-0.0'), json('1e5'), json('[ 1E+2 ]');
select json_valid('{a:1}'), json_valid('{a:1}', 2), json_valid('{"a":1}', 1), json_valid('{"a":1}', 4), json_valid(jsonb('{"a":1}'), 4), json_valid(jsonb('{"a":1}'), 8), json_valid(x'00', 8), json_valid(null), json_valid('x', 2), json_valid(5); select json_valid('[1]', null); select json_valid('1', 0); select json_valid('1', 16);
select hex(jsonb('{"a":[1,2.5,"x\n",null,true,false]}')), hex(jsonb_array(1, 'x')), hex(jsonb_object('a', 1)), json(jsonb('[1,{"b":2}]')), json_extract(jsonb('{"a":5}'), '$.a'), hex(jsonb_extract('{"a":[1]}', '$.a')), jsonb_extract('{"a":5}', '$.a'), hex(jsonb_remove('[1,2]', '$[0]')), hex(jsonb_patch('{}', '{"a":1}')), typeof(jsonb('1')), hex(jsonb_group_array(id)) from d; select json(jsonb_group_object(k, v)) from d where id < 3;
select json_type('{a:[1]}', '$.a'), json_extract('{a:''x''}', '$.a'), '{a:{b:1}}' -> 'a', '{a:0x10}' ->> 'a', '[1,2,]' ->> 1, json_array_length('[1,2,3,]'), json_type(jsonb('[1]')), json_extract(x'5b315d', '$[0]'); select json_extract('[1,"2"]', '$'), json_extract(null, '$'), json_extract('[1]'), json_extract('[1]', '$', '$[0]'); select j -> 'a' from d where id = 4; select json_array(j -> 'b') from d where id = 1;
select subtype(json('{}')), subtype(jsonb('{}')), subtype('{}'), subtype(1), subtype(null), subtype(json(null)), subtype(json_extract('{"a":[1]}', '$.a')), subtype(json_extract('{"a":1}', '$.a')), subtype(json_extract('{"a":"[1]"}', '$.a')), subtype(json_extract('{"a":1}', '$.a', '$.b')); select subtype('{"a":[7]}' -> 'a'), subtype('{"a":7}' -> 'a'), subtype('{"a":[7]}' ->> 'a'), subtype(json_quote('x')), subtype(json_quote(null)), subtype(json_patch('{}', 'null')), subtype(json_type('{}')), subtype(json_pretty('{}')), subtype(json_set('{}', '$.a', 1)), subtype(jsonb_set('{}', '$.a', 1));
select subtype(j), subtype(json(j)), subtype(json_array(j)) from d; select subtype(json_group_array(id)), subtype(json_group_object(id, k)), subtype(max(json(j))) is not null from d; select subtype(); select subtype(1, 2); select subtype(x) from (select json('[1]') as x);
"#,
    );
}
