//! Resources: the schema as text, each document as JSON.

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use crate::desk::Work;
use crate::refusal::{Refusal, no_document};
use crate::tools::{describe, document_names, json_of};

const SCHEMA: &str = "shoal://schema";
const DOCUMENT: &str = "shoal://document/";

/// Resources of one page of a list.
const PAGE: usize = 100;

/// A page of the list behind a cursor, the name told last; and the next cursor.
///
/// # Errors
/// The database's.
pub(crate) fn list(
    work: &mut Work<'_>,
    cursor: Option<&str>,
) -> Result<(Vec<Resource>, Option<String>), Refusal> {
    let mut documents = document_names(work)?;
    let mut told = Vec::new();
    if cursor.is_none() {
        told.push(
            Resource::new(SCHEMA, "schema")
                .with_description("Tables, columns, indexes, views, projections, graphs")
                .with_mime_type("text/plain"),
        );
    }
    documents.retain(|name| cursor.is_none_or(|cursor| name.as_str() > cursor));
    let is_more = documents.len() > PAGE;
    documents.truncate(PAGE);
    let next = documents.last().filter(|_| is_more).cloned();
    told.extend(documents.into_iter().map(|name| {
        Resource::new(format!("{DOCUMENT}{}", escaped(&name)), name)
            .with_mime_type("application/json")
    }));
    Ok((told, next))
}

/// The templates.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{DOCUMENT}{{name}}"), "document")
            .with_description("A document as JSON, by its name")
            .with_mime_type("application/json"),
    ]
}

/// True of a URI with the form of a resource's.
pub(crate) fn is_known(uri: &str) -> bool {
    uri == SCHEMA || uri.starts_with(DOCUMENT)
}

/// The contents of a resource.
///
/// # Errors
/// No such document; one longer than an answer.
pub(crate) fn contents(work: &mut Work<'_>, uri: &str) -> Result<ResourceContents, Refusal> {
    let Some(name) = uri.strip_prefix(DOCUMENT) else {
        return Ok(ResourceContents::text(describe(work)?, uri));
    };
    let name = unescaped(name)
        .ok_or_else(|| no_document(Refusal::new(format!("{uri} names no document"))))?;
    let text = json_of(work, &name, None)?.to_string();
    let most = work.desk.limits.bytes;
    if text.len() > most {
        return Err(Refusal::new(format!(
            "document {name} has {} bytes, more than the {most} of an answer",
            text.len()
        ))
        .hint("The tool documents reads it in parts, by path"));
    }
    Ok(ResourceContents::text(text, uri).with_mime_type("application/json"))
}

/// A name within a URI.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = rest.split_first_chunk::<2>()?;
            bytes.extend(shoal_stdx::hex::decode(std::str::from_utf8(digits).ok()?).ok()?);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_their_uris() {
        for name in ["note", "a/b c?#%", "Übersicht", "{x}"] {
            let escaped = escaped(name);
            assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
            assert_eq!(unescaped(&escaped).as_deref(), Some(name));
        }
        assert_eq!(unescaped("%f"), None);
        assert_eq!(unescaped("%zz"), None);
        assert_eq!(unescaped("%ff"), None);
    }
}
