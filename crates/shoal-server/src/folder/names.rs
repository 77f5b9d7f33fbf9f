//! Names of documents as names of files, and the names of conflicted copies.

/// The end of a file's name.
pub(super) const EXTENSION: &str = ".automerge";
/// The longest name of a file, in bytes; drafts have some more.
const FILE_BYTES: usize = 200;

/// True for a byte that some system does not take in a file's name.
const fn is_odd(byte: u8) -> bool {
    byte < b' '
        || byte == 0x7f
        || matches!(byte, b'/' | b'\\' | b':' | b'*' | b'?' | b'"' | b'<' | b'>' | b'|' | b'%')
}

/// The name of a document's file without the extension: odd bytes become `%XX`, and so does a dot
/// at the beginning. `None` for a name too long.
pub(super) fn stem_of(name: &str) -> Option<String> {
    let stem = escaped(name, is_odd);
    // A name like a copy's would be taken for one.
    let stem = match original_of(&stem) {
        Some(_) => escaped(name, |byte| is_odd(byte) || matches!(byte, b'(' | b'.')),
        None => stem,
    };
    (!stem.is_empty() && stem.len() + EXTENSION.len() <= FILE_BYTES).then_some(stem)
}

fn escaped(name: &str, must: impl Fn(u8) -> bool) -> String {
    let mut stem = String::with_capacity(name.len());
    for (at, character) in name.char_indices() {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() && (must(byte) || at == 0 && byte == b'.') => {
                stem.push('%');
                stem.push_str(&shoal_stdx::hex::encode(&[byte]));
            }
            _ => stem.push(character),
        }
    }
    stem
}

/// The document of a file's name without the extension. A stem that no document would get stands
/// for itself.
pub(super) fn name_of(stem: &str) -> String {
    let decoded = unescaped(stem);
    match decoded {
        Some(name) if stem_of(&name).as_deref() == Some(stem) => name,
        _ => stem.to_owned(),
    }
}

fn unescaped(stem: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(stem.len());
    let mut rest = stem.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The stem that a conflicted copy is of, by the habits of Dropbox, Nextcloud and Syncthing.
pub(super) fn original_of(stem: &str) -> Option<&str> {
    if let Some((original, mark)) = stem.rsplit_once(".sync-conflict-") {
        let is_mark = mark.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        return (!original.is_empty() && !mark.is_empty() && is_mark).then_some(original);
    }
    let (original, inner) = stem.strip_suffix(')')?.split_once(" (")?;
    // `x (conflicted copy) (2)`: the first parenthesis has the words.
    let words = inner.split(')').next().unwrap_or_default().to_lowercase();
    (!original.is_empty() && words.contains("conflicted copy")).then_some(original)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let names = ["todo", "a/b", "../x", ".hidden", "100%", "a.b", "it's", "é ü", "x (1)"];
        for name in names.into_iter().chain(["%2F"]) {
            let stem = stem_of(name).unwrap();
            assert_eq!(name_of(&stem), name, "{stem}");
            assert!(!stem.starts_with('.') && !stem.contains('/'), "{stem}");
            assert_eq!(original_of(&stem), None);
        }
        let copy_like = stem_of("x (conflicted copy)").unwrap();
        assert_eq!(
            (original_of(&copy_like), name_of(&copy_like)),
            (None, "x (conflicted copy)".into())
        );
        assert_eq!((stem_of(""), stem_of(&"x".repeat(300))), (None, None));
        for stem in ["100%", "%zz", "%e", "a%41"] {
            assert_eq!(name_of(stem), stem, "not written so: it stands for itself");
        }
    }

    #[test]
    fn copies_are_known_by_their_names() {
        for stem in [
            "x (conflicted copy)",
            "x (conflicted copy 2026-11-24)",
            "x (Ada's conflicted copy 2026-11-24)",
            "x (conflicted copy 2026-11-24 101112)",
            "x (conflicted copy) (2)",
            "x (Case Conflicted Copy)",
            "x.sync-conflict-20261124-101112-ABCDEFG",
        ] {
            assert_eq!(original_of(stem), Some("x"), "{stem}");
        }
        for stem in
            ["x", "x (1)", "x (copy)", " (conflicted copy)", ".sync-conflict-1", "conflicted copy"]
        {
            assert_eq!(original_of(stem), None, "{stem}");
        }
    }
}
