//! Settings of other programs' formats, by the names those programs use. None of them is stored in
//! a file.

use std::collections::BTreeMap;

use shoal_store::{Fault, Refused};

/// The settings given so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// By name, without `cipher_` before it.
    given: BTreeMap<String, String>,
}

/// Every name, as [`canonical`] has it, and the bounds of its value; none for a word.
const NAMES: &[(&str, Option<(u32, u32)>)] = &[
    ("cipher", None),
    ("compatibility", Some((1, 4))),
    ("page_size", Some((512, 65_536))),
    ("kdf_iter", Some((1, i32::MAX as u32))),
    ("kdf_algorithm", None),
    ("hmac_algorithm", None),
    ("use_hmac", None),
    ("hmac_pgno", None),
    ("hmac_salt_mask", None),
    ("fast_kdf_iter", Some((1, i32::MAX as u32))),
    ("plaintext_header_size", Some((0, 96))),
    ("salt", None),
    ("legacy", Some((0, 4))),
    ("legacy_page_size", Some((0, 65_536))),
    ("algorithm", None),
    ("tcost", Some((1, 64))),
    ("mcost", Some((8, 4 << 20))),
    ("pcost", Some((1, 64))),
];

/// A name without prefix, in one spelling.
fn canonical(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let name =
        name.strip_prefix("cipher_default_").or(name.strip_prefix("cipher_")).unwrap_or(&name);
    match name {
        "hmac_use" | "default_use_hmac" => "use_hmac".to_owned(),
        name => name.to_owned(),
    }
}

impl Settings {
    /// True for a setting's name.
    pub(crate) fn knows(name: &str) -> bool {
        let name = canonical(name);
        NAMES.iter().any(|(known, _)| *known == name)
    }

    /// Sets a setting.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let own = canonical(name);
        let value = value.trim().trim_matches('\'').trim_matches('"');
        let known = NAMES.iter().find(|(known, _)| *known == own);
        let refused = |why: String| Err(Refused::new(Fault::NoKey, why));
        let Some((_, bounds)) = known else {
            return refused(format!("{name} is no setting of a sealed file's format"));
        };
        if let Some((least, most)) = bounds {
            match value.parse::<u32>() {
                Ok(number) if (*least..=*most).contains(&number) => {}
                _ => return refused(format!("{name} is a number from {least} to {most}")),
            }
        }
        self.given.insert(own, value.to_owned());
        Ok(())
    }

    /// A setting's value as given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.given.get(&canonical(name)).map(String::as_str)
    }

    /// A number, or the default of the format.
    pub(crate) fn number(&self, name: &str, default: u32) -> u32 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// True for `on`, `yes`, `true` and numbers but 0.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| {
            !matches!(&*value.to_ascii_lowercase(), "0" | "off" | "no" | "false")
        })
    }

    /// The cipher named.
    pub(crate) fn cipher(&self) -> Option<String> {
        self.get("cipher").map(str::to_ascii_lowercase)
    }
}
