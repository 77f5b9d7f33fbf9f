//! Entitlements in a file: what principals may read and write of tables, by hand or by a program.
//!
//! ```json
//! { "principals": {
//!     "ada": { "note": { "columns": ["id", "title"], "rows": "owner = :principal" },
//!              "person": { "mask": { "phone": "'***'" } },
//!              "task": { "rows": "owner = :principal", "insert": true, "update": ["done"],
//!                        "delete": true } },
//!     "*": { "city": {} } } }
//! ```
//!
//! Documents are rows of `_shoal_doc`: `"_shoal_doc": { "rows": "name GLOB 'ada/*'" }` grants them
//! as they are now, and `"history": true` beside grants their changes.
//!
//! A table that is not named for a principal does not exist for them. What is said for `*` counts
//! for every principal, unless they have a rule of the same table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use shoal_sql::{Entitlement, TableRule, WrittenColumns};

/// The longest file of rules.
const FILE_MAX: u64 = 16 << 20;
/// The name that stands for every principal.
const EVERYONE: &str = "*";

/// Entitlements of the callers of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFor {
    /// The file of rules, looked at again by each request.
    pub file: PathBuf,
    /// The principal of every caller. `None` is for servers with a policy: each request is answered
    /// as the principal of its own token.
    pub principal: Option<String>,
}

/// The rules of all principals.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    principals: Named<Named<Rule>>,
}

/// What a principal may read and write of a table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    columns: Option<Vec<String>>,
    rows: Option<String>,
    mask: Named<String>,
    list: Option<bool>,
    insert: Option<Written>,
    update: Option<Written>,
    delete: Option<bool>,
    history: Option<bool>,
}

/// The table of documents, the only one with a history.
const DOCUMENTS: &str = "_shoal_doc";
/// The tables with the history of documents: changes, and times of storing, each with the id of a
/// row's document.
const HISTORY: [(&str, &str); 2] =
    [("_shoal_chunk", "_shoal_chunk.id >> 32"), ("_shoal_stored", "_shoal_stored.doc")];

impl Rule {
    /// The rules for the history of the documents that this rule grants.
    ///
    /// # Errors
    /// A history of another table, or beside hidden columns: changes hold all of a document.
    fn of_history(&self, table: &str) -> Result<Vec<TableRule>, String> {
        if self.history != Some(true) {
            return Ok(Vec::new());
        }
        if !table.eq_ignore_ascii_case(DOCUMENTS) {
            return Err(format!("the rule of {table}: documents in {DOCUMENTS} have a history"));
        }
        if self.columns.is_some() || !self.mask.0.is_empty() {
            let why = "a history tells all of a document, and goes with neither columns nor masks";
            return Err(format!("the rule of {table}: {why}"));
        }
        let rule = |(table, id): (&str, &str)| {
            let rule = TableRule::of(table).unlisted();
            let Some(rows) = &self.rows else { return rule };
            // Parsed as a whole by the rule of documents, the predicate ends within parentheses.
            rule.rows(format!(
                "EXISTS (SELECT 1 FROM {DOCUMENTS} WHERE {DOCUMENTS}.id = ({id}) AND ((\n{rows}\n)))"
            ))
        };
        Ok(HISTORY.map(rule).into())
    }
}

/// The columns of a grant to write: all that are visible, none, or those of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    All(bool),
    Only(Vec<String>),
}

/// The columns; `None` where nothing is granted.
fn written(written: Option<&Written>) -> Option<WrittenColumns> {
    match written? {
        Written::All(true) => Some(WrittenColumns::Visible),
        Written::All(false) => None,
        Written::Only(names) => Some(WrittenColumns::Only(names.clone())),
    }
}

/// A JSON object without a name twice: of two rules the last would count, unseen.
#[derive(Clone, Debug)]
struct Named<T>(BTreeMap<String, T>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut named = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if named.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("{name:?} is there twice")));
                    }
                    named.insert(name, value);
                }
                Ok(Named(named))
            }
        }

        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

