//! Slots of recipients: opened by their owners and by nobody else; forged slots, and flipped bits.

use std::path::Path;
use std::sync::Arc;

use shoal_store::vfs::Image;
use shoal_store::{Access, Error, Fault, Options, Store};
use shoal_vault::{Cipher, Cost, Keys, NewKey, Recipient, Secret, VaultError};

use crate::{
    DB, PAGE, batch, disk, entropy, filled, keys, known, new_key, pair, rows, sql, store,
    with_checksum,
};

/// Where a page of keys has its first slot, and the length of a slot.
const SLOTS: usize = 192;
const SLOT: usize = 128;

fn by(secret: &Secret) -> Arc<Keys> {
    let keys = Keys::new(entropy()).with_key(secret.clone());
    keys.set_cost(Cost::least());
    keys.into()
}

fn fault(opened: Result<Store, Error>) -> Option<Fault> {
    match opened {
        Ok(store) => match shoal_vault::verify(&store) {
            Ok(_) => None,
            Err(error) => Some(error.fault().unwrap()),
        },
        Err(Error::Refused { fault, .. } | Error::Locked { fault, .. }) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

/// A file with a slot of a passphrase and one of a recipient.
fn shared(recipient: Recipient) -> Image {
    let vfs = filled(20);
    let opened = store(&vfs, known()).unwrap();
    let key = NewKey::recipient(recipient).labelled("ada");
    assert_eq!(shoal_vault::add_slot(&opened, &key).unwrap(), 1);
    drop(opened);
    vfs.image()
}

/// Changes both pages of keys, and corrects their checksums, for which no key is needed.
fn forged(image: &Image, change: impl Fn(&mut [u8])) -> Image {
    let mut image = image.clone();
    let bytes = image.get_mut(Path::new(DB)).unwrap();
    for page in bytes[PAGE..3 * PAGE].chunks_exact_mut(PAGE) {
        change(page);
        with_checksum(page);
    }
    image
}

#[test]
fn a_recipient_opens_what_a_passphrase_made_and_the_other_way_round() {
    let (secret, recipient) = pair();
    let image = shared(recipient);
    let vfs = disk(&image);
    let opened = store(&vfs, by(&secret)).unwrap();
    assert_eq!(rows(&mut sql(&opened), "SELECT * FROM t").unwrap().len(), 20);
    let page = shoal_vault::slots(&opened).unwrap();
    let slots: Vec<_> =
        page.slots().map(|(at, slot)| (at, slot.recipient(), slot.label())).collect();
    let print = Some(recipient.fingerprint());
    assert_eq!(slots, [(0, None, String::new()), (1, print, "ada".to_owned())]);
    // The recipient writes, adds keys and removes the passphrase.
    batch(&mut sql(&opened), "INSERT INTO t VALUES (20, 'by the recipient')");
    let (third, to_third) = pair();
    shoal_vault::add_slot(&opened, &NewKey::recipient(to_third)).unwrap();
    shoal_vault::remove_slot(&opened, 0).unwrap();
    shoal_vault::verify(&opened).unwrap();
    drop(opened);
    assert_eq!(fault(store(&vfs, known())), Some(Fault::WrongKey));
    let opened = store(&vfs, by(&third)).unwrap();
    shoal_vault::add_slot(&opened, &new_key("back")).unwrap();
    let opened = store(&disk(&vfs.image()), keys("back").into()).unwrap();
    assert_eq!(rows(&mut sql(&opened), "SELECT * FROM t").unwrap().len(), 21);
}

#[test]
fn a_new_file_and_a_rekeyed_one_are_sealed_to_recipients() {
    let ((one, to_one), (two, to_two), (other, _)) = (pair(), pair(), pair());
    for cipher in [Cipher::AesGcmSiv, Cipher::XChaCha] {
        let keys = [to_one, to_two].map(NewKey::recipient);
        let codec = shoal_vault::create(&keys, cipher, &entropy()).unwrap();
        let vfs = shoal_store::vfs::SimVfs::new();
        let options = Options { codec: Some(Arc::new(codec)), ..Options::new(Access::Create) };
        let made = Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options).unwrap();
        batch(&mut sql(&made), "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 9)");
        drop(made);
        for secret in [&one, &two] {
            let opened = store(&vfs, by(secret)).unwrap();
            assert_eq!(rows(&mut sql(&opened), "SELECT * FROM t").unwrap().len(), 9);
            assert_eq!(shoal_vault::slots(&opened).unwrap().cipher(), cipher);
        }
        assert_eq!(fault(store(&vfs, by(&other))), Some(Fault::WrongKey));
        assert_eq!(fault(store(&vfs, known())), Some(Fault::WrongKey));
        let opened = store(&vfs, by(&one)).unwrap();
        shoal_vault::rekey(&opened, &[NewKey::recipient(to_two)]).unwrap();
        drop(opened);
        assert_eq!(fault(store(&vfs, by(&one))), Some(Fault::WrongKey));
        assert_eq!(fault(store(&vfs, by(&two))), None);
    }
    let none = shoal_vault::create(&[], Cipher::default(), &entropy()).unwrap_err();
    assert!(matches!(none, VaultError::Slot { .. }));
}

/// A private key's file seals new files to its own public key: a random key needs no costs of
/// Argon2id.
#[test]
fn a_file_made_with_a_private_key_is_its_recipients() {
    let (secret, recipient) = pair();
    let vfs = shoal_store::vfs::SimVfs::new();
    batch(&mut sql(&store(&vfs, by(&secret)).unwrap()), "CREATE TABLE t(a)");
    let opened = store(&vfs, by(&secret)).unwrap();
    let page = shoal_vault::slots(&opened).unwrap();
    let prints: Vec<_> = page.slots().map(|(_, slot)| slot.recipient()).collect();
    assert_eq!(prints, [Some(recipient.fingerprint())]);
}

#[test]
fn every_flipped_bit_of_a_slot_is_found_by_whoever_has_a_key() {
    let (secret, recipient) = pair();
    let image = shared(recipient);
    let (private, passphrase) = (by(&secret), known());
    let range = SLOTS + SLOT..SLOTS + 2 * SLOT;
    for bit in range.start * 8..range.end * 8 {
        let flip = |page: &mut [u8]| page[bit / 8] ^= 1 << (bit % 8);
        // Without the checksum put right, page 3 answers for page 2, and verification tells.
        let mut plain = image.clone();
        flip(&mut plain.get_mut(Path::new(DB)).unwrap()[PAGE..2 * PAGE]);
        assert_eq!(fault(store(&disk(&plain), Arc::clone(&private))), Some(Fault::Header), "{bit}");
        let forged = forged(&image, flip);
        for keys in [&private, &passphrase] {
            let found = fault(store(&disk(&forged), Arc::clone(keys)));
            let is_told = matches!(found, Some(Fault::Header | Fault::WrongKey));
            assert!(is_told, "byte {}, bit {}: {found:?}", bit / 8 - SLOTS - SLOT, bit % 8);
        }
    }
}

/// A slot of a file put into another, and a slot that somebody without a key made.
#[test]
fn a_foreign_slot_opens_nothing() {
    let (secret, recipient) = pair();
    let (image, other) = (shared(recipient), shared(recipient));
    let at = SLOTS + SLOT..SLOTS + 2 * SLOT;
    let slot = other[Path::new(DB)][PAGE..][at.clone()].to_vec();
    let moved = forged(&image, |page| page[at.clone()].copy_from_slice(&slot));
    assert_eq!(fault(store(&disk(&moved), by(&secret))), Some(Fault::WrongKey));
    assert_eq!(fault(store(&disk(&moved), known())), Some(Fault::Header));
    // A whole page of keys of another file has another id in it, and other keys.
    let page = other[Path::new(DB)][PAGE..2 * PAGE].to_vec();
    let moved = forged(&image, |own| own.copy_from_slice(&page));
    assert!(matches!(
        fault(store(&disk(&moved), by(&secret))),
        Some(Fault::Header | Fault::Damaged)
    ));
    // A share of low order agrees on zero with everybody: no key is made of the zero.
    for share in [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }] {
        let low = forged(&image, |page| page[at.start + 12..at.start + 44].copy_from_slice(&share));
        assert_eq!(fault(store(&disk(&low), by(&secret))), Some(Fault::Header));
    }
    // A kind of a later layout.
    let later = forged(&image, |page| page[at.start] = 3);
    assert_eq!(fault(store(&disk(&later), known())), Some(Fault::Header));
}

