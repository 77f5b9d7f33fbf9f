//! FTS3's query language: a text into a tree.
//!
//! Two grammars exist. SQLite speaks the enhanced one, with `AND`, `NOT` and parentheses,
//! when built with `SQLITE_ENABLE_FTS3_PARENTHESIS`, as nearly all builds are. In the standard one
//! `AND` and `NOT` are words, `-word` excludes, and `OR` binds more tightly than the `AND` between
//! words.

use super::definition::Definition;
use super::until_nul;
use crate::error::{Error, Result};

/// Distance of `NEAR` without a number.
const NEAR_DEFAULT: u64 = 10;
/// Largest distance of `NEAR`.
const NEAR_MAX: u64 = 1_000_000_000;
/// Levels of a tree at most.
const DEPTH_MAX: usize = 12;
/// Parentheses within each other at most.
const NEST_MAX: i64 = 1000;

/// The grammar of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fts3Syntax {
    /// `AND`, `OR`, `NOT`, `NEAR` and parentheses.
    #[default]
    Enhanced,
    /// `OR`, `NEAR`, and `-` before a word.
    Standard,
}

/// A term of a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) bytes: Vec<u8>,
    pub(super) is_prefix: bool,
    /// At the begin of a column.
    pub(super) is_first: bool,
}

/// Terms one behind the other, in one column or in any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) terms: Vec<Term>,
    pub(super) column: Option<usize>,
}

/// Operators between two nodes, in the order of binding strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Join {
    Near(u64),
    Not,
    And,
    Or,
}

/// A node by its number in [`Tree::nodes`].
pub(super) type Id = usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Phrase(Phrase),
    Join(Join, Id, Id),
}

/// A parsed query. Phrases are numbered from left to right, without the phrases to
/// the right of a `NOT`.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Kind>,
    pub(super) root: Option<Id>,
}

/// A node while operators are still inserted.
#[derive(Debug)]
enum Draft {
    Phrase(Phrase),
    Join { join: Join, left: Option<Id>, right: Option<Id> },
}

struct Parser<'q> {
    definition: &'q Definition,
    text: &'q [u8],
    column: Option<usize>,
    syntax: Fts3Syntax,
    drafts: Vec<(Draft, Option<Id>)>,
    nest: i64,
}

/// A part of a text.
enum Next {
    Node(Id),
    /// A term excluded by `-`.
    Excluded(Id),
    /// Something without terms.
    Nothing,
    End,
}

/// A refusal: of the text, or of the tree's size.
enum Fault {
    Malformed,
    TooDeep,
}

