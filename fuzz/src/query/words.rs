//! The words of generated queries: names, literals, operators, clauses.

/// Tables and views; all have the columns [`COLUMNS`].
pub(super) const TABLES: &[&str] = &["t0", "t1", "t2", "t3", "v0", "v1", "v2", "v3"];
/// The views among them.
pub(super) const VIEWS: &[&str] = &["v0", "v1", "v2", "v3"];
/// The columns: `j` is JSON or NULL, `g` is often computed.
pub(super) const COLUMNS: &[&str] = &["a", "b", "c", "d", "g", "b", "c", "j"];
/// The columns in their order.
pub(super) const ALL: &str = "a, b, c, d, j, g";
/// Columns of `json_each` and `json_tree` independent of the storage of JSON.
pub(super) const EACH: &[&str] = &["value", "key", "type", "atom", "fullkey", "path"];
/// The column of `generate_series`.
pub(super) const SERIES: &[&str] = &["value"];
/// Columns of joins by name.
pub(super) const NARROW: &[&[&str]] =
    &[&["b"], &["a"], &["c", "b"], &["d"], &["b", "a"], &["g"], &["c", "d", "b"]];
pub(super) const LITERALS: &[&str] = &[
    "1",
    "2",
    "NULL",
    "0",
    "3",
    "-3",
    "2.5",
    "'a'",
    "'b'",
    "'ab'",
    "'A'",
    "x'62'",
    "''",
    "'2'",
    "'b '",
    "-0.5",
    "'2.5'",
    "100",
    "9007199254740993",
];
/// Literals equal, under any collation, to no other value in the tables.
pub(super) const PLAIN: &[&str] =
    &["1", "2", "NULL", "0", "2.5", "'a'", "'b'", "x'62'", "''", "'2'"];

pub(super) const COMPARE: &[&str] =
    &["=", "=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT", "==", "IS NOT DISTINCT FROM"];
pub(super) const COLLATE: &[&str] =
    &["", "", "", "", " COLLATE NOCASE", " COLLATE RTRIM", " COLLATE BINARY"];
pub(super) const DIRECTION: &[&str] =
    &["", "", " DESC", " ASC", " NULLS LAST", " DESC NULLS FIRST"];

/// Texts and numbers as input of date functions.
pub(super) const MOMENTS: &[&str] = &[
    "'2024-02-29 12:34:56.789'",
    "'2023-12-31'",
    "1700000000",
    "2460000.5",
    "'12:00'",
    "'2000-01-01T00:00:00Z'",
    "'1999-06-30 23:59:59+02:00'",
    "0",
    "-1",
    "'2024-01-31 06:07'",
    "1.5",
    "'-0400-03-01'",
    "'9999-12-31 23:59:59.9996'",
    "253402300799",
    "'2021-01-03 00:00:59.5'",
    "-210866760000",
    "'24:00'",
    "'2024-02-30'",
];
pub(super) const MODIFIERS: &[&str] = &[
    "'+1 month'",
    "'-1 day'",
    "'start of month'",
    "'weekday 3'",
    "'unixepoch'",
    "'auto'",
    "'julianday'",
    "'start of year'",
    "'+1.5 hours'",
    "'-3 years'",
    "'+01:30'",
    "'-0001-02-03 04:05'",
    "'subsec'",
    "'floor'",
    "'ceiling'",
    "'start of day'",
    "'weekday 0'",
    "'+90 seconds'",
    "'+13 months'",
    "'-0.25 days'",
];
pub(super) const FORMATS: &[&str] = &[
    "'%Y-%m-%d %H:%M:%S'",
    "'%f'",
    "'%J'",
    "'%s'",
    "'%w %u'",
    "'%W %U %V'",
    "'%G-%g'",
    "'%j'",
    "'%e %k %l'",
    "'%I %p %P'",
    "'%F %T %R'",
    "'%%'",
    "'%C'",
    "'%d.%m.'",
];
/// JSON5 beyond JSON, and texts of neither.
pub(super) const JSON5: &[&str] = &[
    "'{k:1,l:[+2,.5,0x1F]}'",
    "'[1,2,\"x\",]'",
    "'{\"k\":''a\\x41'',$l:[-.5,5.,Infinity,NaN]}'",
    "'[\"\\v\\0\",''q\"r'',{\"\\u006b\":-0x10}]'",
    "'{/*c*/ k :[1,{''\\x6b'':2}] }//'",
    "'[9223372036854775808,1e400,-0]'",
    "'{true:1}'",
    "'[1,,2]'",
    "'{\"a.b\":{\"k\":\"\\ud83d\\ude00\"},\"k\":null}'",
    "'\"a\'",
];
/// Date functions of a moment and modifiers.
pub(super) const DATES: &[&str] = &["date", "time", "datetime", "julianday", "unixepoch"];
/// Window frames valid with any order.
pub(super) const FRAMES: &[&str] = &[
    "",
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS 2 PRECEDING",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    " ROWS CURRENT ROW",
    " RANGE CURRENT ROW",
    " RANGE UNBOUNDED PRECEDING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " GROUPS 1 PRECEDING",
    " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN 1 + 1 PRECEDING AND (SELECT 1) FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    " GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " GROUPS CURRENT ROW",
];
/// Patterns of `LIKE` and `GLOB`.
pub(super) const PATTERNS: &[&str] = &[
    "LIKE 'a%'",
    "GLOB 'a*'",
    "LIKE '_'",
    "NOT LIKE '%b'",
    "LIKE 'A!%' ESCAPE '!'",
    "GLOB '[a-x]'",
    "LIKE 'a' || '%'",
    "GLOB '*[^0-9]'",
    "NOT GLOB '?'",
    "LIKE '%'",
    "LIKE ''",
    "LIKE '2%'",
    "GLOB '2*'",
    "LIKE '%!_%' ESCAPE '!'",
];
/// Window frames valid with exactly one key to order by.
pub(super) const RANGES: &[&str] = &[
    " RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " RANGE 2 PRECEDING",
    " RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    " RANGE BETWEEN 2.5 PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " RANGE BETWEEN 0 PRECEDING AND 0 FOLLOWING",
    " RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING",
    " RANGE BETWEEN 0.5 FOLLOWING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN CURRENT ROW AND 2 FOLLOWING",
];
pub(super) const EXCLUDE: &[&str] =
    &["", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS"];
