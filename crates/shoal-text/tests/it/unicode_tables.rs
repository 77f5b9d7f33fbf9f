//! The tables of Unicode are SQLite's: its tokenizer is asked of every code point.
//!
//! `SHOAL_WRITE_TABLES=1` writes `src/tokenize/fold_tables.rs` anew; `SHOAL_ALL_CATEGORIES=1`
//! compares every category of every code point, beside the default ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rusqlite::Connection;
use shoal_text::Tokenizer;

const LAST: u32 = 0x10_ffff;
const CATEGORIES: [&str; 31] = [
    "", "Cc", "Cf", "Cn", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
    "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs", "Co",
];

/// All categories, so that no code point is hidden as a separator.
const EVERY: &str = "L* M* N* P* S* Z* C*";

/// A code point between letters: a separator, dropped, or a letter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Separator,
    Dropped,
    Letter(char),
}

fn text(code: char) -> String {
    format!("x{:06x}{code}y ", u32::from(code))
}

/// Code points that a test can ask about: those in UTF-8, ASCII letters and digits aside.
fn codes() -> impl Iterator<Item = char> {
    (1..=LAST).filter_map(char::from_u32).filter(|code| !code.is_ascii_alphanumeric())
}

fn spec(options: &str) -> String {
    format!("unicode61 {options} tokenchars '0123456789abcdefxy' separators ' '")
}

fn seen_by(terms: impl Iterator<Item = Vec<u8>>) -> BTreeMap<u32, Seen> {
    let mut seen = BTreeMap::new();
    for term in terms {
        let term = String::from_utf8(term).expect("a term is UTF-8");
        if term == "y" {
            continue;
        }
        let code = u32::from_str_radix(&term[1..7], 16).expect("a term begins with its number");
        let rest = &term[7..];
        let what = match rest.strip_suffix('y') {
            None => Seen::Separator,
            Some("") => Seen::Dropped,
            Some(letter) => Seen::Letter(letter.chars().next().expect("a letter is there")),
        };
        seen.insert(code, what);
    }
    seen
}

fn sqlite(options: &str) -> BTreeMap<u32, Seen> {
    let connection = Connection::open_in_memory().unwrap();
    let spec = spec(options).replace('\'', "''");
    connection
        .execute_batch(&format!(
            "CREATE VIRTUAL TABLE t USING fts5(a, detail=none, columnsize=0, content='', tokenize='{spec}');
             CREATE VIRTUAL TABLE v USING fts5vocab(t, row);
             BEGIN"
        ))
        .unwrap();
    let all: Vec<char> = codes().collect();
    for part in all.chunks(4096) {
        let text: String = part.iter().map(|&code| text(code)).collect();
        connection.execute("INSERT INTO t(rowid, a) VALUES (1, ?1)", [text]).unwrap_or(0);
        connection.execute_batch("COMMIT; BEGIN").unwrap();
    }
    let mut statement = connection.prepare("SELECT term FROM v").unwrap();
    let terms = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    seen_by(terms.map(|term| term.unwrap().into_bytes()))
}

fn ours(options: &str) -> BTreeMap<u32, Seen> {
    let spec = spec(options);
    let words: Vec<&str> = split(&spec);
    let tokenizer = Tokenizer::new(&words).unwrap();
    let tokens = codes().flat_map(|code| tokenizer.tokens(text(code).as_bytes()));
    seen_by(tokens.map(|(term, ..)| term))
}

/// Words of a specification; quotes hold one together.
fn split(spec: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, part) in spec.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part);
        } else {
            words.extend(part.split_whitespace());
        }
    }
    words
}

fn compare(options: &str) {
    let (theirs, ours) = (sqlite(options), ours(options));
    assert_eq!(theirs.len(), codes().count());
    let different: Vec<String> = theirs
        .iter()
        .filter(|(code, seen)| ours.get(code) != Some(seen))
        .map(|(code, seen)| format!("{code:x}: {seen:?}, ours {:?}", ours.get(code)))
        .collect();
    assert!(
        different.is_empty(),
        "{options}: {} differ: {:?}",
        different.len(),
        &different[..different.len().min(20)]
    );
}

#[test]
fn every_code_point_is_folded_as_by_sqlite() {
    if std::env::var_os("SHOAL_WRITE_TABLES").is_some() {
        write_tables();
        return;
    }
    compare("remove_diacritics 1");
    if std::env::var_os("SHOAL_ALL_CATEGORIES").is_some() {
        for diacritics in 0..=2 {
            compare(&format!("remove_diacritics {diacritics} categories '{EVERY}'"));
        }
        for bit in 0..5 {
            compare(&format!("categories '{}'", with_bit(bit)));
        }
    }
}

/// Categories whose number has the bit set.
fn with_bit(bit: usize) -> String {
    let names = (1..CATEGORIES.len()).filter(|number| number >> bit & 1 == 1);
    names.map(|number| CATEGORIES[number]).collect::<Vec<_>>().join(" ")
}

