//! Known answers of every primitive, through the functions that the vault uses them by: vectors of
//! the specifications, and pages and slots computed by an independent program from `docs/vault.md`
//! (Python's `cryptography`, with HChaCha20 written out).

use crate::cost::Cost;
use crate::foreign::hex;
use crate::page::{Cipher, EpochKeys, Keyed, Place, SEAL};
use crate::recipient::{PrivateKey, Recipient};
use crate::secret::{Key, Secret};
use crate::slots::{Slot, Wrapped, array, kek};

/// Bytes of hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    hex(digits.as_bytes()).expect("a vector has hexadecimal digits")
}

pub(crate) fn key(digits: &str) -> Key {
    Key::new(array(&bytes(digits), 0))
}

/// The numbers from `first` on.
fn count<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first + at as u8)
}

/// Encrypts, compares content and tag, and decrypts again; a tag with a flipped bit is refused.
fn aead(cipher: Cipher, by: &Key, nonce: [u8; 24], (ad, plain, sealed): (&[u8], &[u8], &str)) {
    let keyed = Keyed::new(cipher, by);
    let mut content = plain.to_vec();
    let tag = keyed.encrypt(nonce, ad, &mut content);
    assert_eq!([&content[..], &tag].concat(), bytes(sealed));
    assert!(!keyed.decrypt(nonce, ad, &mut content.clone(), {
        let mut other = tag;
        other[15] ^= 1;
        other
    }));
    assert!(keyed.decrypt(nonce, ad, &mut content, tag));
    assert_eq!(content, plain);
}

/// RFC 8452, appendices C.2 and C.3 (with a wrapping counter).
#[test]
fn aes_256_gcm_siv() {
    let by = key(&format!("01{}", "00".repeat(31)));
    let mut nonce = [0; 24];
    nonce[8] = 3;
    let check = |ad: &str, plain: &str, sealed: &str| {
        aead(Cipher::AesGcmSiv, &by, nonce, (&bytes(ad), &bytes(plain), sealed));
    };
    check("", "", "07f5f4169bbf55a8400cd47ea6fd400f");
    check("", "0100000000000000", "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28");
    check("01", "0200000000000000", "1de22967237a813291213f267e3b452f02d01ae33e4ec854");
    let zeroes = "00".repeat(15);
    check(
        "01",
        &format!("02{zeroes}03{zeroes}04{zeroes}"),
        "c67a1f0f567a5198aa1fcc8e3f21314336f7f51ca8b1af61feac35a86416fa47fbca3b5f749cdf564527f2314f42\
         fe2503332742b228c647173616cfd44c54eb",
    );
    let zero = Key::new([0; 32]);
    let plain = bytes("000000000000000000000000000000004db923dc793ee6497c76dcc03a98e108");
    let wrapped = "f3f80f2cf0cb2dd9c5984fcda908456cc537703b5ba70324a6793a7bf218d3ea\
                   ffffffff000000000000000000000000";
    aead(Cipher::AesGcmSiv, &zero, [0; 24], (&[], &plain, wrapped));
}

/// draft-irtf-cfrg-xchacha, appendix A.3.1.
#[test]
fn xchacha20_poly1305() {
    let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                  the future, sunscreen would be it.";
    let sealed = "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa644\
                  0bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e\
                  3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c68b13b52e\
                  c0875924c1c7987947deafd8780acf49";
    let ad = bytes("50515253c0c1c2c3c4c5c6c7");
    aead(Cipher::XChaCha, &Key::new(count(0x80)), count(0x40), (&ad, plain, sealed));
}

/// RFC 5869, test case 1, of the crate; and keys as the vault derives them.
#[test]
fn hkdf_sha256() {
    let salt: [u8; 13] = count(0);
    let made = hkdf::Hkdf::<sha2::Sha256>::new(Some(&salt), &[0x0b; 22]);
    let mut out = [0; 42];
    made.expand(&count::<10>(0xf0), &mut out).expect("42 bytes are few");
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b8\
                    87185865";
    assert_eq!(out.to_vec(), bytes(expected));
    let derived = Key::new(count(0)).derive(&[b"shoal", b" test"]);
    let expected = "1e6156ce5dce74398dc500f0a82b6c9a4d97916518d54dff68fae4ac71c4b9cb";
    assert_eq!(derived.bytes().to_vec(), bytes(expected));
}

/// RFC 7748, sections 5.2 and 6.1.
#[test]
fn x25519() {
    for (scalar, point, shared) in [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        ),
    ] {
        let made = PrivateKey::new(&key(scalar)).shared(&array(&bytes(point), 0));
        assert_eq!(made.map(|key| key.bytes().to_vec()), Some(bytes(shared)));
    }
    let bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
    let public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
    assert_eq!(PrivateKey::new(&key(bob)).recipient().bytes().to_vec(), bytes(public));
    // All points of low order below 2^255, in their canonical form.
    for low in [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ] {
        let low = array(&bytes(low), 0);
        assert!(PrivateKey::new(&key(bob)).shared(&low).is_none());
        assert!(Recipient::new(low).is_none());
    }
}

