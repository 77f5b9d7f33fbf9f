//! The format of a file: named by the user, or found out with the key.

use std::sync::Arc;

use shoal_store::vfs::Entropy;
use shoal_store::{PageCodec, Pgno};

use super::aegis::{Aegis, Kind, TURSO, Turso};
use super::ascon::Ascon;
use super::chacha::ChaCha;
use super::legacy::Aes256Cbc;
use super::sqlcipher::{SqlCipher, Version};
use super::{Foreign, Format, Settings};
use crate::VaultError;
use crate::fault::FaultNote;
use crate::secret::Secret;
use crate::slots::array;

/// Ways to read a file, cheapest first.
fn candidates(first: &[u8], settings: &Settings) -> Vec<&'static str> {
    let named = settings.cipher();
    if let Some(name) = &named {
        return match &**name {
            "sqlcipher" | "sqlcipher4" | "sqlcipher3" | "sqlcipher2" | "sqlcipher1" => {
                match settings.number("legacy", 0).max(settings.number("compatibility", 0)) {
                    1 => vec!["sqlcipher1"],
                    2 => vec!["sqlcipher2"],
                    3 => vec!["sqlcipher3"],
                    4 => vec!["sqlcipher4"],
                    _ if name.ends_with('1') => vec!["sqlcipher1"],
                    _ if name.ends_with('2') => vec!["sqlcipher2"],
                    _ if name.ends_with('3') => vec!["sqlcipher3"],
                    _ if is_clear(first, 80) => vec!["mc-sqlcipher", "sqlcipher4"],
                    _ => vec!["sqlcipher4", "sqlcipher3", "sqlcipher2", "sqlcipher1"],
                }
            }
            "chacha20" if settings.flag("legacy", false) => vec!["sqleet"],
            "sqleet" => vec!["sqleet"],
            "chacha20" => vec!["chacha20"],
            "aegis" => vec!["aegis"],
            "ascon128" | "ascon" => vec!["ascon128"],
            "aes256cbc" | "libsql" => vec!["aes256cbc"],
            name if Kind::named(name).is_some() => vec!["turso"],
            _ => Vec::new(),
        };
    }
    if first.starts_with(TURSO) {
        return vec!["turso"];
    }
    if settings.get("compatibility").is_some() {
        return match settings.number("compatibility", 4) {
            1 => vec!["sqlcipher1"],
            2 => vec!["sqlcipher2"],
            3 => vec!["sqlcipher3"],
            _ => vec!["sqlcipher4"],
        };
    }
    let mut list = Vec::new();
    match first.get(20) {
        Some(32) if is_clear(first, 32) => list.extend(["chacha20", "ascon128"]),
        Some(reserved @ (48 | 64)) if is_clear(first, *reserved) => list.push("aegis"),
        Some(80) if is_clear(first, 80) => list.push("mc-sqlcipher"),
        Some(0) if is_clear(first, 0) => list.push("aes256cbc"),
        _ => {}
    }
    list.extend(["sqlcipher4", "sqleet", "sqlcipher3", "sqlcipher2", "sqlcipher1"]);
    list
}

/// True where bytes 16 to 24 are those of a database whose pages reserve so many bytes.
fn is_clear(first: &[u8], reserved: u8) -> bool {
    let Some(&[high, low, write, read, own, 64, 32, 32]) = first.get(16..24) else { return false };
    let size = match u16::from_be_bytes([high, low]) {
        1 => 65_536,
        size => u32::from(size),
    };
    let versions = (1..=2).contains(&write) && (1..=2).contains(&read);
    size >= 512 && size.is_power_of_two() && versions && own == reserved
}

/// The formats that a name of a candidate stands for.
fn formats(
    name: &'static str,
    secret: &Secret,
    settings: &Settings,
    salt: [u8; 16],
    first: &[u8],
) -> Result<Vec<Box<dyn Format>>, VaultError> {
    let sqlcipher = |number, is_mc| {
        let version = Version::new(number, settings, is_mc);
        SqlCipher::new(secret, version, settings, salt)
    };
    Ok(match name {
        "sqlcipher4" => vec![Box::new(sqlcipher(4, false))],
        "sqlcipher3" => vec![Box::new(sqlcipher(3, false))],
        "sqlcipher2" => vec![Box::new(sqlcipher(2, false))],
        "sqlcipher1" => vec![Box::new(sqlcipher(1, false))],
        "mc-sqlcipher" => vec![Box::new(sqlcipher(4, true))],
        "chacha20" => vec![Box::new(ChaCha::new(secret, settings, salt, false))],
        "sqleet" => vec![Box::new(ChaCha::new(secret, settings, salt, true))],
        "ascon128" => vec![Box::new(Ascon::new(secret, settings, salt))],
        "aes256cbc" => vec![Box::new(Aes256Cbc::new(secret, settings))],
        "aegis" => {
            let named = settings.get("algorithm").and_then(Kind::named);
            let kinds = match (named, first.get(20)) {
                (Some(kind), _) => vec![kind],
                (None, Some(48)) => vec![Kind::L128, Kind::X2128, Kind::X4128],
                (None, _) => vec![Kind::K256, Kind::X2256, Kind::X4256],
            };
            let mut list: Vec<Box<dyn Format>> = Vec::new();
            for kind in kinds {
                list.push(Box::new(Aegis::new(secret, settings, salt, kind)?));
            }
            list
        }
        _ => {
            let named = settings.cipher().and_then(|name| Kind::named(&name));
            let stated = first.get(6).copied().and_then(Kind::numbered);
            let kind = named.or(stated.filter(|_| first.starts_with(TURSO)));
            match kind.and_then(|kind| Turso::new(secret, kind)) {
                Some(turso) => vec![Box::new(turso)],
                None => Vec::new(),
            }
        }
    })
}

