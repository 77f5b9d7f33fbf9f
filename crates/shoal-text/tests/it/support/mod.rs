//! Shadow tables of a database that SQLite opened, as a storage; documents and queries by chance.

pub(crate) mod ask;
pub(crate) mod fts3;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use shoal_text::{Content, Definition, Error, Result, Setting, Storage, Writer};

/// The shadow tables of table `t` in a file.
pub(crate) struct Shadow {
    pub(crate) connection: Connection,
    pub(crate) definition: Definition,
    source: Option<(String, String)>,
}

fn storage(error: rusqlite::Error) -> Error {
    Error::Storage(Box::new(error))
}

/// Arguments of `USING fts5(...)`, split at commas outside of quotes.
pub(crate) fn arguments(text: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (None, ',') => {
                arguments.push(String::new());
                continue;
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        arguments.last_mut().unwrap().push(c);
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}

impl Shadow {
    pub(crate) fn open(path: &std::path::Path, options: &str) -> Shadow {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -20000").unwrap();
        connection.set_prepared_statement_cache_capacity(100);
        let definition = Definition::parse("t", &arguments(options)).unwrap();
        let source = match &definition.content {
            Content::Own => Some(("t_content".to_owned(), "id".to_owned())),
            Content::Table { name, rowid } => Some((name.clone(), rowid.clone())),
            _ => None,
        };
        Shadow { connection, definition, source }
    }

    fn column(&self, column: usize) -> String {
        match self.definition.content {
            Content::Own => format!("c{column}"),
            _ => self.definition.columns[column].name.clone(),
        }
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer::open(self, &self.definition).unwrap()
    }

    /// A row of texts into `%_content` and the index.
    pub(crate) fn insert(&self, writer: &mut Writer, rowid: i64, texts: &[String]) {
        if self.definition.content == Content::Own {
            let names: Vec<String> = (0..texts.len()).map(|at| format!("?{}", at + 2)).collect();
            let sql = format!("INSERT INTO t_content VALUES (?1, {})", names.join(", "));
            let mut values = vec![Value::Integer(rowid)];
            values.extend(texts.iter().map(|text| Value::Text(text.clone())));
            self.connection.execute(&sql, rusqlite::params_from_iter(values)).unwrap();
        }
        let slices: Vec<Option<&[u8]>> = texts.iter().map(|text| Some(text.as_bytes())).collect();
        writer.insert(self, &self.definition, rowid, &slices).unwrap();
    }

    /// Removes a row that has `texts`.
    pub(crate) fn delete(&self, writer: &mut Writer, rowid: i64, texts: &[String]) {
        if self.definition.deletes_contentless {
            assert!(writer.delete_contentless(self, &self.definition, rowid).unwrap());
            return;
        }
        let slices: Vec<Option<&[u8]>> = texts.iter().map(|text| Some(text.as_bytes())).collect();
        writer.delete(self, &self.definition, rowid, &slices).unwrap();
        if self.definition.content == Content::Own {
            self.connection.execute("DELETE FROM t_content WHERE id = ?1", [rowid]).unwrap();
        }
    }
}

impl Storage for Shadow {
    fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let mut statement = self
            .connection
            .prepare_cached("SELECT block FROM t_data WHERE id = ?1")
            .map_err(storage)?;
        let mut rows = statement.query([id]).map_err(storage)?;
        let Some(row) = rows.next().map_err(storage)? else { return Ok(false) };
        match row.get_ref(0).map_err(storage)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => into.extend_from_slice(bytes),
            _ => {}
        }
        Ok(true)
    }

    fn put_block(&self, id: i64, bytes: &[u8]) -> Result<()> {
        let sql = "REPLACE INTO t_data VALUES (?1, ?2)";
        self.connection
            .prepare_cached(sql)
            .unwrap()
            .execute(params![id, bytes])
            .map_err(storage)?;
        Ok(())
    }

    fn remove_blocks(&self, first: i64, last: i64) -> Result<()> {
        let sql = "DELETE FROM t_data WHERE id BETWEEN ?1 AND ?2";
        self.connection.execute(sql, [first, last]).map(drop).map_err(storage)
    }

    fn seek_leaf(&self, segment: u32, term: &[u8]) -> Result<Option<i64>> {
        let sql =
            "SELECT pgno FROM t_idx WHERE segid = ?1 AND term <= ?2 ORDER BY term DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(storage)?;
        statement.query_row(params![segment, term], |row| row.get(0)).optional().map_err(storage)
    }

    fn leaves(&self, segment: u32) -> Result<Vec<(Vec<u8>, i64)>> {
        let sql = "SELECT term, pgno FROM t_idx WHERE segid = ?1 ORDER BY term";
        let mut statement = self.connection.prepare_cached(sql).map_err(storage)?;
        let rows = statement.query_map([segment], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(storage)
    }

    fn put_leaf(&self, segment: u32, term: &[u8], leaf: i64) -> Result<()> {
        let sql = "REPLACE INTO t_idx VALUES (?1, ?2, ?3)";
        let mut statement = self.connection.prepare_cached(sql).map_err(storage)?;
        statement.execute(params![segment, term, leaf]).map(drop).map_err(storage)
    }

    fn remove_leaves(&self, segment: u32) -> Result<()> {
        let sql = "DELETE FROM t_idx WHERE segid = ?1";
        self.connection.execute(sql, [segment]).map(drop).map_err(storage)
    }

    fn sizes(&self, rowid: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let sql = "SELECT sz FROM t_docsize WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(storage)?;
        let found: Option<Vec<u8>> =
            statement.query_row([rowid], |row| row.get(0)).optional().map_err(storage)?;
        into.extend(found.iter().flatten());
        Ok(found.is_some())
    }

    fn origin(&self, rowid: i64) -> Result<Option<i64>> {
        let sql = "SELECT origin FROM t_docsize WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(storage)?;
        statement.query_row([rowid], |row| row.get(0)).optional().map_err(storage)
    }

    fn put_sizes(&self, rowid: i64, sizes: &[u8], origin: Option<i64>) -> Result<()> {
        let done = match origin {
            Some(origin) => self.connection.execute(
                "REPLACE INTO t_docsize VALUES (?1, ?2, ?3)",
                params![rowid, sizes, origin],
            ),
            None => self
                .connection
                .execute("REPLACE INTO t_docsize VALUES (?1, ?2)", params![rowid, sizes]),
        };
        done.map(drop).map_err(storage)
    }

    fn remove_sizes(&self, rowid: i64) -> Result<()> {
        let sql = "DELETE FROM t_docsize WHERE id = ?1";
        self.connection.execute(sql, [rowid]).map(drop).map_err(storage)
    }

    fn clear(&self) -> Result<()> {
        let sql = "DELETE FROM t_data; DELETE FROM t_idx;";
        self.connection.execute_batch(sql).map_err(storage)?;
        if self.definition.has_sizes {
            self.connection.execute_batch("DELETE FROM t_docsize").map_err(storage)?;
        }
        Ok(())
    }

    fn sizes_count(&self) -> Result<u64> {
        let sql = "SELECT count(*) FROM t_docsize";
        let count: i64 = self.connection.query_row(sql, [], |row| row.get(0)).map_err(storage)?;
        Ok(count as u64)
    }

    fn settings(&self) -> Result<Vec<(String, Setting)>> {
        let mut statement =
            self.connection.prepare_cached("SELECT k, v FROM t_config").map_err(storage)?;
        let rows = statement.query_map([], |row| {
            let name: String = row.get(0)?;
            let value = match row.get::<_, Value>(1)? {
                Value::Integer(number) => Setting::Integer(number),
                Value::Text(text) => Setting::Text(text),
                other => Setting::Text(format!("{other:?}")),
            };
            Ok((name, value))
        });
        rows.and_then(Iterator::collect).map_err(storage)
    }

    fn put_setting(&self, name: &str, value: &Setting) -> Result<()> {
        let value = match value {
            Setting::Integer(number) => Value::Integer(*number),
            Setting::Text(text) => Value::Text(text.clone()),
        };
        let sql = "REPLACE INTO t_config VALUES (?1, ?2)";
        self.connection.execute(sql, params![name, value]).map(drop).map_err(storage)
    }

    fn text(&self, rowid: i64, column: usize, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let Some((table, key)) = &self.source else { return Ok(false) };
        let name = self.column(column);
        let sql = format!("SELECT CAST({name} AS TEXT) FROM {table} WHERE {key} = ?1");
        let mut statement = self.connection.prepare_cached(&sql).map_err(storage)?;
        let found: Option<Option<String>> =
            statement.query_row([rowid], |row| row.get(0)).optional().map_err(storage)?;
        into.extend_from_slice(found.clone().flatten().unwrap_or_default().as_bytes());
        Ok(found.is_some())
    }

    fn document_after(&self, rowid: Option<i64>) -> Result<Option<i64>> {
        let Some((table, key)) = &self.source else { return Ok(None) };
        let sql = format!("SELECT min({key}) FROM {table} WHERE ?1 IS NULL OR {key} > ?1");
        let mut statement = self.connection.prepare_cached(&sql).map_err(storage)?;
        statement.query_row([rowid], |row| row.get(0)).map_err(storage)
    }
}

