//! The files of an import: named one by one, in a folder, or by a pattern.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The files behind a name, ascending: the file itself, the files of a folder that `is_known`
/// takes, or the files of a pattern. `-` stays what it is.
///
/// # Errors
/// A folder that cannot be read; a folder or a pattern without a file.
pub(crate) fn files(
    name: &Path,
    is_known: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, Failure> {
    if name.is_dir() {
        let mut found: Vec<PathBuf> = entries(name)?;
        found.retain(|path| path.is_file() && is_known(path));
        return match found.is_empty() {
            true => Err(Failure::at(name.display(), "no file in the folder has a known ending")
                .hint("csv, tsv, json, ndjson, jsonl, parquet, arrow, each also with .gz; xlsx, xls, xlsb, ods")),
            false => Ok(found),
        };
    }
    let is_pattern = name.to_str().is_some_and(has_signs) && !name.exists();
    if !is_pattern {
        return Ok(vec![name.to_owned()]);
    }
    let mut found = vec![PathBuf::new()];
    for part in name.components() {
        let part = part.as_os_str();
        let mut next = Vec::new();
        for before in &found {
            match part.to_str().filter(|part| has_signs(part)) {
                None => next.push(before.join(part)),
                Some(pattern) => {
                    let here = match before.as_os_str().is_empty() {
                        true => Path::new("."),
                        false => before,
                    };
                    // A pattern looks into folders: a file on the way ends the way.
                    if !here.is_dir() {
                        continue;
                    }
                    for path in entries(here)? {
                        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                            continue;
                        };
                        let is_hidden = name.starts_with('.') && !pattern.starts_with('.');
                        if !is_hidden && matches(pattern, name) {
                            next.push(before.join(name));
                        }
                    }
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    match found.is_empty() {
        true => Err(Failure::at(name.display(), "no file is named so")),
        false => Ok(found),
    }
}

/// The paths in a folder, ascending.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::at(folder.display(), error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn has_signs(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// True for a name of a pattern: `*` stands for any characters, `?` for one, `[a-z]` for one of
/// these, `[!a-z]` for one of the others. Cost: the pattern's length times the name's.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // The last star, and the place up to which it reaches.
    let mut star = None;
    while place < name.len() {
        let length = match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
                continue;
            }
            _ => one(&pattern[at.min(pattern.len())..], name[place]),
        };
        match (length, star) {
            (Some(length), _) => (at, place) = (at + length, place + 1),
            (None, None) => return false,
            (None, Some((back, reach))) => {
                star = Some((back, reach + 1));
                (at, place) = (back + 1, reach + 1);
            }
        }
    }
    pattern[at..].iter().all(|sign| *sign == '*')
}

/// The length of the sign at the begin of a pattern, where it stands for this character.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let is_other = pattern.get(1) == Some(&'!');
            let begin = if is_other { 2 } else { 1 };
            // The first character stands for itself, a closing bracket too.
            let end = pattern.iter().skip(begin + 1).position(|sign| *sign == ']');
            let Some(end) = end.map(|end| begin + 1 + end) else {
                return (letter == '[').then_some(1);
            };
            let set = &pattern[begin..end];
            let mut is_in = false;
            let mut place = 0;
            while place < set.len() {
                match set.get(place..place + 3) {
                    Some([low, '-', high]) => {
                        is_in |= (*low..=*high).contains(&letter);
                        place += 3;
                    }
                    _ => {
                        is_in |= set[place] == letter;
                        place += 1;
                    }
                }
            }
            (is_in != is_other).then_some(end + 1)
        }
        sign => (*sign == letter).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files() {
        for (pattern, name, is_so) in [
            ("*.csv", "a.csv", true),
            ("*.csv", ".csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("?.csv", "ä.csv", true),
            ("?.csv", "ab.csv", false),
            ("log[0-9].csv", "log7.csv", true),
            ("log[!0-9].csv", "log7.csv", false),
            ("log[]x].csv", "log].csv", true),
            ("log[a.csv", "log[a.csv", true),
            ("***", "", true),
            ("x", "", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), is_so, "{pattern} {name}");
        }
    }
}
