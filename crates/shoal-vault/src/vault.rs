//! Sealed files opened and made, and their keys changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shoal_store::vfs::{Entropy, OpenMode, Vfs};
use shoal_store::{Access, Error as StoreError, Fault, Mode, Options, Pgno, Store, Transaction};

use crate::VaultError;
use crate::cost::Cost;
use crate::new_key::NewKey;
use crate::page::{Cipher, MAGIC, epoch_of};
use crate::recipient::PrivateKey;
use crate::sealed::{HeaderOnly, KEY_PAGES, Ring, SealedPages, epoch_bound, epoch_wrapping};
use crate::secret::{Key, Secret};
use crate::slots::{KeyPage, Slot, Unlocked, Wrapped};

/// Pages written again by one transaction of a change of the data key, and pages looked at.
const BATCH: u32 = 1000;
const LOOKED_AT_MAX: u32 = 16 * BATCH;

/// A codec for a new sealed file with a key slot for each of `keys`.
///
/// # Errors
/// [`VaultError::Slot`] without a key; [`VaultError::Kdf`].
pub fn create(
    keys: &[NewKey],
    cipher: Cipher,
    entropy: &Arc<dyn Entropy>,
) -> Result<SealedPages, VaultError> {
    let mut file_id = [0; 16];
    entropy.fill(&mut file_id);
    let random = || Key::filled(|key| entropy.fill(key));
    let (vault_key, data_key) = (random(), random());
    let slots = new_slots(keys, &vault_key, &file_id, &**entropy)?;
    let current = wrap_epoch(&vault_key, &data_key, &file_id, 1, &**entropy);
    let page = KeyPage::new(cipher, file_id, (1, current), slots);
    let ring = Ring::new(page, vault_key, 0).expect("keys just wrapped unwrap");
    Ok(SealedPages::new(ring, Arc::clone(entropy)))
}

fn new_slots(
    keys: &[NewKey],
    vault_key: &Key,
    file_id: &[u8; 16],
    entropy: &dyn Entropy,
) -> Result<Vec<Slot>, VaultError> {
    if keys.is_empty() {
        return Err(VaultError::Slot { slot: 0, why: "is missing: a file has one key at least" });
    }
    keys.iter().map(|key| key.slot(vault_key, file_id, entropy)).collect()
}

fn wrap_epoch(
    vault_key: &Key,
    data_key: &Key,
    file_id: &[u8; 16],
    epoch: u32,
    entropy: &dyn Entropy,
) -> Wrapped {
    Wrapped::new(&epoch_wrapping(vault_key), data_key, &epoch_bound(file_id, epoch), entropy)
}

/// Plays back the journal of a crashed transaction, without a key; true where there was one. Any
/// fault of the file shows when it is opened.
pub(crate) fn undo_crashed(vfs: &Arc<dyn Vfs>, path: &Path, access: Access) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    let journal = Path::new(&journal);
    let is_there = || matches!(vfs.size(journal), Ok(Some(size)) if size > 0);
    if access == Access::ReadOnly || !is_there() {
        return false;
    }
    let options = Options { codec: Some(Arc::new(HeaderOnly)), ..Options::new(Access::ReadWrite) };
    // The journal is played back when the file is opened, and before a page is read.
    drop(Store::open_with(Arc::clone(vfs), path, options));
    !is_there()
}

