//! Headers and pages of keys from a stranger, forged by a generator with a fixed seed.

use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::Vfs;
use shoal_testkit::Random;
use shoal_vault::{Keys, NewKey};

use crate::{DB, PAGE, batch, disk, entropy, filled, known, pair, rows, sql, store, with_checksum};

/// `SHOAL_FORGED=N` tries so many files.
fn rounds() -> u64 {
    std::env::var("SHOAL_FORGED").ok().and_then(|text| text.parse().ok()).unwrap_or(800)
}

/// Bytes of pages 1 to 3 changed at random, mostly with corrected checksums: the owner of a key
/// gets the rows, or an error; nothing panics, and no costs are paid for a stranger's page.
#[test]
fn forged_headers_are_errors_or_change_nothing() {
    let (secret, recipient) = pair();
    let vfs = filled(40);
    let opened = store(&vfs, known()).unwrap();
    shoal_vault::add_slot(&opened, &NewKey::recipient(recipient)).unwrap();
    shoal_vault::remove_slot(&opened, 0).unwrap();
    batch(&mut sql(&opened), "INSERT INTO t VALUES (40, 'last')");
    let expected = rows(&mut sql(&opened), "SELECT * FROM t").unwrap();
    drop(opened);
    let image = vfs.image();
    let mut random = Random::seeded(0x5eed);
    let mut random = |bound: usize| random.place(bound);
    let (mut refused, mut whole) = (0, 0);
    for _ in 0..rounds() {
        let mut image = image.clone();
        let bytes = image.get_mut(Path::new(DB)).unwrap();
        let from = bytes.clone();
        for _ in 0..1 + random(4) {
            let page = random(3) * PAGE;
            match random(6) {
                0 => bytes[page + random(PAGE)] ^= 1 << random(8),
                1 => bytes[page + random(128)] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                // Fields of slots and epochs, with values at the ends of their ranges.
                2 => {
                    let at = page + 64 + random(100) * 4;
                    let value = [0, 1, u32::MAX, 1 << 31, 7168, 4 << 20][random(6)];
                    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
                // A slot copied to another place, and one emptied.
                3 => {
                    let slot = |place: usize| page + 192 + place * 128;
                    let from = slot(random(6));
                    bytes.copy_within(from..from + 128, slot(random(6)));
                }
                4 => bytes[page + 19] = random(256) as u8,
                _ => bytes.truncate((1 + random(4)) * PAGE - random(2)),
            }
            if bytes.len() < 3 * PAGE {
                break;
            }
        }
        if bytes.len() >= 3 * PAGE {
            if random(3) > 0 {
                bytes.copy_within(PAGE..2 * PAGE, 2 * PAGE);
            }
            if random(4) > 0 {
                bytes[PAGE..3 * PAGE].chunks_exact_mut(PAGE).for_each(with_checksum);
            }
        }
        let is_same = *bytes == from;
        let vfs = disk(&image);
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        if let Ok(page) = shoal_vault::key_page(&shared, Path::new(DB)) {
            assert!(page.slots().count() <= 6);
        }
        let keys = Arc::new(Keys::new(entropy()).with_key(secret.clone()));
        let Ok(opened) = store(&vfs, keys) else {
            refused += 1;
            assert!(!is_same);
            continue;
        };
        let verified = shoal_vault::verify(&opened);
        assert_eq!(verified.is_ok(), is_same, "{verified:?}");
        if let Ok(found) = rows(&mut sql(&opened), "SELECT * FROM t") {
            assert_eq!(found, expected);
            whole += 1;
        }
    }
    assert!(refused > 100 && whole > 0, "{refused} {whole}");
}
