//! A small sealed file under any bytes, opened by a private key: no passphrase, and so no cost of a
//! slot is ever paid.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use shoal_sql::Connection;
use shoal_store::vfs::{Entropy, MemVfs, SeededEntropy, Vfs};
use shoal_store::{Access, CodecSource, Options, Salvage, Store};
use shoal_vault::{Cipher, Keys, NewKey, Secret};

use crate::sql;
use crate::walk::DATABASE;

/// Bytes of a page of the file.
const PAGE: usize = 1024;
/// Bytes behind the checksum of a page of keys, and with it.
const ENDS: usize = 64;

const SETUP: [&str; 3] = [
    "PRAGMA page_size = 1024",
    "CREATE TABLE t(a, b)",
    "INSERT INTO t SELECT value, 'row ' || value FROM generate_series(1, 40)",
];

/// The private key of the file, and the file.
fn template() -> &'static (Secret, Vec<u8>) {
    static TEMPLATE: OnceLock<(Secret, Vec<u8>)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(7));
        let (text, recipient) = shoal_vault::new_pair(|bytes| entropy.fill(bytes));
        let keys = [NewKey::recipient(recipient), NewKey::recipient(recipient)];
        let codec = shoal_vault::create(&keys, Cipher::AesGcmSiv, &entropy);
        let codec = Some(Arc::new(codec.expect("two slots fit")) as _);
        let vfs = MemVfs::new();
        let options = Options { codec, ..Options::new(Access::Create) };
        let store = Store::open_with(Arc::new(vfs.clone()), Path::new(DATABASE), options);
        let store = store.expect("a new file opens");
        let mut connection = Connection::open(store).expect("a new file has a schema");
        for statement in SETUP {
            sql::run(&mut connection, statement).expect("the set-up is valid");
        }
        let file = vfs.get(Path::new(DATABASE)).expect("it was written");
        (Secret::new(text.as_bytes()), file)
    })
}

/// The file that an input stands for: by its first byte the input itself, the input in the place of
/// the first pages, or the file with single bytes changed. Checksums of pages of keys are corrected
/// where the first byte says so: anybody can.
fn file(data: &[u8]) -> Vec<u8> {
    let Some((mode, data)) = data.split_first() else { return Vec::new() };
    let mut file = template().1.clone();
    match mode % 3 {
        0 => file = data.to_vec(),
        1 => {
            let length = data.len().min(file.len());
            file[..length].copy_from_slice(&data[..length]);
        }
        _ => {
            for change in data.chunks_exact(4) {
                let place = usize::from(change[0] % 5) * PAGE;
                let place = place + usize::from(u16::from_le_bytes([change[1], change[2]])) % PAGE;
                if let Some(byte) = file.get_mut(place) {
                    *byte = change[3];
                }
            }
        }
    }
    if mode & 4 != 0 && file.len() >= 3 * PAGE {
        for page in file[PAGE..3 * PAGE].chunks_exact_mut(PAGE) {
            let digest = Sha256::digest(&page[..PAGE - ENDS]);
            page[PAGE - ENDS..PAGE - ENDS / 2].copy_from_slice(&digest);
        }
    }
    if mode & 8 != 0 && file.len() >= 3 * PAGE {
        file.copy_within(PAGE..2 * PAGE, 2 * PAGE);
    }
    file
}

/// A seed that stands for the whole file.
pub fn seed() -> Vec<u8> {
    [&[0], &*template().1].concat()
}

/// Opens, reads and salvages the file of an input.
///
/// # Panics
/// For more slots than a page has, costs out of bounds, and rows that nobody with the key wrote.
pub fn open(data: &[u8]) {
    let vfs = MemVfs::new();
    let path = Path::new(DATABASE);
    vfs.put(path, file(data));
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    if let Ok(page) = shoal_vault::key_page(&shared, path) {
        assert!(page.slots().count() <= 32, "a page of keys has 32 places at most");
        for cost in page.slots().filter_map(|(_, slot)| slot.cost()) {
            let (memory, passes) = (cost.memory_kib(), cost.passes());
            assert!((7 << 10..=4 << 20).contains(&memory) && passes <= 64, "costs are bounded");
        }
    }
    let keys = || {
        let keys = Keys::new(Arc::new(SeededEntropy::new(9))).with_key(template().0.clone());
        Arc::new(keys)
    };
    let codecs = Some(keys() as Arc<dyn CodecSource>);
    let options = Options { codecs, ..Options::new(Access::ReadOnly) };
    if let Ok(store) = Store::open_with(Arc::clone(&shared), path, options) {
        let _ = shoal_vault::verify(&store);
        if let Ok(mut connection) = Connection::open(store) {
            let query = "SELECT 1 / min(b = 'row ' || a) FROM t";
            let found = connection.prepare(query).and_then(|mut statement| {
                let mut rows = connection.query(&mut statement)?;
                rows.next()
                    .map(|row| row.is_some_and(|row| row.get(0) == shoal_sql::ValueRef::Null))
            });
            assert!(!matches!(found, Ok(true)), "no row has another text than was written");
        }
    }
    if let Ok(Some((codec, page_size))) = keys().salvage(&shared, path)
        && let Ok(salvage) = Salvage::open_sealed(&shared, path, codec, page_size)
    {
        for page in salvage.pages() {
            let mut give = |row: shoal_store::SalvagedRow<'_>| {
                assert!(row.values.len() <= 8, "a page without the key gives no rows");
                Ok::<(), shoal_store::Error>(())
            };
            let _ = salvage.rows(page, &mut salvage.page_set(), &mut give);
        }
    }
}