/// The codec by which `first`, the beginning of a file and at least its first page, is page 1 of a
/// database; `None` where no format and size fits the key.
pub(crate) fn find(
    first: &[u8],
    secret: &Secret,
    settings: &Settings,
    (entropy, faults): (&Arc<dyn Entropy>, &FaultNote),
) -> Result<Option<Arc<dyn PageCodec>>, VaultError> {
    if first.len() < 512 {
        return Ok(None);
    }
    let salt = array(first, 0);
    for name in candidates(first, settings) {
        for format in formats(name, secret, settings, salt, first)? {
            let codec = Foreign {
                format,
                entropy: Arc::clone(entropy),
                name,
                faults: FaultNote::default(),
            };
            if let Some(codec) = fitting(codec, first, settings, name, (secret, salt)) {
                let faults = faults.clone();
                return Ok(Some(Arc::new(Foreign { faults, ..codec })));
            }
        }
    }
    Ok(None)
}

/// The codec, for pages of the size by which page 1 is one.
fn fitting(
    codec: Foreign,
    first: &[u8],
    settings: &Settings,
    name: &'static str,
    (secret, salt): (&Secret, [u8; 16]),
) -> Option<Foreign> {
    let fits = |codec: &Foreign, size: usize| {
        let Some(page) = first.get(..size) else { return false };
        let mut page = page.to_vec();
        codec.decode(Pgno::FIRST, &mut page).is_ok() && is_header(&page, size)
    };
    let head = first.first_chunk()?;
    let stated = codec.shape(head)?.page_size as usize;
    if fits(&codec, stated) {
        return Some(codec);
    }
    // Sizes are stored nowhere: where the user says none, all are tried.
    let number = match name {
        "sqlcipher4" => 4,
        "sqlcipher3" => 3,
        "sqlcipher2" => 2,
        _ => return None,
    };
    if settings.get("page_size").is_some() {
        return None;
    }
    let version = Version::new(number, settings, false);
    let mut keys = SqlCipher::new(secret, version, settings, salt);
    let (entropy, mut found) = (codec.entropy, None);
    for shift in 9..=16 {
        keys = keys.with_page_size(1 << shift);
        let page = first.get(..1 << shift).map(<[u8]>::to_vec);
        if let Some(mut page) = page
            && keys.reserved() + 480 <= page.len()
            && keys.decrypt(1, &mut page)
            && is_header(&page, 1 << shift)
        {
            found = Some(1 << shift);
            break;
        }
    }
    let format = Box::new(keys.with_page_size(found?));
    Some(Foreign { format, entropy, name, faults: FaultNote::default() })
}

/// True for the beginning of a database with pages of so many bytes.
fn is_header(page: &[u8], size: usize) -> bool {
    let stated = match u16::from_be_bytes([page[16], page[17]]) {
        1 => 65_536,
        stated => usize::from(stated),
    };
    stated == size && page[21..24] == [64, 32, 32]
}

/// True where the settings name a format of another program.
pub(crate) fn is_named(settings: &Settings) -> bool {
    let is_set = settings.cipher().is_some() || settings.get("compatibility").is_some();
    is_set && !candidates(&[], settings).is_empty()
}

/// The codec of a new file in the format that the settings name; `None` for no name of a format.
pub(crate) fn new_file(
    secret: &Secret,
    settings: &Settings,
    entropy: &Arc<dyn Entropy>,
) -> Result<Option<Arc<dyn PageCodec>>, VaultError> {
    let mut salt = [0; 16];
    entropy.fill(&mut salt);
    if !is_named(settings) {
        return Ok(None);
    }
    let Some(name) = candidates(&[], settings).first().copied() else { return Ok(None) };
    let format = formats(name, secret, settings, salt, &[])?.into_iter().next();
    Ok(format.map(|format| {
        Arc::new(Foreign {
            format,
            entropy: Arc::clone(entropy),
            name,
            faults: FaultNote::default(),
        }) as Arc<dyn PageCodec>
    }))
}
