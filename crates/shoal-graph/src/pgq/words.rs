//! The words of SQL/PGQ, where brackets are signs: names, texts, numbers, parameters, signs.

use shoal_sql::Error;

/// A word and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    pub(super) kind: Kind,
    /// As written, with its quotes.
    pub(super) text: &'t str,
    pub(super) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name without quotes, or a keyword.
    Name,
    /// A name in double quotes or backticks.
    Quoted,
    Text,
    Number,
    Parameter,
    Sign,
    End,
}

impl Word<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// True of a keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.kind == Kind::Name && self.text.eq_ignore_ascii_case(keyword)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// The name, quotes undone; `None` for other words.
    pub(super) fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Name => Some(self.text.to_owned()),
            Kind::Quoted => {
                let quote = &self.text[..1];
                let inner = &self.text[1..self.text.len() - 1];
                Some(inner.replace(&quote.repeat(2), quote))
            }
            _ => None,
        }
    }
}

/// Words one after the other.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    all: Vec<Word<'t>>,
    at: usize,
}

impl<'t> Words<'t> {
    /// The words of a text, up to the first that cannot be one; up to the parenthesis that closes
    /// more than was opened where `is_inside`.
    ///
    /// # Errors
    /// A literal, name or comment without its end.
    pub(super) fn new(text: &'t str, is_inside: bool) -> Result<Words<'t>, Error> {
        let mut all = Vec::new();
        let (mut at, mut depth) = (0, 0_usize);
        loop {
            at = skip_blanks(text, at)?;
            let Some(c) = text[at..].chars().next() else { break };
            let (kind, end) = word_at(text, at, c)?;
            let word = Word { kind, text: &text[at..end], start: at };
            match word.text {
                "(" => depth += 1,
                ")" if depth == 0 && is_inside => {
                    all.push(word);
                    return Ok(Words { text, all, at: 0 });
                }
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            all.push(word);
            at = end;
        }
        match is_inside {
            true => Err(at_place("a closing parenthesis is missing", text.len())),
            false => Ok(Words { text, all, at: 0 }),
        }
    }

    /// Some words that were read before.
    pub(super) fn of(words: &[Word<'t>]) -> Words<'t> {
        Words { text: "", all: words.to_vec(), at: 0 }
    }

    pub(super) fn peek(&self) -> Word<'t> {
        self.ahead(0)
    }

    /// A word behind the next one.
    pub(super) fn ahead(&self, count: usize) -> Word<'t> {
        let end = Word { kind: Kind::End, text: "", start: self.text.trim_end().len() };
        self.all.get(self.at + count).copied().unwrap_or(end)
    }

    pub(super) fn next(&mut self) -> Word<'t> {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// The words still to come.
    pub(super) fn rest(&self) -> &[Word<'t>] {
        &self.all[self.at.min(self.all.len())..]
    }

    /// The text from the first to the last of some words.
    pub(super) fn text_of(&self, words: &[Word<'t>]) -> &'t str {
        match words {
            [first, .., last] => &self.text[first.start..last.end()],
            [one] => one.text,
            [] => "",
        }
    }

    /// The place of the next word among all.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Takes a keyword if it is next.
    pub(super) fn take(&mut self, keyword: &str) -> bool {
        let is_next = self.peek().is(keyword);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes a sign if it is next.
    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let is_next = self.peek().is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, keyword: &str) -> Result<(), Error> {
        if self.take(keyword) { Ok(()) } else { Err(self.unexpected(keyword)) }
    }

    pub(super) fn expect_sign(&mut self, sign: &str) -> Result<(), Error> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    /// Takes a name.
    pub(super) fn expect_name(&mut self, what: &str) -> Result<String, Error> {
        let Some(name) = self.peek().name() else { return Err(self.unexpected(what)) };
        self.at += 1;
        Ok(name)
    }

    /// Takes a whole number.
    pub(super) fn take_number(&mut self) -> Option<u32> {
        let word = self.peek();
        let number = (word.kind == Kind::Number).then(|| word.text.parse().ok()).flatten()?;
        self.at += 1;
        Some(number)
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        let word = self.peek();
        let message = match word.kind {
            Kind::End => format!("the text ends where {wanted} is expected"),
            _ => format!("near \"{}\": {wanted} is expected", word.text),
        };
        at_place(&message, word.start)
    }

    /// The words up to one of some keywords, a comma where `ends_at_comma`, or a closing sign, all
    /// outside of parentheses of their own: an expression.
    pub(super) fn expression(
        &mut self,
        keywords: &[&str],
        ends_at_comma: bool,
    ) -> Result<Vec<Word<'t>>, Error> {
        let mut depth = 0_usize;
        let mut words = Vec::new();
        loop {
            let word = self.peek();
            let ends = match word.text {
                ")" | "]" | "}" => depth == 0,
                "," => depth == 0 && ends_at_comma,
                _ => depth == 0 && keywords.iter().any(|keyword| word.is(keyword)),
            };
            if ends || word.kind == Kind::End {
                break;
            }
            match word.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            words.push(self.next());
        }
        if words.is_empty() { Err(self.unexpected("an expression")) } else { Ok(words) }
    }
}

/// An error with its place in the text.
pub(super) fn at_place(message: &str, place: usize) -> Error {
    Error::Meaning { message: message.to_owned(), offset: Some(place) }
}

fn skip_blanks(text: &str, mut at: usize) -> Result<usize, Error> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| at_place("a comment has no end", at))?;
            at += end + 2;
        } else if rest.starts_with("--") && !rest.starts_with("-->") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            return Ok(at);
        }
    }
}

