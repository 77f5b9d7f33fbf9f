//! Functions against SQLite's, on random arguments: the same results, the same errors.

use crate::common;
use crate::write_support::{Both, Random, any_value};
use shoal_sql::Value;

const FUNCTIONS: &[(&str, usize)] = &[
    ("abs", 1),
    ("char", 0),
    ("char", 1),
    ("char", 3),
    ("coalesce", 2),
    ("coalesce", 3),
    ("concat", 1),
    ("concat", 3),
    ("concat_ws", 2),
    ("concat_ws", 4),
    ("glob", 2),
    ("hex", 1),
    ("unhex", 1),
    ("unhex", 2),
    ("ifnull", 2),
    ("iif", 2),
    ("iif", 3),
    ("iif", 5),
    ("instr", 2),
    ("length", 1),
    ("octet_length", 1),
    ("like", 2),
    ("like", 3),
    ("lower", 1),
    ("upper", 1),
    ("ltrim", 1),
    ("rtrim", 2),
    ("trim", 2),
    ("trim", 1),
    ("ltrim", 2),
    ("max", 2),
    ("min", 3),
    ("nullif", 2),
    ("quote", 1),
    ("replace", 3),
    ("round", 1),
    ("round", 2),
    ("round", 2),
    ("sign", 1),
    ("substr", 2),
    ("substr", 3),
    ("substring", 3),
    ("typeof", 1),
    ("unicode", 1),
    ("likely", 1),
];

#[test]
fn scalars() {
    let mut both = Both::new();
    let mut random = Random::seeded(11);
    for _ in 0..1000 {
        for (name, count) in FUNCTIONS {
            let values: Vec<Value> = (0..*count).map(|_| any_value(&mut random)).collect();
            let parameters: Vec<String> = (1..=*count).map(|number| format!("?{number}")).collect();
            both.agree(&format!("SELECT {name}({})", parameters.join(", ")), &values);
        }
    }
}

#[test]
fn formats() {
    let mut both = Both::new();
    let mut random = Random::seeded(12);
    both.run("CREATE TABLE t (a, b)");
    both.run(
        "INSERT INTO t VALUES (1, 'one'), (-2.5, NULL), (NULL, 1e300), ('é''x', -7), (x'00ff', '12'),
         (9007199254740993, 0.1), ('', 'x'), (-9223372036854775808, '3 ')",
    );
    for _ in 0..30_000 {
        let mut format = String::new();
        for _ in 0..=random.below(2) {
            format.push_str(random.pick(&["", "x", "é "]));
            format.push('%');
            for _ in 0..random.below(3) {
                format.push_str(random.pick(&["-", "+", " ", "#", "!", "0", ","]));
            }
            format.push_str(random.pick(&["", "", "5", "12", "3"]));
            format.push_str(random.pick(&["", "", ".3", ".0", ".12", "."]));
            format.push_str(random.pick(&["", "", "", "l", "ll"]));
            format.push_str(random.pick(&[
                "d", "i", "u", "x", "X", "o", "f", "e", "E", "g", "G", "s", "z", "c", "q", "Q",
                "w", "%", "n", "r", "p", "s", "d", "f", "g", "y",
            ]));
        }
        let values = [Value::text(format), any_value(&mut random), any_value(&mut random)];
        both.agree("SELECT printf(?1, ?2, ?3)", &values);
        // A format parsed once for many rows.
        both.agree(
            "SELECT group_concat(quote(printf(?1, b, a))) FROM t WHERE ?2 IS ?2 OR ?3",
            &values,
        );
    }
}

/// Widths and precisions taken from arguments.
#[test]
fn formats_that_take_their_widths() {
    let mut both = Both::new();
    both.run("CREATE TABLE t (a, b)");
    both.run(
        "INSERT INTO t VALUES (3, 12.25), (-9, 'text'), (0, NULL), (NULL, -7), ('4x', 123456)",
    );
    let formats =
        ["%*d", "%-*.*f|", "%.*s", "%*.2f", "%5.*g%", "%0*lld", "%*", "%.*", "%*l", "%+*.3e%s"];
    for format in formats {
        let format = [Value::text(format)];
        both.agree("SELECT printf(?1, 6, 2, 3)", &format);
        both.agree("SELECT group_concat(quote(printf(?1, a, b, a))) FROM t", &format);
        both.agree("SELECT group_concat(quote(printf(?1, a, a, b))) FROM t", &format);
        both.agree("SELECT group_concat(quote(printf(?1 || a, a, b))) FROM t", &format);
    }
}

