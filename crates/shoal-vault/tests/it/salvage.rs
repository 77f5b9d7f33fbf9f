//! Damaged sealed files: every row of an authentic page is saved, every other page is told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::{Image, Vfs};
use shoal_store::{Error, Fault, Salvage, SalvagedRow};
use shoal_testkit::Random;
use shoal_vault::{Keys, VaultError};

use crate::{DB, PAGE, disk, entropy, filled, keys, known};

/// Rows of all pages by page, and the pages refused.
type Saved = (BTreeMap<u32, Vec<String>>, Vec<(u32, Fault)>);

fn open(image: &Image, keys: &Keys) -> Result<Salvage, VaultError> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk(image));
    let path = Path::new(DB);
    match keys.salvage(&vfs, path)? {
        Some((codec, page_size)) => Ok(Salvage::open_sealed(&vfs, path, codec, page_size)?),
        None => Ok(Salvage::open(&vfs, path)?),
    }
}

fn saved(image: &Image, keys: &Keys) -> Result<Saved, VaultError> {
    let salvage = open(image, keys)?;
    let mut rows: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for page in salvage.pages() {
        let mut give = |row: SalvagedRow<'_>| -> Result<(), Error> {
            rows.entry(row.page.get()).or_default().push(format!("{:?}", row.values));
            Ok(())
        };
        salvage.rows(page, &mut salvage.page_set(), &mut give)?;
    }
    let refused = salvage.refused().into_iter();
    Ok((rows, refused.map(|(page, refused)| (page.get(), refused.fault)).collect()))
}

#[test]
fn rows_of_authentic_pages_are_saved_and_the_others_are_told() {
    let image = filled(300).image();
    let (whole, refused) = saved(&image, &known()).unwrap();
    let rows: usize = whole.values().map(Vec::len).sum();
    assert!(rows > 300 && refused.is_empty(), "{rows} rows, {refused:?}");
    let pages = image[Path::new(DB)].len() / PAGE;
    let mut random = Random::seeded(23);
    for round in 0..200 {
        let mut image = image.clone();
        let bytes = image.get_mut(Path::new(DB)).unwrap();
        let mut damaged = BTreeSet::new();
        for _ in 0..1 + random.place(3) {
            // Pages 2 and 3 are of keys, and one of them is enough.
            let page = [0, 3 + random.place(pages - 3)][usize::from(random.place(8) > 0)];
            let at = page * PAGE;
            if damaged.contains(&page) {
                continue;
            }
            match random.place(3) {
                0 => bytes[at..at + PAGE].fill(0),
                1 => {
                    let other = 3 + random.place(pages - 3);
                    if other == page || page == 0 || damaged.contains(&other) {
                        continue;
                    }
                    let (first, second) = (page.min(other), page.max(other));
                    let (low, high) = bytes.split_at_mut(second * PAGE);
                    low[first * PAGE..][..PAGE].swap_with_slice(&mut high[..PAGE]);
                    damaged.insert(other);
                }
                _ => bytes[at + random.place(PAGE)] ^= 1 << random.place(8),
            }
            damaged.insert(page);
        }
        let key_page = PAGE * (1 + round % 2);
        if round % 3 == 0 {
            bytes[key_page + random.place(PAGE)] ^= 0x40;
        }
        let (rows, refused) = saved(&image, &known()).unwrap();
        let damaged: BTreeSet<u32> = damaged.iter().map(|page| *page as u32 + 1).collect();
        let told: BTreeSet<u32> = refused.iter().map(|(page, _)| *page).collect();
        assert_eq!(told, damaged, "round {round}");
        let mut expected = whole.clone();
        expected.retain(|page, _| !damaged.contains(page));
        assert_eq!(rows, expected, "round {round}");
    }
}

#[test]
fn exchanged_pages_are_told_apart_from_damaged_ones() {
    let mut image = filled(300).image();
    let bytes = image.get_mut(Path::new(DB)).unwrap();
    let (low, high) = bytes.split_at_mut(6 * PAGE);
    low[5 * PAGE..].swap_with_slice(&mut high[..PAGE]);
    high[2 * PAGE + 9] ^= 1;
    let (_, refused) = saved(&image, &known()).unwrap();
    assert_eq!(refused, [(6, Fault::Moved), (7, Fault::Moved), (9, Fault::Damaged)]);
}

#[test]
fn a_damaged_file_opens_by_its_key_alone() {
    let mut image = filled(40).image();
    let bytes = image.get_mut(Path::new(DB)).unwrap();
    // Without page 1, and with one page of keys.
    bytes[..2 * PAGE].fill(0);
    let (rows, refused) = saved(&image, &known()).unwrap();
    assert!(rows.values().map(Vec::len).sum::<usize>() >= 40);
    assert_eq!(refused, [(1, Fault::Damaged)]);
    let no_key = saved(&image, &Keys::new(entropy())).unwrap_err();
    assert!(matches!(no_key, VaultError::NoKey { .. }), "{no_key}");
    let wrong = saved(&image, &keys("another passphrase")).unwrap_err();
    assert!(matches!(wrong, VaultError::WrongKey { .. }), "{wrong}");
    // Without both pages of keys nothing opens the others.
    let mut image = filled(40).image();
    let bytes = image.get_mut(Path::new(DB)).unwrap();
    bytes[PAGE + 200] ^= 1;
    bytes[2 * PAGE + 200] ^= 1;
    let none = saved(&image, &known()).unwrap_err();
    assert!(matches!(none, VaultError::Header { .. }), "{none}");
}