fn word_at(text: &str, at: usize, first: char) -> Result<(Kind, usize), Error> {
    let rest = &text[at..];
    let run =
        |is_part: fn(char) -> bool| at + rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    Ok(match first {
        '\'' => (Kind::Text, quoted(text, at, '\'')?),
        '"' => (Kind::Quoted, quoted(text, at, '"')?),
        '`' => (Kind::Quoted, quoted(text, at, '`')?),
        'x' | 'X' if rest[1..].starts_with('\'') => (Kind::Text, quoted(text, at + 1, '\'')?),
        c if c.is_alphabetic() || c == '_' => (Kind::Name, run(is_name)),
        c if c.is_ascii_digit() => (Kind::Number, number_end(text, at)),
        '?' | ':' | '@' | '$' => {
            let name = rest[1..].find(|c: char| !is_name(c)).unwrap_or(rest.len() - 1);
            match (first, name) {
                (':', 0) => (Kind::Sign, at + 1),
                _ => (Kind::Parameter, at + 1 + name),
            }
        }
        c => (Kind::Sign, at + c.len_utf8()),
    })
}

fn number_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = at;
    while let Some(&byte) = bytes.get(end) {
        let is_exponent_sign = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        let is_point = byte == b'.' && bytes.get(end + 1) != Some(&b'.');
        if !(byte.is_ascii_alphanumeric()
            || byte == b'_'
            || is_point
            || is_exponent_sign && end > at)
        {
            break;
        }
        end += 1;
    }
    end
}

/// The end of a quoted word, whose quote may stand in it doubled.
fn quoted(text: &str, at: usize, quote: char) -> Result<usize, Error> {
    let mut from = at + 1;
    loop {
        let Some(place) = text[from..].find(quote) else {
            return Err(at_place("a quote has no end", at));
        };
        from += place + 1;
        if !text[from..].starts_with(quote) {
            return Ok(from);
        }
        from += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_kinds_and_places() {
        let text = "(a IS \"P x\")-[e:k WHERE e.w>=1.5e-3 AND x <> ']']->{1,3} -- end\n?1 :b) more";
        let words = Words::new(text, true).unwrap();
        let texts: Vec<&str> = words.all.iter().map(|word| word.text).collect();
        assert_eq!(
            texts,
            [
                "(", "a", "IS", "\"P x\"", ")", "-", "[", "e", ":k", "WHERE", "e", ".", "w", ">",
                "=", "1.5e-3", "AND", "x", "<", ">", "']'", "]", "-", ">", "{", "1", ",", "3", "}",
                "?1", ":b", ")"
            ]
        );
        assert_eq!(words.all.last().map(Word::end), Some(text.len() - " more".len()));
        assert_eq!(words.all[3].name().as_deref(), Some("P x"));
    }

    #[test]
    fn what_is_not_closed_is_told() {
        for text in ["'a", "\"a", "/* a", "(a"] {
            assert!(Words::new(text, true).is_err(), "{text}");
        }
    }
}