/// Numbers by chance, the same with the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A word: frequent ones are short numbers of the list.
    pub(crate) fn word(&mut self) -> &'static str {
        let bound = 1 + self.below(WORDS.len());
        WORDS[self.below(bound)]
    }

    pub(crate) fn text(&mut self, tokens: usize) -> String {
        let mut text = String::new();
        for _ in 0..tokens {
            text.push_str(self.word());
            text.push_str(
                self.of::<&str>(&[" ", " ", " ", " ", ". ", ", ", "-", ": ", "  ", "\n"]),
            );
        }
        text
    }

    /// A query of the whole syntax; sometimes a wrong one.
    pub(crate) fn query(&mut self, depth: usize) -> String {
        let inner = |dice: &mut Dice| dice.query(depth.saturating_sub(1));
        match if depth == 0 { 0 } else { self.below(12) } {
            0..=3 => self.near(),
            4 => format!("{} {}", self.near(), self.near()),
            5 => format!("{} AND {}", inner(self), inner(self)),
            6 => format!("{} OR {}", inner(self), inner(self)),
            7 => format!("{} NOT {}", inner(self), inner(self)),
            8 => format!("({})", inner(self)),
            9 => format!("{}({})", self.filter(), inner(self)),
            10 => format!("{}{}", self.filter(), self.near()),
            _ => format!("({} OR {}) AND {}", inner(self), inner(self), inner(self)),
        }
    }

    fn filter(&mut self) -> String {
        let names = ["a", "b", "a", "b", "A", "c", "zz"];
        let minus = *self.of(&["", "", "", "- ", "-"]);
        let bound = if self.below(30) == 0 { 7 } else { 5 };
        let (first, second) = (names[self.below(bound)], names[self.below(bound)]);
        match self.below(3) {
            0 => format!("{minus}{{{first} {second}}} : "),
            1 => format!("{minus}{first}:"),
            _ => format!("{minus}\"{first}\" : "),
        }
    }

    fn near(&mut self) -> String {
        match self.below(8) {
            0 => {
                let count = 1 + self.below(3);
                let phrases: Vec<String> = (0..count).map(|_| self.phrase()).collect();
                let distance = *self.of(&["", ", 0", ", 1", ", 3", ",10"]);
                format!("NEAR({}{distance})", phrases.join(" "))
            }
            1 => format!("^{}", self.phrase()),
            _ => self.phrase(),
        }
    }

    fn phrase(&mut self) -> String {
        let mut phrase = String::new();
        let count = *self.of(&[1, 1, 1, 1, 2, 2, 3]);
        for at in 0..count {
            if at > 0 {
                phrase.push_str(" + ");
            }
            let word = self.word();
            match self.below(6) {
                0 => phrase.push_str(&format!("\"{word} {}\"", self.word())),
                1 => {
                    let end =
                        word.char_indices().nth(1 + self.below(3)).map_or(word.len(), |(at, _)| at);
                    phrase.push_str(&format!("\"{}\" *", &word[..end]));
                }
                2 if self.below(12) == 0 => phrase
                    .push_str(self.of::<&str>(&["\"\"", "\"-\"", "AND", "\"", "x!", "*", "("])),
                _ => phrase.push_str(&format!("\"{word}\"")),
            }
        }
        phrase
    }
}

/// Words of several languages, with marks, cases and scripts.
pub(crate) const WORDS: &[&str] = &[
    "the",
    "a",
    "fox",
    "quick",
    "Brown",
    "jumps",
    "over",
    "lazy",
    "dog",
    "running",
    "runner",
    "relational",
    "conditional",
    "happily",
    "Straße",
    "STRASSE",
    "café",
    "CAFE",
    "cafe\u{301}",
    "naïve",
    "Ünïcödé",
    "Ελληνικά",
    "ΕΛΛΗΝΙΚΆ",
    "Привет",
    "МИР",
    "ёлка",
    "日本語",
    "漢字",
    "한국어",
    "עברית",
    "العربية",
    "İstanbul",
    "ấn",
    "ﬁne",
    "ǅ",
    "42",
    "3.14",
    "x86_64",
    "don't",
    "caresses",
    "ponies",
    "agreed",
    "plastered",
    "hopping",
    "falling",
    "sized",
    "generalization",
    "vietnamization",
    "sensibiliti",
    "triplicate",
    "electrical",
    "adjustment",
    "effective",
    "bowdlerize",
    "probate",
    "controll",
    "roll",
    "aa",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "abd",
    "b",
    "bb",
];