fn write_tables() {
    let every =
        |diacritics: u8| sqlite(&format!("remove_diacritics {diacritics} categories '{EVERY}'"));
    let (plain, simple, all) = (every(0), every(1), every(2));
    let none = sqlite("categories 'Zl'");
    let bits: Vec<_> =
        (0..5).map(|bit| sqlite(&format!("categories '{}'", with_bit(bit)))).collect();
    let is_token = |seen: &Seen| *seen != Seen::Separator;
    let combining: Vec<u32> = none
        .iter()
        .filter(|(code, seen)| (768..=817).contains(*code) && is_token(seen))
        .map(|(&code, _)| code)
        .collect();
    let mut category: BTreeMap<u32, u32> = BTreeMap::new();
    for &code in plain.keys() {
        let mut number = 0;
        for (bit, seen) in bits.iter().enumerate() {
            number |= u32::from(is_token(&seen[&code])) << bit;
        }
        category.insert(code, if number == 31 && is_token(&none[&code]) { 0 } else { number });
    }
    // A combining mark is in all of the tables: the default categories have none of them.
    for &code in &combining {
        category.insert(code, 12);
    }
    for code in (0..128_u8).filter(u8::is_ascii_alphanumeric) {
        let number = if code.is_ascii_digit() {
            13
        } else if code.is_ascii_lowercase() {
            5
        } else {
            9
        };
        category.insert(u32::from(code), number);
    }
    category.extend([(0, 1), (u32::from(' '), 29)]);
    let mut out = String::from("//! Tables of Unicode, made by `tests/it/unicode_tables.rs`.\n\n");
    let mut runs = Vec::new();
    let mut last = None;
    for (&code, &number) in &category {
        if last != Some(number) {
            runs.push(format!("{:#x}", code << 5 | number));
            last = Some(number);
        }
    }
    table(
        &mut out,
        "First code points of runs of a category: `code << 5 | category`.",
        "CATEGORIES: &[u32]",
        &runs,
    );
    let mask = combining.iter().fold(0_u64, |mask, code| mask | 1 << (code - 768));
    writeln!(out, "\n/// Combining marks from U+0300 on, a bit each.\npub(super) static COMBINING: u64 = {mask:#x};").unwrap();
    // Runs of folded letters: first, last, step, distance.
    let changed: Vec<(u32, i32)> = plain
        .iter()
        .filter_map(|(&code, seen)| match seen {
            Seen::Letter(letter) if u32::from(*letter) != code && code >= 0x80 => {
                Some((code, u32::from(*letter) as i32 - code as i32))
            }
            _ => None,
        })
        .collect();
    let mut folds: Vec<(u32, u32, u32, i32)> = Vec::new();
    for (code, delta) in changed {
        if let Some(run) = folds.last_mut().filter(|run| run.3 == delta) {
            let gap = code - run.1;
            if (gap == 1 || gap == 2) && (run.0 == run.1 || run.2 == gap) {
                (run.1, run.2) = (code, gap);
                continue;
            }
        }
        folds.push((code, code, 1, delta));
    }
    let folds: Vec<String> = folds
        .iter()
        .map(|run| format!("({:#x}, {:#x}, {}, {})", run.0, run.1, run.2, run.3))
        .collect();
    table(
        &mut out,
        "Letters that are folded: first, last, step, distance.",
        "FOLDS: &[(u32, u32, u32, i32)]",
        &folds,
    );
    for (name, seen, doc) in [
        ("UNACCENTED_SIMPLE", &simple, "Folded letters with one mark: `code << 8 | letter`."),
        ("UNACCENTED_ALL", &all, "Folded letters with any marks: `code << 8 | letter`."),
    ] {
        let mut letters = BTreeMap::new();
        for (&code, seen) in seen {
            let (Seen::Letter(folded), Seen::Letter(bare)) = (plain[&code], *seen) else {
                continue;
            };
            if folded != bare {
                assert!(bare.is_ascii() && u32::from(folded) < 1 << 16, "{code:x}");
                letters.insert(u32::from(folded), u32::from(bare));
            }
        }
        let letters: Vec<String> =
            letters.iter().map(|(code, letter)| format!("{:#x}", code << 8 | letter)).collect();
        table(&mut out, doc, &format!("{name}: &[u32]"), &letters);
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenize/fold_tables.rs");
    std::fs::write(path, out).unwrap();
}

fn table(out: &mut String, doc: &str, name: &str, items: &[String]) {
    writeln!(out, "\n/// {doc}\n#[rustfmt::skip]\npub(super) static {name} = &[").unwrap();
    let mut line = String::from("   ");
    for item in items {
        if line.len() + item.len() + 2 > 100 {
            writeln!(out, "{line}").unwrap();
            line = String::from("   ");
        }
        write!(line, " {item},").unwrap();
    }
    writeln!(out, "{line}\n];").unwrap();
}
