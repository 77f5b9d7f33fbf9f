//! JSON functions, compared with SQLite.

use crate::common::{Scratch, check_all};

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

/// Choices from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// A text of JSON5, most of the time well formed, with every spelling outside of JSON.
fn json5(dice: &mut Dice, depth: usize) -> String {
    const NUMBERS: &[&str] = &[
        "0",
        "-0",
        "12",
        "9223372036854775808",
        "-9223372036854775809",
        "1.50",
        "-1.25e-3",
        "1E+5",
        ".5",
        "-.5",
        "5.",
        "+5",
        "+.5",
        "5.e3",
        "0x1F",
        "-0x1f",
        "+0X10",
        "0xffffffffffffffff",
        "0x1ffffffffffffffff",
        "Infinity",
        "-inf",
        "+INF",
        "NaN",
        "qnan",
        "01",
        "-",
        ".",
        "1.2.3",
        "1e",
        "true",
        "false",
        "null",
        "nul",
        "True",
    ];
    const PIECES: &[&str] = &[
        "a",
        "b",
        " ",
        "é",
        "😀",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0041",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\u0000",
        "\\x41",
        "\\xe9",
        "\\'",
        "\\v",
        "\\0",
        "\\\n",
        "\\\r\n",
        "\\\u{2028}",
        "\\01",
        "\\q",
        "\t",
        "\u{1}",
        "\"",
        "'",
    ];
    const LABELS: &[&str] = &[
        "\"a\"",
        "\"a\"",
        "'b'",
        "b",
        "c",
        "$",
        "_x",
        "é",
        "a\\u0041",
        "'\\x61'",
        "\"\\u0061\"",
        "\"a b\"",
        "\"a\\\nb\"",
        "\"\"",
        "1",
        "true",
        "a-b",
    ];
    const SPACES: &[&str] = &["", "", "", "", " ", "\n", "\u{b}", "/*c*/", "//x\n", "\u{a0}", "/*"];
    let space = |dice: &mut Dice| dice.pick(SPACES).to_owned();
    let kind = if depth == 0 { 2 + dice.below(3) } else { dice.below(5) };
    let text = match kind {
        0 | 1 => {
            let mut text = if kind == 0 { "[" } else { "{" }.to_owned();
            for _ in 0..dice.below(4) {
                if kind == 1 {
                    text += &(space(dice) + dice.pick(LABELS) + &space(dice) + ":");
                }
                text += &json5(dice, depth - 1);
                text += if dice.below(40) == 0 { "" } else { "," };
            }
            if dice.below(3) > 0 && text.ends_with(',') {
                text.pop();
            }
            text + if kind == 0 { "]" } else { "}" }
        }
        2 | 3 => {
            let quote = dice.pick(&["\"", "\"", "'"]);
            let pieces = if dice.below(12) == 0 { 90 } else { 4 };
            let inner: String = (0..dice.below(pieces)).map(|_| dice.pick(PIECES)).collect();
            format!("{quote}{inner}{quote}")
        }
        _ => dice.pick(NUMBERS).to_owned(),
    };
    space(dice) + &text + &space(dice)
}

/// `jsonb()` keeps the spellings of JSON5 as written, in elements of kinds of their own, and
/// changes of JSONB leave the other elements alone: byte for byte as in SQLite.
#[test]
fn jsonb_has_the_bytes_of_sqlite() {
    const PATHS: &[&str] = &[
        "$",
        "$.a",
        "$.b",
        "$.c",
        "$[0]",
        "$[#-1]",
        "$[#]",
        "$.a.b",
        "$.b[0]",
        "$.\"\\u0061\"",
        "$.\"\\x62\".c",
        "$.\"d\\te\"",
        "$.\"a b\"[1]",
        "$[",
        "$.a[1].c.d",
    ];
    const VALUES: &[&str] = &[
        "1",
        "null",
        "2.5",
        "1e999",
        "'a\"b'",
        "'a text of some more bytes'",
        "json('[1]')",
        "jsonb('{a:\"\\x41\"}')",
        "x'00'",
        "x'ff'",
    ];
    let scratch = Scratch::new("create table t(a);");
    let (mut ours, theirs) = (scratch.ours(), scratch.theirs());
    let mut dice = Dice(1);
    for _ in 0..400 {
        let literal = |text: String| format!("'{}'", text.replace('\'', "''"));
        let (a, b) = (literal(json5(&mut dice, 3)), literal(json5(&mut dice, 2)));
        let (p, q) = (literal(dice.pick(PATHS).into()), literal(dice.pick(PATHS).into()));
        let (v, w) = (dice.pick(VALUES), dice.pick(VALUES));
        let edit = dice.pick(&["set", "insert", "replace", "array_insert"]);
        check_all(
            &mut ours,
            &theirs,
            &format!(
                "select jsonb({a}); select json({a}); select json_pretty({a});
                 select json_error_position({a}), json_valid({a}), json_valid({a}, 6);
                 select {a} -> {p}, {a} ->> {p}, json_type({a}, {p}), json_array_length({a}, {p});
                 select jsonb_extract({a}, {p}); select jsonb_extract({a}, {p}, {q});
                 select jsonb({a}) -> {p}, jsonb({a}) ->> {p}, jsonb_extract(jsonb({a}), {p});
                 select jsonb_{edit}({a}, {p}, {v}, {q}, {w}); select json_{edit}({a}, {p}, {v});
                 select jsonb_remove({a}, {p}, {q}); select jsonb_patch({a}, {b});
                 select * from json_tree({a}, {p}); select * from jsonb_each(jsonb({a}));
                 select jsonb_array({v}, {w}), jsonb_object('k', {v}), json_quote({w});"
            ),
        );
    }
}
