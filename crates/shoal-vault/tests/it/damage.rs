//! Changed bytes: an error that says what is wrong, and never another answer.

use std::path::Path;

use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{Error, Fault};
use shoal_vault::VaultError;

use crate::{DB, batch, disk, filled, keys, known, one, rows, sql, store};

const PAGE: usize = 1024;

/// The fault of a file that is opened, read and looked at; `None` for a sound one.
fn fault(image: &Image) -> Option<Fault> {
    let vfs = disk(image);
    let opened = match store(&vfs, known()) {
        Ok(store) => store,
        Err(error) => return Some(of(&error)),
    };
    match shoal_vault::verify(&opened) {
        Ok(_) => None,
        Err(VaultError::Store(error)) => Some(of(&error)),
        Err(other) => other.fault(),
    }
}

fn of(error: &Error) -> Fault {
    match error {
        Error::Refused { fault, .. } | Error::Locked { fault, .. } => *fault,
        // A magic or a size that is none: not a sealed file any more.
        Error::NotADatabase { .. } | Error::Corrupt(_) | Error::Unsupported { .. } => Fault::Header,
        other => panic!("{other}"),
    }
}

fn changed(image: &Image, change: impl FnOnce(&mut Vec<u8>)) -> Image {
    let mut image = image.clone();
    change(image.get_mut(Path::new(DB)).unwrap());
    image
}

#[test]
fn a_wrong_key_is_told_from_damage() {
    let vfs = filled(20);
    let image = vfs.image();
    assert_eq!(fault(&image), None);
    let wrong = store(&vfs, keys("incorrect horse").into()).unwrap_err();
    assert!(matches!(wrong, Error::Locked { fault: Fault::WrongKey, .. }), "{wrong}");
    assert_eq!(wrong.to_string(), "the key opens none of the key slots: db");
    let none = shoal_vault::Keys::new(crate::entropy());
    let none = store(&vfs, none.into()).unwrap_err();
    assert!(matches!(none, Error::Locked { fault: Fault::NoKey, .. }), "{none}");
    // A slot altered with a right checksum is no other key's, but a damaged one.
    let both = changed(&image, |bytes| {
        bytes[PAGE + 200] ^= 1;
        bytes[2 * PAGE + 200] ^= 1;
    });
    assert_eq!(fault(&both), Some(Fault::Header));
}

#[test]
fn each_damage_has_its_name() {
    let image = filled(200).image();
    let pages = image[Path::new(DB)].len() / PAGE;
    assert!(pages > 6);
    let page = |number: usize| (number - 1) * PAGE..number * PAGE;
    let swapped = changed(&image, |bytes| {
        let other = bytes[page(5)].to_vec();
        bytes.copy_within(page(6), page(5).start);
        bytes[page(6)].copy_from_slice(&other);
    });
    assert_eq!(fault(&swapped), Some(Fault::Moved));
    let zeroed = changed(&image, |bytes| bytes[page(5)].fill(0));
    assert_eq!(fault(&zeroed), Some(Fault::Damaged));
    let cut = changed(&image, |bytes| bytes.truncate(PAGE * (pages - 1)));
    assert!(fault(&cut).is_some());
    let other = filled(200).image();
    let foreign = changed(&image, |bytes| {
        bytes[page(5)].copy_from_slice(&other[Path::new(DB)][page(5)]);
    });
    assert_eq!(fault(&foreign), Some(Fault::Damaged));
}

/// Every page alone put back to its state before the last commit, page 1 among them.
#[test]
fn an_old_page_is_found() {
    let vfs = filled(200);
    let old = vfs.image();
    let opened = store(&vfs, known()).unwrap();
    batch(&mut sql(&opened), "UPDATE t SET b = replace(b, 'nobody', 'nobody')");
    drop(opened);
    let new = vfs.image();
    assert_eq!(fault(&new), None);
    let (old, bytes) = (&old[Path::new(DB)], &new[Path::new(DB)]);
    let mut found = 0;
    for start in (0..bytes.len().min(old.len())).step_by(PAGE) {
        let range = start..start + PAGE;
        if old[range.clone()] == bytes[range.clone()] {
            continue;
        }
        let mixed = changed(&new, |bytes| bytes[range.clone()].copy_from_slice(&old[range]));
        assert_eq!(fault(&mixed), Some(Fault::Old), "page {}", start / PAGE + 1);
        // `PRAGMA integrity_check` says so, too.
        let mut connection = sql(&store(&disk(&mixed), known()).unwrap());
        let said = one(&mut connection, "PRAGMA integrity_check");
        assert_ne!(said, shoal_sql::Value::text("ok"));
        found += 1;
    }
    assert!(found > 3, "{found}");
}

/// `SHOAL_FLIPS=1` flips every bit; otherwise one bit of each byte of page 1, of the pages of keys
/// and of the seals, and every 37th byte elsewhere.
#[test]
fn a_flipped_bit_is_an_error() {
    let image = filled(30).image();
    let expected = {
        let mut connection = sql(&store(&disk(&image), known()).unwrap());
        rows(&mut connection, "SELECT * FROM t").unwrap()
    };
    let all = std::env::var_os("SHOAL_FLIPS").is_some();
    let mut undetected = Vec::new();
    for at in 0..image[Path::new(DB)].len() {
        let within = at % PAGE;
        let dense = at < PAGE && within < 100 || within >= PAGE - 64 && at % 3 == 0;
        let bits = match () {
            () if all => 0..8,
            () if dense || at % 37 == 0 => at % 8..at % 8 + 1,
            () => continue,
        };
        for bit in bits {
            let flipped = changed(&image, |bytes| bytes[at] ^= 1 << bit);
            if fault(&flipped).is_none() {
                undetected.push((at, bit));
            }
            // Whatever verification says, a reader sees the rows or an error.
            let Ok(opened) = store(&disk(&flipped), known()) else { continue };
            let mut connection = sql(&opened);
            if let Ok(found) = rows(&mut connection, "SELECT * FROM t") {
                assert_eq!(found, expected, "byte {at}, bit {bit}");
            }
        }
    }
    assert_eq!(undetected, []);
}

/// `sqlite3` plays back a hot journal without the key, and the file is whole afterwards.
#[test]
fn another_program_recovers_without_the_key() {
    let vfs = filled(200);
    let before = vfs.image();
    let vfs = SimVfs::from_image(&before);
    let opened = store(&vfs, known()).unwrap();
    batch(&mut sql(&opened), "UPDATE t SET b = b || ' and more'");
    let mut recovered = 0;
    for calls in 0..vfs.calls() {
        let image = vfs.image_after_crash(calls, 3);
        let hot = image.get(Path::new("db-journal")).is_some_and(|it| it.first() == Some(&0xd9));
        if !hot || image[Path::new(DB)] == before[Path::new(DB)] {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &image {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let peer = rusqlite::Connection::open(folder.path().join(DB)).unwrap();
        let refused = peer.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert!(refused.is_err());
        drop(peer);
        assert_eq!(std::fs::read(folder.path().join(DB)).unwrap(), before[Path::new(DB)]);
        recovered += 1;
    }
    assert!(recovered > 0);
}