#[test]
fn aggregates() {
    let mut both = Both::new();
    let mut random = Random::seeded(13);
    both.run("CREATE TABLE t (x)");
    for round in 0..300 {
        both.run("DELETE FROM t");
        for _ in 0..random.below(6) {
            let value = match round % 3 {
                0 => Value::Real(random.below(100_000) as f64 / 1000.0),
                1 => Value::Int(random.number() as i64 >> random.below(20)),
                _ => any_value(&mut random),
            };
            let (got, expect) = both.insert("t", &value);
            assert_eq!(got, expect);
        }
        let functions = [
            "count(x)",
            "count(*)",
            "sum(x)",
            "total(x)",
            "avg(x)",
            "min(x)",
            "max(x)",
            "group_concat(x)",
            "group_concat(x, '; ')",
            "string_agg(x, NULL)",
            "sum(DISTINCT x)",
            "count(DISTINCT x)",
        ];
        for function in functions {
            both.agree(&format!("SELECT {function} FROM t"), &[]);
        }
    }
}

fn json(random: &mut Random, depth: u32, text: &mut String) {
    const SPACE: &[&str] = &["", "", "", " ", "\n ", "\t"];
    text.push_str(random.pick(SPACE));
    match random.below(if depth > 3 { 6 } else { 10 }) {
        0 => text.push_str(random.pick(&["null", "true", "false"])),
        1 => text.push_str(random.pick(&[
            "0",
            "-0",
            "1",
            "-5",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
        ])),
        2 => {
            text.push_str(random.pick(&["1.0", "2.50", "-0.0", "1e5", "1E-5", "1.5e+300", "1e400"]))
        }
        3..=5 => {
            text.push('"');
            for _ in 0..random.below(4) {
                text.push_str(random.pick(&[
                    "a",
                    "b",
                    "é",
                    "\\n",
                    "\\u00e9",
                    "\\ud834\\udd1e",
                    "\\\"",
                    "\\\\",
                    "\\/",
                    "'",
                    "[",
                    "}",
                ]));
            }
            text.push('"');
        }
        6 | 7 => {
            text.push('[');
            for index in 0..random.below(4) {
                if index > 0 {
                    text.push(',');
                }
                json(random, depth + 1, text);
            }
            text.push(']');
        }
        _ => {
            text.push('{');
            for index in 0..random.below(4) {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(random.pick(&[
                    "\"a\"",
                    "\"b\" ",
                    "\"c.d\"",
                    "\"\"",
                    " \"\\u0061\"",
                    "\"a b\"",
                ]));
                text.push(':');
                json(random, depth + 1, text);
            }
            text.push('}');
        }
    }
    text.push_str(random.pick(SPACE));
}

fn path(random: &mut Random) -> Value {
    const STEPS: &[&str] = &[
        ".a",
        ".b",
        ".\"c.d\"",
        ".\"\"",
        "[0]",
        "[1]",
        "[#-1]",
        "[#]",
        "[2]",
        "[",
        "[x]",
        ".",
        "x",
        ".\"a",
        "[#-9]",
        ".a b",
        "[99999999999999999999]",
    ];
    Value::text((0..random.below(4)).fold("$".to_owned(), |path, _| path + random.pick(STEPS)))
}

