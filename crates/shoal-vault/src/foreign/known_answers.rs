//! Known answers of the primitives of other programs' formats, through the formats' functions.
//! Whole files are samples in `testdata/encrypted`; Ascon's vectors are beside its code.

use super::aegis::Kind;
use super::sqlcipher::{Hash, cbc_decrypt, cbc_encrypt};
use super::{argon2id, chacha};
use crate::known_answers::{bytes, key};
use crate::secret::{Key, Secret};
use crate::slots::array;

/// Encrypts with tags of 16 bytes and of 32, compares, and decrypts again.
fn check<const T: usize>(
    kind: Kind,
    (key, nonce): (&[u8], &[u8]),
    (ad, plain): (&[u8], &[u8]),
    (sealed, expected): (&str, &str),
) {
    let mut content = plain.to_vec();
    let tag = kind.encrypt::<T>(key, nonce, ad, &mut content);
    let sealed = bytes(sealed);
    assert_eq!(content[..sealed.len()], sealed, "{kind:?}");
    assert_eq!(tag, bytes(expected), "{kind:?}");
    let mut other = tag.clone();
    other[T - 1] ^= 1;
    assert!(!kind.decrypt::<T>(key, nonce, ad, &other, &mut content.clone()));
    assert!(kind.decrypt::<T>(key, nonce, ad, &tag, &mut content));
    assert_eq!(content, plain);
}

/// draft-irtf-cfrg-aegis-aead, appendix A: test vectors 3 of the plain variants, and 2 of the
/// parallel ones.
#[test]
fn aegis() {
    let ad = bytes("0001020304050607");
    let plain: Vec<u8> = (0..32).collect();
    let by = |len| {
        let mut key = bytes("1001");
        key.resize(len, 0);
        let mut nonce = bytes("100002");
        nonce.resize(len, 0);
        (key, nonce)
    };
    let (key, nonce) = by(16);
    let sealed = "79d94593d8c2119d7e8fd9b8fc77845c5c077a05b2528b6ac54b563aed8efe84";
    let tag = "cc6f3372f6aa1bb82388d695c3962d9a";
    check::<16>(Kind::L128, (&key, &nonce), (&ad, &plain), (sealed, tag));
    let tag = "022cb796fe7e0ae1197525ff67e309484cfbab6528ddef89f17d74ef8ecd82b3";
    check::<32>(Kind::L128, (&key, &nonce), (&ad, &plain), (sealed, tag));
    let (key, nonce) = by(32);
    let sealed = "f373079ed84b2709faee373584585d60accd191db310ef5d8b11833df9dec711";
    let tag = "8d86f91ee606e9ff26a01b64ccbdd91d";
    check::<16>(Kind::K256, (&key, &nonce), (&ad, &plain), (sealed, tag));
    let tag = "b7d28d0c3c0ebd409fd22b44160503073a547412da0854bfb9723020dab8da1a";
    check::<32>(Kind::K256, (&key, &nonce), (&ad, &plain), (sealed, tag));

    let (ad, plain) = (bytes("0102030401020304"), bytes("04050607").repeat(30));
    for (kind, len, sealed, tag, long_tag) in [
        (
            Kind::X2128,
            16,
            "5795544301997f93621b278809d6331b",
            "1aebc200804f405cab637f2adebb6d77",
            "c471876f9b4978c44f2ae1ce770cdb11a094ee3feca64e7afcd48bfe52c60eca",
        ),
        (
            Kind::X4128,
            16,
            "e836118562f4479c9d35c17356a83311",
            "0e56ab94e2e85db80f9d54010caabfb4",
            "69abf0f64a137dd6e122478d777e98bc422823006cf57f5ee822dd78397230b2",
        ),
        (
            Kind::X2256,
            32,
            "72120c2ea8236180d67859001f472907",
            "635d391828520bf1512763f0c8f5cdbd",
            "b5668d3317159e9cc5d46e4803c3a76ad63bb42b3f47956d94f30db8cb366ad7",
        ),
        (
            Kind::X4256,
            32,
            "bfc2085b7e8017da99b0b6d646ae4d01",
            "b63b611b13975e2f3dc3cb6c2397bfcd",
            "7847eace74409ee56c8f4cf63a9c2841ce7c8bd567d7c0ca514c879a190b978c",
        ),
    ] {
        let key: Vec<u8> = (0..len).collect();
        let nonce: Vec<u8> = (16..16 + len).collect();
        check::<16>(kind, (&key, &nonce), (&ad, &plain), (sealed, tag));
        check::<32>(kind, (&key, &nonce), (&ad, &plain), (sealed, long_tag));
    }
}