/// The page of keys of a sealed file, read without a key.
///
/// # Errors
/// [`VaultError::Header`]; the store's.
pub(crate) fn read_keys(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<(KeyPage, Vec<u8>), VaultError> {
    let options = Options {
        codec: Some(Arc::new(HeaderOnly)),
        busy_timeout: Duration::from_secs(5),
        ..Options::new(Access::ReadOnly)
    };
    let store = Store::open_with(Arc::clone(vfs), path, options)?;
    let reads = store.begin(Mode::Read)?;
    let damaged = |why: &str| VaultError::Header { path: path.to_path_buf(), why: why.into() };
    if reads.page_count() <= KEY_PAGES {
        return Err(damaged("the file ends before them"));
    }
    let mut why = String::new();
    for number in 2..=KEY_PAGES + 1 {
        let page = reads.raw_page(Pgno::new(number).expect("numbers from 2 on"))?.to_vec();
        match KeyPage::parse(&page) {
            Ok(keys) => return Ok((keys, page)),
            Err(reason) => why = reason,
        }
    }
    Err(damaged(&why))
}

/// The page of keys of a sealed file, as anybody can read it.
///
/// # Errors
/// [`VaultError::Header`]; the store's.
pub fn key_page(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<KeyPage, VaultError> {
    undo_crashed(vfs, path, Access::ReadWrite);
    read_keys(vfs, path).map(|(keys, _)| keys)
}

/// The codec of a sealed file. `kek_of` makes the keys of a passphrase's slots:
/// [`kek`](crate::slots::kek), or what is remembered.
pub(crate) fn open(
    vfs: &Arc<dyn Vfs>,
    (path, access, undone): (&Path, Access, bool),
    (secret, entropy): (&Secret, &Arc<dyn Entropy>),
    kek_of: impl FnMut(Cost, &[u8; 16], &[u8; 16]) -> Result<Key, VaultError>,
) -> Result<SealedPages, VaultError> {
    let codec = unlock(path, read_keys(vfs, path)?, (secret, entropy), kek_of)?;
    if undone {
        // The journal was played back without a key: whether its pages belong together shows now.
        let ring = codec.ring();
        let again = Ring::new(ring.page.clone(), Key::clone(&ring.vault_key), ring.place);
        let again = again.expect("keys that unwrapped unwrap again");
        let again = SealedPages::new(again, Arc::clone(entropy));
        let options = Options { codec: Some(Arc::new(again)), ..Options::new(access) };
        verify(&Store::open_with(Arc::clone(vfs), path, options)?)?;
    }
    Ok(codec)
}

/// The page of keys of a sealed file with anything else damaged, and the bytes of the file's pages:
/// the page of keys by the rules, or else the first page with the look of one. `None` for a file
/// with neither a page of keys nor the beginning of a sealed file.
///
/// # Errors
/// [`VaultError::Header`]; the store's.
pub(crate) fn find_keys(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
) -> Result<Option<(KeyPage, Vec<u8>)>, VaultError> {
    let read = read_keys(vfs, path);
    if let Ok(found) = read {
        return Ok(Some(found));
    }
    let file = vfs.open(path, OpenMode::ReadOnly).map_err(StoreError::from)?;
    let mut bytes = vec![0; (KEY_PAGES as usize + 1) << 16];
    let length = file.read_at(&mut bytes, 0).map_err(StoreError::from)?;
    bytes.truncate(length);
    for page_size in (10..=16).map(|shift| 1_usize << shift) {
        for number in 1..=KEY_PAGES as usize {
            let page = bytes.get(number * page_size..(number + 1) * page_size);
            if let Some(page) = page
                && let Ok(keys) = KeyPage::parse(page)
            {
                return Ok(Some((keys, page.to_vec())));
            }
        }
    }
    match bytes.starts_with(MAGIC) {
        true => read.map(Some),
        false => Ok(None),
    }
}

/// The codec of a page of keys, opened by a secret.
///
/// # Errors
/// [`VaultError::WrongKey`]; [`VaultError::Header`] for a page that its owner did not write.
pub(crate) fn unlock(
    path: &Path,
    (keys, page): (KeyPage, Vec<u8>),
    (secret, entropy): (&Secret, &Arc<dyn Entropy>),
    mut kek_of: impl FnMut(Cost, &[u8; 16], &[u8; 16]) -> Result<Key, VaultError>,
) -> Result<SealedPages, VaultError> {
    let damaged = |why: String| VaultError::Header { path: path.to_path_buf(), why };
    let file_id = keys.file_id;
    let unlocked = match PrivateKey::of(secret)? {
        Some(private) => keys.unlock_by(&page, &private),
        None => keys.unlock(&page, |cost, salt| kek_of(cost, salt, &file_id)),
    };
    let (place, vault_key) = unlocked.map_err(|locked| match locked {
        Unlocked::WrongKey => VaultError::WrongKey { path: path.to_path_buf() },
        Unlocked::Damaged(why) => damaged(why),
        Unlocked::Failed(error) => error,
    })?;
    let ring = Ring::new(keys, vault_key, place);
    let ring = ring.ok_or_else(|| damaged("a data key is not as it was written".to_owned()))?;
    Ok(SealedPages::new(ring, Arc::clone(entropy)))
}

/// Looks at every page of a sealed file: that it is as it was written, in its place, and of the
/// state that page 1 vouches for. The number of pages.
///
/// # Errors
/// [`StoreError::Refused`] with the first fault.
pub fn verify(store: &Store) -> Result<u32, VaultError> {
    let reads = store.begin(Mode::Read)?;
    let count = reads.page_count();
    if count == 0 {
        return Ok(0);
    }
    let lock_page = Pgno::lock_page(reads.header().page_size);
    let codec = store.codec();
    for pgno in (1..=count).filter_map(Pgno::new).filter(|pgno| *pgno != lock_page) {
        let mut page = reads.stored_page(pgno)?;
        let refused = |fault, why: String| StoreError::Refused {
            pgno,
            fault,
            why,
            path: store.path().to_path_buf(),
        };
        if let Some(codec) = codec {
            codec.decode(pgno, &mut page).map_err(|it| refused(it.fault, it.why))?;
            let is_key_page = pgno != Pgno::FIRST && pgno.get() <= codec.own_pages() + 1;
            if is_key_page && let Err(why) = KeyPage::parse(&page) {
                return Err(refused(Fault::Header, why).into());
            }
        }
    }
    if codec.is_some_and(|codec| codec.own_pages() == KEY_PAGES) {
        let numbers = [2, 3].map(|number| Pgno::new(number).expect("numbers from 2 on"));
        let [first, second] = numbers.map(|pgno| reads.stored_page(pgno));
        if first? != second? {
            return Err(StoreError::Refused {
                pgno: numbers[1],
                fault: Fault::Header,
                why: "has other keys than page 2".to_owned(),
                path: store.path().to_path_buf(),
            }
            .into());
        }
    }
    if !reads.is_whole()? {
        let why = "vouches for other versions of the pages than the file has: \
                   pages of an earlier state were put back";
        return Err(StoreError::Refused {
            pgno: Pgno::FIRST,
            fault: Fault::Old,
            why: why.to_owned(),
            path: store.path().to_path_buf(),
        }
        .into());
    }
    Ok(count)
}

/// The codec of a store of a sealed file of Shoal's own.
///
/// # Errors
/// [`StoreError::Unsupported`] for any other file.
fn sealed(store: &Store) -> Result<&SealedPages, VaultError> {
    let codec = store.codec().and_then(|codec| codec.as_any()?.downcast_ref());
    codec.ok_or_else(|| {
        let what = "changing the keys of a file that Shoal did not seal";
        StoreError::Unsupported { what, path: store.path().to_path_buf() }.into()
    })
}

/// The slots of an open sealed file.
///
/// # Errors
/// [`StoreError::Unsupported`] for any other file; the store's.
pub fn slots(store: &Store) -> Result<KeyPage, VaultError> {
    let codec = sealed(store)?;
    let reads = store.begin(Mode::Read)?;
    if reads.page_count() == 0 {
        return Ok(codec.key_page());
    }
    present_keys(&reads, store)
}

/// The page of keys at present, which others may have changed since the file was opened.
fn present_keys(txn: &Transaction, store: &Store) -> Result<KeyPage, VaultError> {
    let page = txn.raw_page(Pgno::new(2).expect("2 is a number of a page"))?;
    KeyPage::parse(page).map_err(|why| VaultError::Header { path: store.path().to_path_buf(), why })
}

/// Writes the page of keys, twice, and commits. Afterwards the store uses `ring`.
fn commit_keys(mut txn: Transaction, codec: &SealedPages, ring: Ring) -> Result<(), VaultError> {
    let size = txn.header().page_size as usize;
    let bytes = ring.page.write(size, &ring.vault_key).ok_or(VaultError::Slot {
        slot: ring.page.slots.len(),
        why: "has no room: remove a slot first",
    })?;
    for number in 2..=KEY_PAGES + 1 {
        txn.write_own_page(Pgno::new(number).expect("numbers from 2 on"), &bytes)?;
    }
    let before = codec.ring();
    codec.set_ring(Arc::new(ring));
    match txn.commit() {
        Ok(_) => Ok(()),
        Err(error) => {
            if !matches!(error, StoreError::InDoubt { .. }) {
                codec.set_ring(before);
            }
            Err(error.into())
        }
    }
}

/// Adds a key slot in one small transaction; returns its place.
///
/// # Errors
/// [`VaultError::Slot`] without room; the store's.
pub fn add_slot(store: &Store, key: &NewKey) -> Result<usize, VaultError> {
    let codec = sealed(store)?;
    let ring = codec.ring();
    let slot = key.slot(&ring.vault_key, &ring.page.file_id, &**codec.entropy())?;
    let txn = begin_writing(store)?;
    let mut page = present_keys(&txn, store)?;
    let places = KeyPage::places(txn.header().page_size as usize);
    page.slots.resize(places.max(page.slots.len()), None);
    let place = page.slots.iter().position(Option::is_none);
    let place = place.ok_or(VaultError::Slot { slot: places, why: "has no room" })?;
    page.slots[place] = Some(slot);
    let ring = again(page, &ring, ring.place, store)?;
    commit_keys(txn, codec, ring)?;
    Ok(place)
}

/// Removes a key slot in one small transaction. Copies of the file made before still open with
/// its secret.
///
/// # Errors
/// [`VaultError::Slot`] for a place without a slot, and for the last slot; the store's.
pub fn remove_slot(store: &Store, slot: usize) -> Result<(), VaultError> {
    let codec = sealed(store)?;
    let ring = codec.ring();
    let txn = begin_writing(store)?;
    let mut page = present_keys(&txn, store)?;
    if page.slots.get(slot).is_none_or(Option::is_none) {
        return Err(VaultError::Slot { slot, why: "is empty" });
    }
    if page.slots().count() == 1 {
        return Err(VaultError::Slot { slot, why: "is the last one, and stays" });
    }
    page.slots[slot] = None;
    let ring = again(page, &ring, ring.place, store)?;
    commit_keys(txn, codec, ring)
}

fn again(page: KeyPage, ring: &Ring, place: usize, store: &Store) -> Result<Ring, VaultError> {
    let damaged = || VaultError::Header {
        path: store.path().to_path_buf(),
        why: "a data key is not as it was written".to_owned(),
    };
    Ring::new(page, Key::clone(&ring.vault_key), place).ok_or_else(damaged)
}

fn begin_writing(store: &Store) -> Result<Transaction, VaultError> {
    let mut txn = store.begin(Mode::Write)?;
    if txn.page_count() == 0 {
        // The first change writes the pages of keys of a new file.
        txn.set_user_version(0)?;
    }
    Ok(txn)
}

/// Gives the file other keys: a slot for each of `keys` in the place of all slots, a new vault
/// key, and a new data key for every page. The slots change in one transaction, the pages in later
/// transactions of a thousand pages: after a crash the file opens with the new keys, and
/// [`finish_rekey`] goes on. The number of pages written.
///
/// # Errors
/// [`VaultError::Slot`] without a key, and for more than have room; [`VaultError::Kdf`]; the
/// store's.
pub fn rekey(store: &Store, keys: &[NewKey]) -> Result<u32, VaultError> {
    Ok(begin_rekey(store, keys)? + finish_rekey(store)?)
}

/// The first transaction of [`rekey`]: the slots, and the new data key beside the old one. From
/// then on pages are written with the new key, and [`rekey_step`] writes the pages of the old key
/// again. An earlier change cut short is ended first; the number of pages written for its end.
///
/// # Errors
/// As [`rekey`].
pub fn begin_rekey(store: &Store, keys: &[NewKey]) -> Result<u32, VaultError> {
    let written = finish_rekey(store)?;
    let codec = sealed(store)?;
    let ring = codec.ring();
    let file_id = ring.page.file_id;
    let entropy = &**codec.entropy();
    let random = || Key::filled(|key| entropy.fill(key));
    let (vault_key, data_key) = (random(), random());
    let slots = new_slots(keys, &vault_key, &file_id, entropy)?;
    let txn = begin_writing(store)?;
    let old = present_keys(&txn, store)?;
    let epoch =
        old.epoch.checked_add(1).ok_or(VaultError::Slot { slot: 0, why: "has had every epoch" })?;
    let wrap = |key: &Key, epoch| wrap_epoch(&vault_key, key, &file_id, epoch, entropy);
    let mut page = KeyPage::new(old.cipher, file_id, (epoch, wrap(&data_key, epoch)), slots);
    page.previous = Some((old.epoch, wrap(&ring.current_key, old.epoch)));
    let next = Ring::new(page, vault_key, 0).expect("keys just wrapped unwrap");
    commit_keys(txn, codec, next)?;
    Ok(written)
}

/// How far a change of the data key has come. Progress may be lost: new progress begins at the
/// first page, and passes over pages of the new epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RekeyProgress {
    epoch: u32,
    looked_at: u32,
    pages: u32,
    written: u32,
    is_done: bool,
}

impl RekeyProgress {
    /// Pages looked at so far.
    pub fn looked_at(&self) -> u32 {
        self.looked_at
    }

    /// Pages of the file, as of the last step.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages written again so far.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// True once no page of the old key is left, and the file has forgotten the key.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

/// One transaction of a change of the data key: up to a thousand pages written again, or the old
/// key forgotten behind the last. Between two steps others read and write.
///
/// # Errors
/// The store's.
pub fn rekey_step(store: &Store, progress: &mut RekeyProgress) -> Result<(), VaultError> {
    let codec = sealed(store)?;
    let ring = codec.ring();
    if ring.previous.is_none() {
        progress.is_done = true;
        return Ok(());
    }
    if progress.epoch != ring.current.epoch {
        *progress = RekeyProgress { epoch: ring.current.epoch, ..RekeyProgress::default() };
    }
    let mut txn = store.begin(Mode::Write)?;
    let own = own_pages(&txn);
    progress.pages = txn.page_count();
    let (mut count, start) = (0, progress.looked_at);
    let mut looked_at = start;
    while looked_at < progress.pages && count < BATCH && looked_at - start < LOOKED_AT_MAX {
        looked_at += 1;
        let pgno = Pgno::new(looked_at).expect("counted from 1");
        if !own(pgno) && epoch_of(&txn.stored_page(pgno)?) != ring.current.epoch {
            txn.store_again(pgno)?;
            count += 1;
        }
    }
    match count {
        // A reader of this program would wait for a writer of this program.
        0 => drop(txn),
        _ => {
            txn.commit()?;
            progress.written += count;
        }
    }
    progress.looked_at = looked_at;
    if count > 0 || looked_at < progress.pages {
        return Ok(());
    }
    // The old key stays until a look at all pages in one read transaction finds no page of the old
    // epoch. Others write meanwhile, with the new key alone.
    let reads = store.begin(Mode::Read)?;
    let own = own_pages(&reads);
    for pgno in (1..=reads.page_count()).filter_map(Pgno::new).filter(|pgno| !own(*pgno)) {
        if epoch_of(&reads.stored_page(pgno)?) != ring.current.epoch {
            progress.looked_at = pgno.get() - 1;
            return Ok(());
        }
    }
    drop(reads);
    let txn = store.begin(Mode::Write)?;
    let mut page = present_keys(&txn, store)?;
    page.previous = None;
    let ring = again(page, &ring, ring.place, store)?;
    // Terms of the pages of keys as they are now are by the present key already.
    commit_keys(txn, codec, ring)?;
    progress.is_done = true;
    Ok(())
}

/// True for the pages of a file without a seal: the pages of keys, and the page of locks.
fn own_pages(txn: &Transaction) -> impl Fn(Pgno) -> bool + use<> {
    let lock_page = Pgno::lock_page(txn.header().page_size);
    move |pgno| pgno == lock_page || (2..=KEY_PAGES + 1).contains(&pgno.get())
}

/// Ends a change of the data key: writes the pages of the old key again, and then forgets the old
/// key. The number of pages written; 0 where no change is under way.
///
/// # Errors
/// The store's.
pub fn finish_rekey(store: &Store) -> Result<u32, VaultError> {
    let mut progress = RekeyProgress::default();
    while !progress.is_done {
        rekey_step(store, &mut progress)?;
    }
    Ok(progress.written)
}