#[test]
fn json_functions() {
    let mut both = Both::new();
    let mut random = Random::seeded(14);
    for _ in 0..4000 {
        let mut document = String::new();
        json(&mut random, 0, &mut document);
        if random.below(10) == 0 {
            // A number cut after its point is JSON5, read by SQLite alone.
            let cut = usize::try_from(random.below(document.len() as u64 + 1)).unwrap();
            if document.is_char_boundary(cut) && !document[..cut].ends_with('.') {
                document.truncate(cut);
            }
        }
        let document = Value::text(document);
        for function in ["json", "json_valid", "json_type", "json_array_length"] {
            both.agree(&format!("SELECT {function}(?1)"), std::slice::from_ref(&document));
        }
        let (first, second) = (path(&mut random), path(&mut random));
        for function in ["json_extract", "json_type", "json_array_length"] {
            both.agree(&format!("SELECT {function}(?1, ?2)"), &[document.clone(), first.clone()]);
        }
        both.agree("SELECT json_extract(?1, ?2, ?3)", &[document.clone(), first.clone(), second]);
        let label = match random.below(3) {
            0 => first,
            1 => Value::Int(random.below(5) as i64 - 2),
            _ => Value::text(
                random.pick(&["a", "b", "c.d", "", "a b", "[0]", "[#-1]", "0", "-1", "é"]),
            ),
        };
        both.agree("SELECT ?1 -> ?2", &[document.clone(), label.clone()]);
        both.agree("SELECT ?1 ->> ?2", &[document, label]);
    }
}

fn time_value(random: &mut Random) -> Value {
    let mut below = |bound| random.below(bound);
    match below(8) {
        0 => Value::Int(below(6_000_000) as i64 - 100_000),
        1 => Value::Real(below(6_000_000) as f64 / 1.7),
        2 => Value::Int(below(4_000_000_000) as i64 - 1_000_000_000),
        3 => {
            let clock = format!("{:02}:{:02}", below(26), below(61));
            Value::text(clock + random.pick(&["", ":05", ":59.9999", ":1", ":07.5Z", " +01:30"]))
        }
        4 => Value::text(random.pick(&[
            "2024-13-01",
            "-0001-02-03",
            "0000-01-01",
            "9999-12-31 23:59:59.999",
            "x",
            "2024-02-30T10:11",
            "-4713-11-24 12:00",
            "12.5",
            "1e3",
            "2024-06-07 08:09:10.123456",
            "",
        ])),
        _ => {
            let date = format!("{:04}-{:02}-{:02}", below(10_000), 1 + below(12), 1 + below(31));
            let sign = random.pick(&["", "", "", "-"]);
            let time = random.pick(&[
                "",
                " 10:11:12",
                "T23:59:59.987",
                " 24:00",
                " 01:02+05:00",
                " 01:02:03 -14:59",
                " 12:34Z",
            ]);
            Value::text(format!("{sign}{date}{time}"))
        }
    }
}

fn modifier(random: &mut Random) -> Value {
    let text = match random.below(5) {
        0 => random
            .pick(&[
                "start of day",
                "start of month",
                "start of year",
                "end of month",
                "end of year",
                "ceiling",
                "floor",
                "auto",
                "unixepoch",
                "julianday",
                "subsec",
                "start of week",
                "bogus",
            ])
            .to_owned(),
        1 => {
            format!("weekday {}", random.pick(&["0", "1", "6", "-1", "-6", "7", "1.5", "-0", "x"]))
        }
        2 => {
            let (years, months, days) = (random.below(30), random.below(13), random.below(32));
            let sign = random.pick(&["+", "-", ""]);
            let time = random.pick(&["", " 10:20", " 01:02:03.5", "x"]);
            format!("{sign}{years:04}-{months:02}-{days:02}{time}")
        }
        3 => {
            let (hours, minutes) = (random.below(25), random.below(60));
            let sign = random.pick(&["+", "-", ""]);
            format!("{sign}{hours:02}:{minutes:02}{}", random.pick(&["", ":30", ":59.5"]))
        }
        _ => {
            let units = [
                "day",
                "days",
                "hour",
                "minutes",
                "seconds",
                "month",
                "years",
                "fortnight",
                "YEARS",
            ];
            let amount = random.pick(&["1", "1.5", "13", "400", "0.1", "100000", "1e9"]);
            format!("{}{amount} {}", random.pick(&["+", "-", ""]), random.pick(&units))
        }
    };
    Value::text(text)
}