/// Argon2id as slots use it, with the id of the file as associated data. The vectors of RFC 9106
/// are tests of `shoal-argon`: their costs are below a slot's.
#[test]
fn argon2id() {
    let secret = Secret::new(b"correct horse battery staple");
    for (memory_kib, passes, lanes, expected) in [
        (7168, 5, 1, "8a6cb64044c74e4e3aaae9fef32b0ffc3e0983ebff0c83594f2cc5c2d5a4ba18"),
        (65_536, 3, 4, "12b46320c02f18293a6b0f54366633a66724fa830233c055ffb93a6417d9a709"),
    ] {
        let cost = Cost::new(memory_kib, passes, lanes).expect("costs within the bounds");
        let made = kek(&secret, cost, &count(0), &count(16)).expect("there is memory");
        assert_eq!(made.bytes().to_vec(), bytes(expected));
    }
}

fn page(pgno: u32) -> Vec<u8> {
    let plain = (0..1024 - SEAL).map(|at| (at * 7 + pgno as usize) as u8);
    plain.chain([0xee; SEAL]).collect()
}

/// Whole pages: key, nonce, associated data, layout, and the term of the sum.
#[test]
fn pages() {
    use sha2::{Digest, Sha256};
    for (cipher, pgno, hash, term) in [
        (
            Cipher::AesGcmSiv,
            1,
            "81d9d60a41fad05628ac41f29df58e15073aec9d4891ed5c3e5a5c5c2f0eaf94",
            "b135961f09b675fd63625dc55b3e2a2e",
        ),
        (
            Cipher::AesGcmSiv,
            9,
            "a2a6595f4b79e92cec2a4cfdcfd491df1cd3882ba004d9d0de4759ffd11b3a75",
            "f24271efd2825b7c1e7451424a2cc3ac",
        ),
        (
            Cipher::XChaCha,
            1,
            "a85ed8c77bfce39b6dc6996dbb16ab2d153a9f53983e5f7f21481ccb3b036331",
            "5a6510eb47516a59821f406236cd2f9f",
        ),
        (
            Cipher::XChaCha,
            9,
            "17fea1b787a94737d305fe2fdf63404bd8596d1d32e32c76d70e888333337a68",
            "aed989c0bf3a5425bdcef527883dfdf6",
        ),
    ] {
        let file_id = count(100);
        let keys = EpochKeys::new(cipher, &Key::new(count(0)), 7, &file_id);
        let place = Place { file_id: &file_id, pgno };
        let (mut sealed, sum) = (page(pgno), (1 << 100) + 5);
        keys.seal(place, count(200), (0x01_0203_0405, sum), &mut sealed);
        assert_eq!(Sha256::digest(&sealed).to_vec(), bytes(hash), "{cipher:?}, page {pgno}");
        assert_eq!(keys.term_of(pgno, &sealed).to_le_bytes().to_vec(), bytes(term));
        assert!(keys.open(place, &mut sealed).is_ok());
        assert_eq!(sealed[16..1024 - SEAL], page(pgno)[16..1024 - SEAL]);
    }
}

/// The 128 bytes of a recipient's slot.
#[test]
fn a_recipients_slot() {
    let file_id = count(100);
    let (pair, owner) =
        (PrivateKey::new(&Key::new(count(1))), PrivateKey::new(&Key::new(count(33))));
    let recipient = owner.recipient();
    let text = "x25519:5869aff450549732cbaaed5e5df9b30a6da31cb0e5742bad5ad4a1a768f1a67b\
                -513ced5cc3da3ee5";
    assert_eq!(recipient.to_string(), text);
    let slot = Slot::for_recipient(&Key::new(count(150)), &recipient, &pair, &file_id, "ada");
    let mut written = [0; 128];
    slot.write(&mut written);
    let expected = "02000000513ced5cc3da3ee507a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2\
                    b86d1c7c6ceed38f1cb267cc77859a4a970fe44587f6f002e0b3307fdcf7e0fcc41dcfc619e8ab6b\
                    279e33ad27a4c7770c22106f5631922f26ca67df63ae2b99ae0cb0676164610000000000000000000\
                    000000000000000";
    assert_eq!(written.to_vec(), bytes(expected));
}

/// A key wrapped by another: RFC 8452's cipher with a nonce of its own.
#[test]
fn wrapped_keys() {
    let (by, inner) = (Key::new(count(1)), Key::new(count(80)));
    let wrapped = Wrapped::with_nonce(count(9), &by, &inner, b"bound");
    let opened = wrapped.open(&by, b"bound").map(|key| *key.bytes());
    assert_eq!(opened, Some(*inner.bytes()));
    assert!(wrapped.open(&by, b"other").is_none());
    assert!(wrapped.open(&inner, b"bound").is_none());
}
