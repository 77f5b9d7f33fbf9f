//! The modes of `sqlite3` printed only once all rows are known: `column`, `table`, `box` and
//! `markdown`.

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text_15};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::lines::c_text;
use super::literal::literal;
use super::style::{Mode, Style};

/// The rows of a statement, as they will stand in their columns.
#[derive(Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// Row by row, the lines of each cell.
    cells: Vec<Vec<String>>,
}

impl Columns {
    /// Begins the rows of a statement.
    pub(super) fn begin(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.cells.clear();
    }

    /// Takes a row.
    pub(super) fn row(&mut self, style: &Style, row: &[ValueRef<'_>]) {
        for (column, value) in row.iter().enumerate() {
            let text = match value {
                ValueRef::Real(value) if style.quote => real_to_text_15(*value).into_bytes(),
                value if style.quote => {
                    let mut text = Vec::new();
                    literal(&mut text, value).expect("a vector takes every byte");
                    if let ValueRef::Blob(_) = value {
                        text[0] = b'x';
                    }
                    text
                }
                value => c_text(value, &style.null),
            };
            let text = String::from_utf8_lossy(&text);
            self.cells.push(wrapped(&text, style.wrap_at(column), style.word_wrap));
        }
    }

    /// Prints all of them.
    pub(super) fn end(&mut self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let names = std::mem::take(&mut self.names);
        let cells = std::mem::take(&mut self.cells);
        if names.is_empty() || cells.is_empty() {
            return Ok(());
        }
        let headings: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(column, name)| {
                let lines = wrapped(name, style.wrap_at(column), style.word_wrap);
                lines.into_iter().next().unwrap_or_default()
            })
            .collect();
        let widest = |column: usize| {
            let rows = cells.chunks(names.len()).flat_map(|row| row[column].iter());
            let cells = rows.map(|line| line.width()).max().unwrap_or(0);
            let least = style.widths.get(column).map_or(0, |width| width.unsigned_abs() as usize);
            cells.max(headings[column].width()).max(least)
        };
        let widths: Vec<usize> = (0..names.len()).map(widest).collect();
        let frame = Frame::of(style.mode);
        let several = cells.iter().any(|cell| cell.len() > 1);
        if style.mode == Mode::Column {
            if style.headers {
                frame.line(out, style, &widths, |column| (headings[column].as_str(), false))?;
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                frame.line(out, style, &widths, |column| (rules[column].as_str(), false))?;
            }
        } else {
            frame.rule(out, &widths, frame.top)?;
            frame.line(out, style, &widths, |column| (headings[column].as_str(), true))?;
            frame.rule(out, &widths, frame.middle)?;
        }
        for (number, row) in cells.chunks(names.len()).enumerate() {
            if several && number > 0 {
                match style.mode {
                    Mode::Column => out.write_all(b"\n")?,
                    Mode::Markdown => {}
                    _ => frame.rule(out, &widths, frame.middle)?,
                }
            }
            let height = row.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let text = |column: usize| row[column].get(line).map_or("", String::as_str);
                frame.line(out, style, &widths, |column| (text(column), false))?;
            }
        }
        frame.rule(out, &widths, frame.bottom)
    }
}

