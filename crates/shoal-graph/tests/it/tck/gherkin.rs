//! Feature files: scenarios, outlines with their examples, tables and texts.

/// One case: a scenario, or an outline with one row of its examples.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

/// One step with the table or the text below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) doc: Option<String>,
    pub(crate) table: Vec<Vec<String>>,
}

/// The cases of a feature file.
pub(crate) fn cases(text: &str) -> Vec<Case> {
    let mut reader = Reader { lines: text.lines().collect(), at: 0 };
    let mut cases = Vec::new();
    let mut feature = String::new();
    let mut background: Vec<Step> = Vec::new();
    let mut tags = Vec::new();
    while let Some(line) = reader.next() {
        if let Some(name) = line.strip_prefix("Feature:") {
            feature = name.trim().to_owned();
            tags.clear();
        } else if line.starts_with('@') {
            tags.extend(line.split_whitespace().map(str::to_owned));
        } else if line.starts_with("Background:") {
            background = reader.steps();
        } else if let Some(name) = line.strip_prefix("Scenario Outline:") {
            let name = format!("{feature} {}", name.trim());
            let steps = reader.steps();
            let mut number = 0;
            while reader
                .peek()
                .is_some_and(|line| line.starts_with("Examples:") || line.starts_with('@'))
            {
                reader.next();
                let table = reader.table();
                let Some((header, rows)) = table.split_first() else { continue };
                for row in rows {
                    number += 1;
                    let fill = |text: &str| {
                        header.iter().zip(row).fold(text.to_owned(), |text, (key, value)| {
                            text.replace(&format!("<{key}>"), value)
                        })
                    };
                    let all = background.iter().chain(&steps).map(|step| Step {
                        text: fill(&step.text),
                        doc: step.doc.as_deref().map(fill),
                        table: step
                            .table
                            .iter()
                            .map(|row| row.iter().map(|cell| fill(cell)).collect())
                            .collect(),
                    });
                    cases.push(Case {
                        name: format!("{name} #{number}"),
                        tags: tags.clone(),
                        steps: all.collect(),
                    });
                }
            }
            tags.clear();
        } else if let Some(name) = line.strip_prefix("Scenario:") {
            let steps = background.iter().cloned().chain(reader.steps()).collect();
            let name = format!("{feature} {}", name.trim());
            cases.push(Case { name, tags: std::mem::take(&mut tags), steps });
        }
    }
    cases
}

struct Reader<'t> {
    lines: Vec<&'t str>,
    at: usize,
}

impl<'t> Reader<'t> {
    /// The next line that is neither empty nor a comment.
    fn peek(&mut self) -> Option<&'t str> {
        while let Some(line) = self.lines.get(self.at) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                return Some(line);
            }
            self.at += 1;
        }
        None
    }

    fn next(&mut self) -> Option<&'t str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(line) = self.peek() {
            const WORDS: [&str; 5] = ["Given ", "When ", "Then ", "And ", "But "];
            let Some(word) = WORDS.iter().find(|word| line.starts_with(**word)) else { break };
            self.at += 1;
            let mut step = Step { text: line[word.len()..].trim().to_owned(), ..Step::default() };
            if self.peek().is_some_and(|line| line.starts_with("\"\"\"")) {
                step.doc = Some(self.doc());
            }
            step.table = self.table();
            steps.push(step);
        }
        steps
    }

    fn doc(&mut self) -> String {
        let indent = self.lines[self.at].len() - self.lines[self.at].trim_start().len();
        self.at += 1;
        let mut text = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            if line.trim() == "\"\"\"" {
                break;
            }
            text.push(line.get(indent..).unwrap_or(line.trim_start()));
        }
        text.join("\n")
    }

    fn table(&mut self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        while let Some(line) = self.peek() {
            if !line.starts_with('|') {
                break;
            }
            self.at += 1;
            rows.push(cells(line));
        }
        rows
    }
}

fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = line[1..].chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('|') => cell.push('|'),
                Some('n') => cell.push('\n'),
                Some(other) => cell.extend(['\\', other]),
                None => cell.push('\\'),
            },
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    cells
}