#[test]
fn date_functions() {
    let mut both = Both::new();
    let mut random = Random::seeded(15);
    both.run("CREATE TABLE t (a)");
    both.run(
        "INSERT INTO t VALUES ('2024-01-31'), ('2023-02-28 23:59:59.999'), (2460000.5), (NULL), (1700000000),
         ('12:30'), ('-4713-11-25'), ('9999-12-31T10:00+05:00'), ('x'), ('2000-02-29 06:07')",
    );
    for _ in 0..5000 {
        let mut values = vec![time_value(&mut random)];
        for _ in 0..random.below(4) {
            values.push(modifier(&mut random));
        }
        let parameters: Vec<String> =
            (1..=values.len()).map(|number| format!("?{number}")).collect();
        let parameters = parameters.join(", ");
        for function in ["date", "time", "datetime", "julianday", "unixepoch"] {
            both.agree(&format!("SELECT {function}({parameters})"), &values);
            // Modifiers parsed once for many rows.
            let modifiers = parameters.strip_prefix("?1").unwrap();
            let query = format!(
                "SELECT group_concat(quote({function}(a{modifiers}))) FROM t WHERE ?1 IS ?1"
            );
            both.agree(&query, &values);
        }
        let format = random.pick(&[
            "%d %e %f",
            "%F|%G|%g",
            "%H %k %I %l",
            "%j %J",
            "%m %M %p %P",
            "%R %s %S %T",
            "%u %w %U %V %W",
            "%Y%%",
            "%q",
        ]);
        both.agree(&format!("SELECT strftime('{format}', {parameters})"), &values);
        let parameters = parameters.replacen("?1", "a", 1);
        let of_rows = format!("strftime('{format}', {parameters}), strftime(?1, {parameters})");
        both.agree(
            &format!("SELECT json_array({of_rows}, a, count(*)) FROM t GROUP BY a"),
            &values,
        );
        both.agree(&format!("SELECT json_group_array(json_array({of_rows})) FROM t"), &values);
    }
}

#[test]
fn differences_of_times() {
    let scratch = common::Scratch::new("create table t(a)");
    let moments = [
        "2000-01-01",
        "2000-02-29",
        "2001-02-28 12:30:15.250",
        "1999-12-31 23:59:59.999",
        "2024-03-31",
        "2024-02-29 00:00:01",
        "2023-03-01",
        "0001-01-01",
        "9999-12-31 23:59:59",
        "2000-01-31 10:00",
        "2000-03-30 09:00",
    ];
    let mut queries = String::new();
    for a in moments {
        for b in moments {
            queries += &format!(
                "select timediff('{a}', '{b}'); select datetime('{b}', timediff('{a}', '{b}'));"
            );
        }
    }
    queries +=
        "select timediff('x', '2000-01-01'), timediff(null, 1), timediff(2451545, 2451544.25);";
    common::check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

/// Seldom used functions: escapes, strings of JSON by a format, shares, signs of nothing.
#[test]
fn seldom_functions() {
    let scratch = common::Scratch::new("create table t(a)");
    let mut queries = String::new();
    for text in [
        "'a\\0041\\u0042\\+01f600\\U0001F601\\\\b'",
        "'\\d800'",
        "'\\U00110000'",
        "'\\uFFFF\\+ffffff'",
        "'\\x'",
        "'\\'",
        "'\\004'",
        "'\\004g'",
        "''",
        "null",
        "5",
        "2.5",
        "x'5c30303431'",
        "'a''b\\\\c'",
        "'a' || char(0) || '\\0041'",
        "'tab' || char(9) || 'q''\\' || char(31)",
        "1e999",
        "'plain'",
    ] {
        queries += &format!(
            "select hex(unistr({text})); select unistr_quote({text}), unistr(unistr_quote(7));
             select printf('%j|%J|%12j|%-12J|%.2j|%!3.2J', {text}, {text}, {text}, {text}, {text}, {text});
             select likelihood({text}, 0.5); select likelihood(1, {text});"
        );
    }
    queries += "select likelihood(1, 0), likelihood(1, 1); select likelihood(1, 1.5); select likelihood(1, 1.0);
        select likelihood(1, -0.5); select likelihood(1, 0.0); select likelihood(1, (0.5));
        select quote(round(-0.001, 2)), quote(round(-1e-300, 5)), quote(round(-0.0, 1)), round(-0.4),
        quote(round(0.001, 2)), quote(round(-0.05, 1)), quote(round(-0.04, 1));";
    common::check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}