/// The lines drawn around cells.
struct Frame {
    left: &'static str,
    between: &'static str,
    right: &'static str,
    rule: &'static str,
    /// The left end, the crossings and the right end of each rule; none is drawn where they are
    /// empty.
    top: [&'static str; 3],
    middle: [&'static str; 3],
    bottom: [&'static str; 3],
}

impl Frame {
    fn of(mode: Mode) -> Frame {
        let none = ["", "", ""];
        match mode {
            Mode::Box => Frame {
                left: "│ ",
                between: " │ ",
                right: " │\n",
                rule: "─",
                top: ["┌", "┬", "┐"],
                middle: ["├", "┼", "┤"],
                bottom: ["└", "┴", "┘"],
            },
            Mode::Table => {
                let rule = ["+", "+", "+"];
                Frame {
                    left: "| ",
                    between: " | ",
                    right: " |\n",
                    rule: "-",
                    top: rule,
                    middle: rule,
                    bottom: rule,
                }
            }
            Mode::Markdown => Frame {
                left: "| ",
                between: " | ",
                right: " |\n",
                rule: "-",
                top: none,
                middle: ["|", "|", "|"],
                bottom: none,
            },
            _ => Frame {
                left: "",
                between: "  ",
                right: "\n",
                rule: "-",
                top: none,
                middle: none,
                bottom: none,
            },
        }
    }

    fn rule(&self, out: &mut impl Write, widths: &[usize], ends: [&str; 3]) -> io::Result<()> {
        if ends[0].is_empty() {
            return Ok(());
        }
        for (column, width) in widths.iter().enumerate() {
            out.write_all(ends[usize::from(column > 0)].as_bytes())?;
            out.write_all(self.rule.repeat(width + 2).as_bytes())?;
        }
        writeln!(out, "{}", ends[2])
    }

    /// One line of a row; `cell` gives a column's text, and true for text in the middle.
    fn line<'a>(
        &self,
        out: &mut impl Write,
        style: &Style,
        widths: &[usize],
        cell: impl Fn(usize) -> (&'a str, bool),
    ) -> io::Result<()> {
        out.write_all(self.left.as_bytes())?;
        for (column, width) in widths.iter().enumerate() {
            if column > 0 {
                out.write_all(self.between.as_bytes())?;
            }
            let (text, centred) = cell(column);
            let gap = width.saturating_sub(text.width());
            let to_the_right = style.widths.get(column).is_some_and(|width| *width < 0);
            let before = match (centred, to_the_right) {
                (true, _) => gap / 2,
                (false, true) => gap,
                (false, false) => 0,
            };
            write!(out, "{:before$}{text}{:after$}", "", "", after = gap - before)?;
        }
        out.write_all(self.right.as_bytes())
    }
}

/// The lines of a text: at least one for each of its own, none wider than `limit`. Tabs go on to
/// the next multiple of 8 columns, other control characters become their escapes.
fn wrapped(text: &str, limit: Option<usize>, word_wrap: bool) -> Vec<String> {
    let limit = limit.unwrap_or(usize::MAX).max(1);
    let text = text.replace("\r\n", "\n");
    let mut lines = Vec::new();
    for own in text.strip_suffix('\n').unwrap_or(&text).split(['\n', '\r']) {
        let mut rest: Vec<char> = expanded(own, limit);
        loop {
            let mut width = 0;
            let mut fits = 0;
            for character in &rest {
                width += character.width().unwrap_or(0);
                if width > limit && fits > 0 {
                    break;
                }
                fits += 1;
            }
            if fits == rest.len() {
                lines.push(rest.into_iter().collect());
                break;
            }
            let between_words = if word_wrap { word_end(&rest, fits) } else { None };
            let end = between_words.unwrap_or(fits);
            lines.push(rest[..end].iter().collect());
            let skipped = match between_words {
                Some(end) => rest[end..].iter().take_while(|c| **c == ' ').count(),
                None => 0,
            };
            rest.drain(..end + skipped);
        }
    }
    lines
}

/// Where a line of at most `fits` characters ends best: behind a blank, or else where letters and
/// other characters meet, in its second half.
fn word_end(text: &[char], fits: usize) -> Option<usize> {
    let half = fits / 2;
    let blank = (half + 1..=fits).rev().find(|end| text[end - 1].is_whitespace());
    let border = || {
        let differ = |end: &usize| text[end - 1].is_alphanumeric() != text[*end].is_alphanumeric();
        (half + 1..=fits).rev().find(differ)
    };
    blank.or_else(border)
}

/// The characters of a line broken every `limit` columns; a tab ends at the limit at the latest.
fn expanded(line: &str, limit: usize) -> Vec<char> {
    let mut characters = Vec::with_capacity(line.len());
    let mut column = 0;
    for character in line.chars() {
        match character {
            '\t' => {
                let to_stop = (8 - column % 8).min(limit.saturating_sub(column)).max(1);
                characters.extend(std::iter::repeat_n(' ', to_stop));
                column += to_stop;
            }
            character if character.is_control() => {
                let before = characters.len();
                characters.extend(character.escape_default());
                column += characters.len() - before;
            }
            character => {
                characters.push(character);
                column += character.width().unwrap_or(0);
            }
        }
        if column >= limit {
            column = 0;
        }
    }
    characters
}
