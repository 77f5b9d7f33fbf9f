//! Values of the kit's tables, and values of results, in one form that can be compared.

use shoal_graph::Value;

/// A value as text, the same for equal values: labels and keys sorted, floats as they are read.
pub(crate) fn of_value(value: &Value, sorts_lists: bool) -> String {
    match value {
        Value::Float(number) => float(*number),
        Value::Text(text) => format!("'{text}'"),
        Value::List(list) => {
            joined_list(list.iter().map(|one| of_value(one, sorts_lists)).collect(), sorts_lists)
        }
        Value::Map(map) => {
            let fields =
                map.iter().map(|(key, value)| format!("{key}: {}", of_value(value, sorts_lists)));
            format!("{{{}}}", sorted(fields.collect()))
        }
        Value::WholeNode(node) => {
            let labels = node.labels.iter().map(|label| format!(":{label}")).collect();
            element("(", labels, &properties(&node.properties, sorts_lists), ")")
        }
        Value::WholeRelationship(one) => element(
            "[",
            vec![format!(":{}", one.kind)],
            &properties(&one.properties, sorts_lists),
            "]",
        ),
        Value::WholePath(path) => {
            let node = |at: usize| of_value(&Value::WholeNode(path.nodes[at].clone()), sorts_lists);
            let mut text = format!("<{}", node(0));
            for (at, one) in path.relationships.iter().enumerate() {
                let inner = of_value(&Value::WholeRelationship(one.clone()), sorts_lists);
                // A loop points both ways; the kit writes it to the right.
                match one.source == path.nodes[at].id {
                    true => text.push_str(&format!("-{inner}->{}", node(at + 1))),
                    false => text.push_str(&format!("<-{inner}-{}", node(at + 1))),
                }
            }
            text + ">"
        }
        other => other.to_string(),
    }
}

fn properties(map: &shoal_graph::Map, sorts_lists: bool) -> String {
    sorted(
        map.iter().map(|(key, value)| format!("{key}: {}", of_value(value, sorts_lists))).collect(),
    )
}

fn element(open: &str, mut labels: Vec<String>, properties: &str, close: &str) -> String {
    labels.sort();
    let space = if labels.is_empty() { "" } else { " " };
    match properties.is_empty() {
        true => format!("{open}{}{close}", labels.concat()),
        false => format!("{open}{}{space}{{{properties}}}{close}", labels.concat()),
    }
}

fn float(number: f64) -> String {
    if number.is_nan() { "NaN".to_owned() } else { format!("{:?}", number + 0.0) }
}

fn sorted(mut parts: Vec<String>) -> String {
    parts.sort();
    parts.join(", ")
}

fn joined_list(mut parts: Vec<String>, sorts: bool) -> String {
    if sorts {
        parts.sort();
    }
    format!("[{}]", parts.join(", "))
}

/// A cell of a table in the form of [`of_value`].
pub(crate) fn of_cell(cell: &str, sorts_lists: bool) -> Result<String, String> {
    let mut reader = Cell { text: cell, at: 0, sorts_lists };
    let value = reader.value()?;
    reader.space();
    if reader.at < cell.len() {
        Err(format!("unread in {cell}: {}", &cell[reader.at..]))
    } else {
        Ok(value)
    }
}

struct Cell<'t> {
    text: &'t str,
    at: usize,
    sorts_lists: bool,
}

impl<'t> Cell<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let is = self.rest().starts_with(sign);
        if is {
            self.at += sign.len();
        }
        is
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(format!("no {sign} at {} of {}", self.at, self.text))
        }
    }

    fn word(&mut self) -> String {
        self.space();
        let end = self
            .rest()
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_owned();
        self.at += end;
        word
    }

    fn value(&mut self) -> Result<String, String> {
        self.space();
        let rest = self.rest();
        if rest.starts_with('\'') {
            return Ok(format!("'{}'", self.string()));
        }
        if rest.starts_with('{') {
            return Ok(format!("{{{}}}", self.fields()?));
        }
        if rest.starts_with("[:") {
            return self.relationship();
        }
        if self.take("[") {
            let mut parts = Vec::new();
            while !self.take("]") {
                parts.push(self.value()?);
                self.take(",");
            }
            return Ok(joined_list(parts, self.sorts_lists));
        }
        if rest.starts_with('(') {
            return self.node();
        }
        if rest.starts_with('<') {
            return self.path();
        }
        let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
        let atom = rest[..end].trim();
        self.at += end;
        Ok(match atom {
            "NaN" => float(f64::NAN),
            "Inf" => float(f64::INFINITY),
            "-Inf" => float(f64::NEG_INFINITY),
            atom if atom.parse::<i64>().is_ok() => atom.to_owned(),
            atom => atom.parse::<f64>().map_or(atom.to_owned(), float),
        })
    }

    fn string(&mut self) -> String {
        self.at += 1;
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => text.extend(characters.next().map(|(_, c)| c)),
                '\'' => {
                    self.at += at + 1;
                    return text;
                }
                c => text.push(c),
            }
        }
        self.at = self.text.len();
        text
    }

    fn fields(&mut self) -> Result<String, String> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let key = if self.take("`") {
                let end = self.rest().find('`').unwrap_or(0);
                let key = self.rest()[..end].to_owned();
                self.at += end + 1;
                key
            } else {
                self.word()
            };
            self.expect(":")?;
            fields.push(format!("{key}: {}", self.value()?));
            self.take(",");
        }
        Ok(sorted(fields))
    }

    fn labels(&mut self) -> Vec<String> {
        let mut labels = Vec::new();
        while self.take(":") {
            labels.push(format!(":{}", self.word()));
        }
        labels
    }

    fn inner(&mut self, open: &str, close: &str) -> Result<String, String> {
        self.expect(open)?;
        let labels = self.labels();
        self.space();
        let fields = if self.rest().starts_with('{') { self.fields()? } else { String::new() };
        self.expect(close)?;
        Ok(element(open, labels, &fields, close))
    }

    fn node(&mut self) -> Result<String, String> {
        self.inner("(", ")")
    }

    fn relationship(&mut self) -> Result<String, String> {
        self.inner("[", "]")
    }

    fn path(&mut self) -> Result<String, String> {
        self.expect("<")?;
        let mut text = format!("<{}", self.node()?);
        loop {
            if self.take(">") {
                return Ok(text + ">");
            }
            let left = self.take("<-");
            if !left {
                self.expect("-")?;
            }
            let relationship = self.relationship()?;
            self.expect(if left { "-" } else { "->" })?;
            let node = self.node()?;
            match left {
                true => text.push_str(&format!("<-{relationship}-{node}")),
                false => text.push_str(&format!("-{relationship}->{node}")),
            }
        }
    }
}
