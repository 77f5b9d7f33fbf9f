//! A template of a node: the header to try nonces on, and how to hand the nonce in.

use serde_json::{Value, json};
use shoal_pow::{TAG_BYTES, Target};
use shoal_stdx::hex;

use crate::source::clean;

/// A block without its nonce.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The block header without its nonce, unaltered: the node keeps the same bytes.
    pub header: Vec<u8>,
    /// Greatest tag of a block.
    pub target: Target,
    /// Height of the block.
    pub height: u64,
    /// Hashes a block takes on average.
    pub difficulty: u64,
    /// End of the lease, in milliseconds since 1970.
    pub expires_unix_ms: Option<u64>,
    handle: Handle,
}

/// The node's handle of a template.
#[derive(Clone, Debug, PartialEq)]
enum Handle {
    /// By its name.
    Id(String),
    /// None: the node gets the whole block back.
    Block(Value),
}

/// An answer other than a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {part}: {why}")]
pub struct TemplateError {
    /// The wrong part.
    pub part: &'static str,
    /// The reason, fit to be shown.
    pub why: String,
}

impl Template {
    /// Reads a node's answer.
    ///
    /// # Errors
    /// [`TemplateError`], with the part.
    pub fn read(body: &[u8]) -> Result<Self, TemplateError> {
        let mut value: Value =
            serde_json::from_slice(body).map_err(|error| wrong("JSON", error.to_string()))?;
        let text = |value: &Value, name: &'static str| {
            let text = value[name].as_str().map(str::to_owned);
            text.ok_or_else(|| wrong(name, "not a text"))
        };
        let header = hex::decode(&text(&value, "header_base")?)
            .map_err(|error| wrong("header_base", error.to_string()))?;
        if header.len() != HEADER_BYTES {
            return Err(wrong("header_base", format!("{} bytes long", header.len())));
        }
        let target = hex::decode(&text(&value, "target")?)
            .map_err(|error| wrong("target", error.to_string()))?;
        let length = target.len();
        let target: [u8; TAG_BYTES] =
            target.try_into().map_err(|_| wrong("target", format!("{length} bytes long")))?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (height, difficulty) = (number(HEIGHT_AT), number(DIFFICULTY_AT));
        let told = &value["block"]["header"];
        if let Some(said) = told["Height"].as_u64().or_else(|| told["height"].as_u64())
            && said != height
        {
            return Err(wrong("block", format!("height {said}, but {height} in header_base")));
        }
        let expires_unix_ms = value["template_expires_at_unix_ms"].as_u64();
        let handle = match value["template_id"].as_str() {
            Some(id) if !id.is_empty() && id.len() <= ID_MAX => Handle::Id(id.to_owned()),
            Some(id) => return Err(wrong("template_id", format!("{} bytes long", id.len()))),
            None if value["block"].is_object() => Handle::Block(value["block"].take()),
            None => return Err(wrong("template_id", "missing, and so is the block")),
        };
        Ok(Self {
            header,
            target: Target::from_bytes(target),
            height,
            difficulty,
            expires_unix_ms,
            handle,
        })
    }

    /// Its name.
    pub fn name(&self) -> String {
        match &self.handle {
            Handle::Id(id) => id.clone(),
            Handle::Block(_) => format!("{}", self.height),
        }
    }

    /// Its name at the node, if any.
    pub fn id(&self) -> Option<&str> {
        match &self.handle {
            Handle::Id(id) => Some(id),
            Handle::Block(_) => None,
        }
    }

    /// The body of a submit of this nonce.
    pub fn submission(&self, nonce: u64) -> Value {
        match &self.handle {
            Handle::Id(id) => json!({ "template_id": id, "nonce": nonce }),
            Handle::Block(block) => {
                let mut block = block.clone();
                let lower = block["header"].get("nonce").is_some();
                let name = if lower { "nonce" } else { "Nonce" };
                if block["header"].is_object() {
                    block["header"][name] = json!(nonce);
                }
                block
            }
        }
    }
}

fn wrong(part: &'static str, why: impl AsRef<str>) -> TemplateError {
    TemplateError { part, why: clean(why.as_ref()) }
}

const HEADER_BYTES: usize = 92;
const HEIGHT_AT: usize = 4;
const DIFFICULTY_AT: usize = 84;
const ID_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn body(changes: Value) -> Vec<u8> {
        let mut header = vec![0; 92];
        header[4] = 7;
        header[84] = 100;
        let mut value = json!({
            "block": { "header": { "Height": 7, "Nonce": 0 }, "transactions": [] },
            "target": "00".repeat(32), "header_base": hex::encode(&header),
            "template_id": "0123456789abcdef", "template_expires_at_unix_ms": 17,
        });
        for (name, change) in changes.as_object().unwrap() {
            value[name] = change.clone();
        }
        value.to_string().into_bytes()
    }

    #[test]
    fn a_template_is_read_and_handed_in() {
        let template = Template::read(&body(json!({}))).unwrap();
        assert_eq!((template.height, template.difficulty), (7, 100));
        assert_eq!(template.expires_unix_ms, Some(17));
        let expect = json!({ "template_id": "0123456789abcdef", "nonce": u64::MAX });
        assert_eq!(template.submission(u64::MAX), expect);

        let template = Template::read(&body(json!({ "template_id": null }))).unwrap();
        assert_eq!(template.submission(9)["header"], json!({ "Height": 7, "Nonce": 9 }));
    }

    #[test]
    fn what_is_no_template_names_its_part() {
        for (changes, expect) in [
            (json!({ "header_base": "00" }), "template: header_base: 1 bytes long"),
            (json!({ "header_base": 5 }), "template: header_base: not a text"),
            (json!({ "target": "zz" }), "template: target: not a hexadecimal digit at offset: 0"),
            (json!({ "target": "00" }), "template: target: 1 bytes long"),
            (json!({ "template_id": "" }), "template: template_id: 0 bytes long"),
            (
                json!({ "template_id": null, "block": null }),
                "template: template_id: missing, and so is the block",
            ),
            (
                json!({ "block": { "header": { "Height": 8 } } }),
                "template: block: height 8, but 7 in header_base",
            ),
        ] {
            assert_eq!(Template::read(&body(changes)).unwrap_err().to_string(), expect);
        }
        assert_eq!(Template::read(b"<html>").unwrap_err().part, "JSON");
        assert_eq!(Template::read(b"[]").unwrap_err().part, "header_base");
    }
}