impl Tree {
    /// Reads a query for one column, or for all.
    ///
    /// # Errors
    /// [`Error::Query`] in SQLite's words.
    pub(super) fn parse(
        definition: &Definition,
        syntax: Fts3Syntax,
        text: &[u8],
        column: Option<usize>,
    ) -> Result<Tree> {
        let text = until_nul(text);
        let drafts = Vec::new();
        let mut parser = Parser { definition, text, column, syntax, drafts, nest: 0 };
        let parsed = parser.expression(0, text.len()).and_then(|(root, _)| match parser.nest {
            0 => Ok(root),
            _ => Err(Fault::Malformed),
        });
        let balanced = parsed.and_then(|root| {
            let mut tree = Tree::default();
            if let Some(root) = root {
                tree.root = Some(parser.balance(root, DEPTH_MAX, &mut tree.nodes)?);
                parser.check_depth(&tree)?;
            }
            Ok(tree)
        });
        balanced.map_err(|fault| {
            Error::Query(match fault {
                Fault::Malformed => {
                    format!("malformed MATCH expression: [{}]", String::from_utf8_lossy(text))
                }
                Fault::TooDeep => {
                    format!("FTS expression tree is too large (maximum depth {DEPTH_MAX})")
                }
            })
        })
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

impl Parser<'_> {
    fn is_enhanced(&self) -> bool {
        self.syntax == Fts3Syntax::Enhanced
    }

    fn add(&mut self, draft: Draft) -> Id {
        self.drafts.push((draft, None));
        self.drafts.len() - 1
    }

    /// The first token of the bytes from `at` to `end`, and where the text goes on.
    fn term(&mut self, column: Option<usize>, at: usize, end: usize) -> (Next, usize) {
        let text = &self.text[at..end];
        let mut found = None;
        self.definition.tokenizer.tokenize(text, &mut |term, start, stop| {
            found = Some((term.to_vec(), start, stop));
            false
        });
        let is_barred =
            |&byte: &u8| byte == b'"' || self.is_enhanced() && matches!(byte, b'(' | b')');
        let Some((bytes, mut start, mut stop)) = found else {
            // SQLite takes `column:"` for the end of the expression.
            if text.is_empty() {
                return (Next::End, end);
            }
            let barred = text.iter().position(is_barred);
            return (Next::Nothing, barred.map_or(end, |barred| at + barred));
        };
        if let Some(barred) = text[..stop].iter().position(is_barred) {
            return self.term(column, at, at + barred);
        }
        let is_prefix = text.get(stop) == Some(&b'*');
        stop += usize::from(is_prefix);
        let (mut is_excluded, mut is_first) = (false, false);
        while let Some(before) = start.checked_sub(1) {
            match text[before] {
                b'-' if !self.is_enhanced() => is_excluded = true,
                b'^' if self.definition.is_fts4 => is_first = true,
                _ => break,
            }
            start = before;
        }
        let terms = vec![Term { bytes, is_prefix, is_first }];
        let node = self.add(Draft::Phrase(Phrase { terms, column }));
        (if is_excluded { Next::Excluded(node) } else { Next::Node(node) }, at + stop)
    }

    /// The terms between quotes.
    fn phrase(&mut self, at: usize, end: usize) -> Id {
        let text = &self.text[at..end];
        let mut terms = Vec::new();
        self.definition.tokenizer.tokenize(text, &mut |term, start, stop| {
            let is_first = start.checked_sub(1).is_some_and(|before| text[before] == b'^');
            let is_prefix = text.get(stop) == Some(&b'*');
            terms.push(Term { bytes: term.to_vec(), is_prefix, is_first });
            true
        });
        let column = self.column;
        self.add(Draft::Phrase(Phrase { terms, column }))
    }

    /// An operator's word at `at`, and the place behind.
    fn operator(&self, at: usize, end: usize) -> Option<(Join, usize)> {
        let words: [(&[u8], bool, Join); 4] = [
            (b"OR", false, Join::Or),
            (b"AND", true, Join::And),
            (b"NOT", true, Join::Not),
            (b"NEAR", false, Join::Near(NEAR_DEFAULT)),
        ];
        for (word, is_enhanced, mut join) in words {
            if is_enhanced && !self.is_enhanced() || !self.text[at..end].starts_with(word) {
                continue;
            }
            let mut behind = at + word.len();
            if matches!(join, Join::Near(_)) && self.text.get(behind) == Some(&b'/') {
                let digits = self.text[behind + 1..].iter().take_while(|b| b.is_ascii_digit());
                let number = digits.clone().try_fold(0_u64, |number, digit| {
                    let number = number * 10 + u64::from(digit - b'0');
                    (number <= 0x7fff_ffff).then_some(number)
                });
                if let Some(number) = number.filter(|_| digits.clone().next().is_some()) {
                    join = Join::Near(number.min(NEAR_MAX));
                    behind += 1 + digits.count();
                }
            }
            let next = self.text.get(behind).copied();
            if next.is_none_or(|next| is_space(next) || matches!(next, b'"' | b'(' | b')')) {
                return Some((join, behind));
            }
        }
        None
    }

    /// The next node of the bytes from `at` to `end`, and where the text goes on.
    fn next(&mut self, at: usize, end: usize) -> std::result::Result<(Next, usize), Fault> {
        let spaces = self.text[at..end].iter().take_while(|&&byte| is_space(byte)).count();
        let begin = at + spaces;
        if begin == end {
            return Ok((Next::End, end));
        }
        if let Some((join, behind)) = self.operator(begin, end) {
            let node = self.add(Draft::Join { join, left: None, right: None });
            return Ok((Next::Node(node), behind));
        }
        match self.text[begin] {
            b'"' => {
                let quoted = &self.text[begin + 1..end];
                let close = quoted.iter().position(|&byte| byte == b'"');
                let close = begin + 1 + close.ok_or(Fault::Malformed)?;
                return Ok((Next::Node(self.phrase(begin + 1, close)), close + 1));
            }
            b'(' if self.is_enhanced() => {
                self.nest += 1;
                if self.nest > NEST_MAX {
                    return Err(Fault::Malformed);
                }
                let (root, behind) = self.expression(begin + 1, end)?;
                return Ok((root.map_or(Next::Nothing, Next::Node), behind));
            }
            b')' if self.is_enhanced() => {
                self.nest -= 1;
                return Ok((Next::End, begin + 1));
            }
            _ => {}
        }
        let rest = &self.text[begin..end];
        let named = self.definition.columns.iter().position(|column| {
            rest.get(column.len()) == Some(&b':')
                && rest[..column.len()].eq_ignore_ascii_case(column.as_bytes())
        });
        Ok(match named {
            Some(column) => {
                let behind = begin + self.definition.columns[column].len() + 1;
                self.term(Some(column), behind, end)
            }
            None => self.term(self.column, at, end),
        })
    }

    /// The expression from `at` on, up to a closing parenthesis or `end`.
    fn expression(
        &mut self,
        mut at: usize,
        end: usize,
    ) -> std::result::Result<(Option<Id>, usize), Fault> {
        let mut root: Option<Id> = None;
        let mut before: Option<Id> = None;
        let mut excluded = Vec::new();
        let mut wants_phrase = true;
        loop {
            let (next, behind) = self.next(at, end)?;
            at = behind;
            let node = match next {
                Next::End => break,
                Next::Nothing => continue,
                Next::Excluded(node) => {
                    excluded.push(node);
                    continue;
                }
                Next::Node(node) => node,
            };
            let (is_term, is_phrase) = match &self.drafts[node].0 {
                Draft::Phrase(_) => (true, true),
                Draft::Join { left, .. } => (false, left.is_some()),
            };
            if !is_phrase && wants_phrase {
                return Err(Fault::Malformed);
            }
            if is_phrase && !wants_phrase {
                let draft = Draft::Join { join: Join::And, left: None, right: None };
                let and = self.add(draft);
                self.insert(&mut root, before, and);
                before = Some(and);
            }
            if let Some(before) = before {
                let is_near =
                    |draft: &Draft| matches!(draft, Draft::Join { join: Join::Near(_), .. });
                let after_term = matches!(self.drafts[before].0, Draft::Phrase(_));
                let starts_near = is_near(&self.drafts[node].0) && !is_phrase;
                let ends_near = is_near(&self.drafts[before].0);
                if starts_near && !after_term || !is_term && is_phrase && ends_near {
                    return Err(Fault::Malformed);
                }
            }
            if is_phrase {
                match (root, before) {
                    (Some(_), Some(before)) => {
                        if let Draft::Join { right, .. } = &mut self.drafts[before].0 {
                            *right = Some(node);
                        }
                        self.drafts[node].1 = Some(before);
                    }
                    _ => root = Some(node),
                }
            } else {
                self.insert(&mut root, before, node);
            }
            wants_phrase = !is_phrase;
            before = Some(node);
        }
        if root.is_some() && wants_phrase {
            return Err(Fault::Malformed);
        }
        if root.is_none() && !excluded.is_empty() {
            return Err(Fault::Malformed);
        }
        for node in excluded {
            let draft = Draft::Join { join: Join::Not, left: root, right: Some(node) };
            root = Some(self.add(draft));
        }
        Ok((root, at))
    }

    /// Inserts an operator to the right of the node read before.
    fn insert(&mut self, root: &mut Option<Id>, before: Option<Id>, operator: Id) {
        let Some(mut split) = before else { return };
        let strength = self.strength(operator);
        while let Some(parent) = self.drafts[split].1 {
            if self.strength(parent) > strength {
                break;
            }
            split = parent;
        }
        match self.drafts[split].1 {
            Some(parent) => {
                if let Draft::Join { right, .. } = &mut self.drafts[parent].0 {
                    *right = Some(operator);
                }
                self.drafts[operator].1 = Some(parent);
            }
            None => *root = Some(operator),
        }
        if let Draft::Join { left, .. } = &mut self.drafts[operator].0 {
            *left = Some(split);
        }
        self.drafts[split].1 = Some(operator);
    }

    /// Small for tightly binding operators.
    fn strength(&self, node: Id) -> u8 {
        let Draft::Join { join, .. } = &self.drafts[node].0 else { return 0 };
        match (join, self.syntax) {
            (Join::Near(_), _) => 1,
            (Join::Or, Fts3Syntax::Standard) | (Join::Not, _) => 2,
            (Join::And, _) => 3,
            (Join::Or, Fts3Syntax::Enhanced) => 4,
        }
    }

    fn children(&self, node: Id) -> std::result::Result<(Id, Id), Fault> {
        match &self.drafts[node].0 {
            Draft::Join { left: Some(left), right: Some(right), .. } => Ok((*left, *right)),
            _ => Err(Fault::Malformed),
        }
    }

    /// Puts a node into `nodes`, chains of one operator as trees of few levels.
    fn balance(
        &self,
        node: Id,
        levels: usize,
        nodes: &mut Vec<Kind>,
    ) -> std::result::Result<Id, Fault> {
        if levels == 0 {
            return Err(Fault::Malformed);
        }
        let add = |nodes: &mut Vec<Kind>, kind| {
            nodes.push(kind);
            nodes.len() - 1
        };
        let join = match &self.drafts[node].0 {
            Draft::Phrase(phrase) => return Ok(add(nodes, Kind::Phrase(phrase.clone()))),
            Draft::Join { join, .. } => *join,
        };
        match join {
            Join::Near(_) => self.near(node, nodes),
            Join::Not => {
                let (left, right) = self.children(node)?;
                let left = self.balance(left, levels - 1, nodes)?;
                let right = self.balance(right, levels - 1, nodes)?;
                Ok(add(nodes, Kind::Join(join, left, right)))
            }
            Join::And | Join::Or => {
                // A slot of level n holds a tree of 2^n operands.
                let mut slots: Vec<Option<Id>> = vec![None; levels];
                let mut waiting = vec![node];
                while let Some(next) = waiting.pop() {
                    if matches!(&self.drafts[next].0, Draft::Join { join: own, .. } if *own == join)
                    {
                        let (left, right) = self.children(next)?;
                        waiting.extend([right, left]);
                        continue;
                    }
                    let mut tree = self.balance(next, levels - 1, nodes)?;
                    let mut is_placed = false;
                    for slot in &mut slots {
                        match slot.take() {
                            Some(left) => tree = add(nodes, Kind::Join(join, left, tree)),
                            None => {
                                *slot = Some(tree);
                                is_placed = true;
                                break;
                            }
                        }
                    }
                    if !is_placed {
                        return Err(Fault::TooDeep);
                    }
                }
                let trees = slots.into_iter().flatten();
                let whole = trees.reduce(|right, left| add(nodes, Kind::Join(join, left, right)));
                whole.ok_or(Fault::Malformed)
            }
        }
    }

    /// Puts a chain of `NEAR` into `nodes`.
    fn near(&self, node: Id, nodes: &mut Vec<Kind>) -> std::result::Result<Id, Fault> {
        let (mut joins, mut first) = (Vec::new(), node);
        while let Draft::Join { join, .. } = &self.drafts[first].0 {
            let (left, right) = self.children(first)?;
            let Draft::Phrase(phrase) = &self.drafts[right].0 else { return Err(Fault::Malformed) };
            joins.push((*join, phrase));
            if joins.len() > DEPTH_MAX {
                return Err(Fault::TooDeep);
            }
            first = left;
        }
        let Draft::Phrase(phrase) = &self.drafts[first].0 else { return Err(Fault::Malformed) };
        nodes.push(Kind::Phrase(phrase.clone()));
        for (join, phrase) in joins.into_iter().rev() {
            let left = nodes.len() - 1;
            nodes.push(Kind::Phrase(phrase.clone()));
            nodes.push(Kind::Join(join, left, left + 1));
        }
        Ok(nodes.len() - 1)
    }

    /// Refuses trees of too many levels.
    fn check_depth(&self, tree: &Tree) -> std::result::Result<(), Fault> {
        let mut waiting: Vec<(Id, usize)> = tree.root.map(|root| (root, 0)).into_iter().collect();
        while let Some((node, depth)) = waiting.pop() {
            if depth > DEPTH_MAX {
                return Err(Fault::TooDeep);
            }
            if let Kind::Join(_, left, right) = tree.nodes[node] {
                waiting.extend([(left, depth + 1), (right, depth + 1)]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fts3Syntax, Id, Join, Kind, Tree};
    use crate::fts3::definition::Definition;

    fn shown(tree: &Tree, node: Id) -> String {
        match &tree.nodes[node] {
            Kind::Phrase(phrase) => {
                let terms = phrase.terms.iter().map(|term| {
                    let first = if term.is_first { "^" } else { "" };
                    let prefix = if term.is_prefix { "*" } else { "" };
                    format!("{first}{}{prefix}", String::from_utf8_lossy(&term.bytes))
                });
                let column = phrase.column.map_or(String::new(), |column| format!("{column}:"));
                format!("{column}{}", terms.collect::<Vec<_>>().join("+"))
            }
            Kind::Join(join, left, right) => {
                let name = match join {
                    Join::Near(distance) => format!("NEAR/{distance}"),
                    Join::Not => "NOT".to_owned(),
                    Join::And => "AND".to_owned(),
                    Join::Or => "OR".to_owned(),
                };
                format!("({} {name} {})", shown(tree, *left), shown(tree, *right))
            }
        }
    }

    fn parse(syntax: Fts3Syntax, text: &str) -> Result<String, String> {
        let arguments = ["a".to_owned(), "b".to_owned()];
        let definition = Definition::parse(("main", "t"), true, &arguments, |_| Ok(Vec::new()));
        let tree = Tree::parse(&definition.expect("it reads"), syntax, text.as_bytes(), None);
        let tree = tree.map_err(|error| error.to_string())?;
        Ok(tree.root.map_or(String::new(), |root| shown(&tree, root)))
    }

    #[test]
    fn the_enhanced_grammar() {
        let cases = [
            ("one two", "(one AND two)"),
            ("one OR two three", "(one OR (two AND three))"),
            ("one NOT two AND three", "((one NOT two) AND three)"),
            ("(one OR two) three", "((one OR two) AND three)"),
            ("one NEAR two NEAR/3 three", "((one NEAR/10 two) NEAR/3 three)"),
            ("b:^wo* \"two ^three*\"", "(1:^wo* AND two+^three*)"),
            ("one -two", "(one AND two)"),
            ("one and two", "((one AND and) AND two)"),
            ("one a:\"two three\"", "one"),
            ("((a:\"two\" three)) four)", "(two AND three)"),
            ("()", ""),
            ("", ""),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(Fts3Syntax::Enhanced, text).as_deref(), Ok(wanted), "{text}");
        }
        for text in ["one AND", "(one", "one)", "\"one", "OR one", "(one OR two) NEAR three"] {
            let wanted = format!("malformed MATCH expression: [{text}]");
            assert_eq!(parse(Fts3Syntax::Enhanced, text), Err(wanted));
        }
        let deep = format!("{}one", "one NEAR ".repeat(13));
        let wanted = "FTS expression tree is too large (maximum depth 12)";
        assert_eq!(parse(Fts3Syntax::Enhanced, &deep), Err(wanted.to_owned()));
        assert!(parse(Fts3Syntax::Enhanced, &"one ".repeat(4000)).is_ok());
        assert!(parse(Fts3Syntax::Enhanced, &"(".repeat(100_000)).is_err());
    }

    #[test]
    fn the_standard_grammar() {
        let cases = [
            ("one OR two three", "((one OR two) AND three)"),
            ("one -two three b:-four", "(((one AND three) NOT two) NOT 1:four)"),
            ("one -b:four", "((one AND four) NOT b)"),
            ("one AND two", "((one AND and) AND two)"),
            ("one NOT (two)", "((one AND not) AND two)"),
            ("one NEAR/2 two", "(one NEAR/2 two)"),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(Fts3Syntax::Standard, text).as_deref(), Ok(wanted), "{text}");
        }
        assert!(parse(Fts3Syntax::Standard, "-one").is_err());
    }
}