/// The GCM specification, test case 16 for keys of 256 bits, and test case 4 for keys of 128 bits.
#[test]
fn aes_gcm() {
    let key = bytes("feffe9928665731c6d6a8f9467308308").repeat(2);
    let nonce = bytes("cafebabefacedbaddecaf888");
    let ad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let plain = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e24\
         49a6b525b16aedf5aa0de657ba637b39",
    );
    let sealed = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7\
                  b08b1056828838c5f61e6393ba7a0abcc9f662";
    let tag = "76fc6ece0f4e1768cddf8853bb2d551b";
    check::<16>(Kind::Gcm256, (&key, &nonce), (&ad, &plain), (sealed, tag));
    let sealed = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d\
                  8f6a5aac84aa051ba30b396a0aac973d58e091";
    let tag = "5bc94fbc3221a5db94fae95ae7121a47";
    check::<16>(Kind::Gcm128, (&key[..16], &nonce), (&ad, &plain), (sealed, tag));
}

/// RFC 6070 (SHA-1, the first 25 bytes), RFC 7914 section 11 (SHA-256); SHA-512 and the tags by
/// Python's `hashlib` and `hmac`.
#[test]
fn pbkdf2_and_hmac() {
    let (long, salt) = (b"passwordPASSWORDpassword", b"saltSALTsaltSALTsaltSALTsaltSALTsalt");
    let made = Hash::Sha1.pbkdf2(long, salt, 4096);
    let expected = "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038";
    assert_eq!(made.bytes()[..25], bytes(expected));
    for (secret, salt, rounds, expected) in [
        ("passwd", "salt", 1, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"),
        (
            "Password",
            "NaCl",
            80_000,
            "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56",
        ),
    ] {
        let made = Hash::Sha256.pbkdf2(secret.as_bytes(), salt.as_bytes(), rounds);
        assert_eq!(made.bytes().to_vec(), bytes(expected));
    }
    let made = Hash::Sha512.pbkdf2(b"password", b"salt", 4096);
    let expected = "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5";
    assert_eq!(made.bytes().to_vec(), bytes(expected));

    let by = Key::new([0xaa; 32]);
    let parts: [&[u8]; 2] = [b"Test Using Larger Than ", b"Block-Size Key"];
    for (hash, expected) in [
        (Hash::Sha1, "8b96c9c42e780b56be018480fee2a1ba394c00d8"),
        (Hash::Sha256, "ff9ab93fd5e8dc692f64ddfb4afa1c8d45c8389d78b5d74a1721f20b54230770"),
        (
            Hash::Sha512,
            "11f63f44db6177f69572818f20cc895cc16f22a551a1cd85f7b74051154def1a397a65fd849608d43f2a\
             a37299d15c823c04af5551b3325afebd4e9b90a37e21",
        ),
    ] {
        assert_eq!(hash.mac(&by, parts), bytes(expected), "{hash:?}");
    }
}

/// NIST SP 800-38A, F.2.5 and F.2.6.
#[test]
fn aes_256_cbc() {
    let by = key("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    let iv = std::array::from_fn(|at| at as u8);
    let plain = bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc119\
         1a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let mut content = plain.clone();
    cbc_encrypt(&by, &iv, &mut content);
    let sealed = "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d39f23369a9d9bacfa53\
                  0e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b";
    assert_eq!(content, bytes(sealed));
    cbc_decrypt(&by, &iv, &mut content);
    assert_eq!(content, plain);
}

/// RFC 8439, sections 2.4.2 and 2.5.2.
#[test]
fn chacha20_and_poly1305() {
    use ::chacha20::cipher::StreamCipher;
    let mut content =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip \
                        for the future, sunscreen would be it."
            .to_vec();
    let by = std::array::from_fn(|at| at as u8);
    let nonce = array(&bytes("000000000000004a00000000"), 0);
    chacha::stream(&by, &nonce, 1).apply_keystream(&mut content);
    let sealed = "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f5\
                  93dabcd62b3571639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc\
                  514d16ccf806818ce91ab77937365af90bbf74a35be6b40b8eedf2785e42874d";
    assert_eq!(content, bytes(sealed));
    let by = array(&bytes("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b"), 0);
    let tag = chacha::tag(&by, b"Cryptographic Forum Research Group");
    assert_eq!(tag.to_vec(), bytes("a8061dc1305136c6c22b8baf0c0127a9"));
}

/// Argon2id as SQLite3 Multiple Ciphers' AEGIS uses it, by Python's `cryptography`.
#[test]
fn argon2id_without_associated_data() {
    let (mut made, salt) = ([0; 32], std::array::from_fn(|at| at as u8));
    let secret = Secret::new(b"swordfish");
    argon2id(&secret, &salt, (19 << 10, 2, 1), &mut made).expect("there is memory");
    let expected = "4e596953d12d1da26f900509cee05aeba3bafc6c8e17158328e04cb705b90de6";
    assert_eq!(made.to_vec(), bytes(expected));
}