impl Rules {
    /// Reads the text of a file. Every predicate is parsed; names are looked up in a database, once
    /// there is one.
    ///
    /// # Errors
    /// The place at fault, or the principal and the table.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rules: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for principal in rules.principals.0.keys() {
            rules.entitlement(principal)?;
        }
        Ok(rules)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Rules::parse`]; a file that cannot be read, or of more than 16 MiB.
    pub fn read(path: &Path) -> Result<Self, String> {
        let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
        if length > FILE_MAX {
            return Err(format!("a file of rules has at most {FILE_MAX} bytes"));
        }
        Self::parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
    }

    /// The names with rules of their own, `*` among them where there are rules for everybody.
    pub fn principals(&self) -> impl Iterator<Item = &str> {
        self.principals.0.keys().map(String::as_str)
    }

    /// What a principal may read and write; `None` for whom nothing is said.
    ///
    /// # Errors
    /// The principal, the table and the fault of a rule.
    pub fn entitlement(&self, principal: &str) -> Result<Option<Entitlement>, String> {
        let all = &self.principals.0;
        let (own, everyone) = (all.get(principal), all.get(EVERYONE));
        if own.is_none() && everyone.is_none() {
            return Ok(None);
        }
        let is_own = |table: &str| {
            let mut tables = own.iter().flat_map(|tables| tables.0.keys());
            tables.any(|own| own.eq_ignore_ascii_case(table))
        };
        let own_rules = own.iter().flat_map(|tables| &tables.0);
        let others = everyone.iter().flat_map(|tables| &tables.0);
        let others = others.filter(|(table, _)| principal != EVERYONE && !is_own(table));
        let mut entitlement = Entitlement::new(principal);
        for (table, rule) in own_rules.chain(others) {
            let mut granted = TableRule::of(table);
            if let Some(columns) = &rule.columns {
                granted = granted.columns(columns);
            }
            if let Some(rows) = &rule.rows {
                granted = granted.rows(rows);
            }
            for (column, expr) in &rule.mask.0 {
                granted = granted.mask(column, expr);
            }
            if rule.list == Some(false) {
                granted = granted.unlisted();
            }
            if let Some(columns) = written(rule.insert.as_ref()) {
                granted = granted.insert(columns);
            }
            if let Some(columns) = written(rule.update.as_ref()) {
                granted = granted.update(columns);
            }
            if rule.delete == Some(true) {
                granted = granted.delete();
            }
            let allowed = entitlement.allow(granted);
            allowed.map_err(|error| format!("{principal}: {error}"))?;
            let history = rule.of_history(table).map_err(|why| format!("{principal}: {why}"))?;
            for granted in history {
                let allowed = entitlement.allow(granted);
                allowed.map_err(|error| format!("{principal}: {error}"))?;
            }
        }
        Ok(Some(entitlement))
    }
}

/// A file of rules, looked at again whenever it is asked for.
#[derive(Clone)]
pub struct RuleFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
    rules: Rules,
}

impl RuleFile {
    /// Reads the file.
    ///
    /// # Errors
    /// As [`Rules::read`].
    pub fn open(path: &Path) -> Result<Self, String> {
        let seen = stamp(path);
        Ok(Self { path: path.to_owned(), seen, rules: Rules::read(path)? })
    }

    /// The rules, and true where they may be others than before. A file that cannot be read any
    /// more grants nothing: rules that were taken back must not go on.
    pub fn current(&mut self) -> (&Rules, bool) {
        let now = stamp(&self.path);
        let has_changed = now.is_none() || now != self.seen;
        if has_changed {
            self.seen = now;
            self.rules = Rules::read(&self.path).unwrap_or_default();
        }
        (&self.rules, has_changed)
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_rules_go_before_those_of_everyone() {
        let rules = Rules::parse(
            r#"{"principals": {"ada": {"Note": {"rows": "owner = :principal"}},
                "*": {"note": {"columns": ["id"]}, "city": {}}}}"#,
        )
        .unwrap();
        let ada = format!("{:?}", rules.entitlement("ada").unwrap().unwrap());
        assert!(ada.contains("\"Note\"") && ada.contains("\"city\"") && !ada.contains("\"note\""));
        let eve = format!("{:?}", rules.entitlement("eve").unwrap().unwrap());
        assert!(eve.contains("\"note\"") && eve.contains("\"city\"") && !eve.contains("\"Note\""));
        let none = Rules::parse(r#"{"principals": {"ada": {}}}"#).unwrap();
        assert!(none.entitlement("eve").unwrap().is_none());
        assert!(none.entitlement("ada").unwrap().is_some());
    }

    #[test]
    fn changes_are_granted_one_by_one() {
        let rules = Rules::parse(
            r#"{"principals": {"ada": {"note": {"insert": true, "update": ["id"], "delete": true}},
                "bob": {"note": {"insert": false, "delete": false}}, "eve": {"note": {}},
                "cy": {"note": {"update": []}}}}"#,
        )
        .unwrap();
        for (name, writes) in [("ada", true), ("bob", false), ("eve", false), ("cy", true)] {
            let entitlement = rules.entitlement(name).unwrap().unwrap();
            assert_eq!(entitlement.writes(), writes, "{name}");
            assert!(!entitlement.read_only().writes(), "{name}");
        }
        for wrong in [r#"{"insert": 1}"#, r#"{"update": "id"}"#, r#"{"delete": ["id"]}"#] {
            let text = format!(r#"{{"principals": {{"a": {{"t": {wrong}}}}}}}"#);
            assert!(Rules::parse(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_history_goes_with_whole_documents() {
        let entitlement = |rule: &str| {
            let text = format!(r#"{{"principals": {{"ada": {{{rule}}}}}}}"#);
            Rules::parse(&text)?.entitlement("ada").map(|found| format!("{:?}", found.unwrap()))
        };
        let present = entitlement(r#""_shoal_doc": {"rows": "name = :principal"}"#).unwrap();
        assert!(!present.contains("_shoal_chunk"), "{present}");
        let past = r#""_shoal_doc": {"rows": "name = 'a') OR (name = 'b'", "history": true}"#;
        let past = entitlement(past).unwrap();
        assert!(past.contains("_shoal_chunk") && past.contains("_shoal_stored"), "{past}");
        for (rule, why) in [
            (r#""note": {"history": true}"#, "documents in _shoal_doc have a history"),
            (
                r#""_shoal_doc": {"columns": ["name"], "history": true}"#,
                "neither columns nor masks",
            ),
            (r#""_shoal_doc": {"mask": {"json": "1"}, "history": true}"#, "neither columns"),
            (r#""_shoal_chunk": {}, "_shoal_doc": {"history": true}"#, "one rule"),
        ] {
            let error = entitlement(rule).unwrap_err();
            assert!(error.contains(why), "{rule}: {error}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let fault = |text: &str| Rules::parse(text).unwrap_err();
        assert!(fault("{}").contains("principals"));
        assert!(fault(r#"{"principals": {"a": {"t": {"row": "1"}}}}"#).contains("unknown field"));
        let twice = r#"{"principals": {"a": {"t": {"rows": "0"}, "t": {}}}}"#;
        assert!(fault(twice).contains("\"t\" is there twice"), "{}", fault(twice));
        let cased = r#"{"principals": {"a": {"t": {"rows": "0"}, "T": {}}}}"#;
        assert!(fault(cased).contains("one rule"), "{}", fault(cased));
        let syntax = fault(r#"{"principals": {"ada": {"note": {"rows": "owner ="}}}}"#);
        assert!(syntax.starts_with("ada: the rule of note: "), "{syntax}");
        assert!(
            fault(r#"{"principals": {"a": {"t": {"rows": "x = ?1"}}}}"#).contains(":principal")
        );
    }
}