#[test]
fn public_keys_are_read_with_their_fingerprint() {
    let (_, recipient) = pair();
    let text = recipient.to_string();
    assert_eq!(format!(" {text}\n").parse::<Recipient>().unwrap(), recipient);
    for at in 0..text.len() {
        let mut mistyped = text.clone().into_bytes();
        mistyped[at] = if mistyped[at] == b'0' { b'1' } else { b'0' };
        let mistyped = String::from_utf8(mistyped).unwrap();
        assert!(mistyped.parse::<Recipient>().is_err(), "{mistyped}");
        assert!(text[..at].parse::<Recipient>().is_err());
    }
    let zero = format!("x25519:{}-0000000000000000", "00".repeat(32));
    assert!(zero.parse::<Recipient>().unwrap_err().to_string().contains("low order"));
    assert!("x25519:é".parse::<Recipient>().is_err());
}

#[test]
fn damaged_private_keys_are_no_passphrases() {
    let (secret, _) = pair();
    assert!(secret.recipient().unwrap().is_some());
    for text in ["shoal private key 1\n", "shoal private key 1\n12", "shoal private key 1\nxy\n"] {
        let secret = Secret::new(text.as_bytes());
        assert!(matches!(secret.recipient(), Err(VaultError::PrivateKey)), "{text}");
        assert_eq!(fault(store(&filled(1), by(&secret))), Some(Fault::WrongKey));
    }
    for text in ["shoal private key", "shoal private key 2\n", "anything"] {
        assert_eq!(Secret::new(text.as_bytes()).recipient().unwrap(), None);
    }
}
