//! A codec for tests: pages are xored with a pad of their number and a nonce, and tagged.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use shoal_store::{Fault, PageCodec, Pgno, Refused};

/// Bytes of the codec at each page's end: a nonce of 8, a tag of 8, and unused ones.
pub const RESERVED: u8 = 64;

/// Hides every byte of a page but the shape of page 1.
#[derive(Debug)]
pub struct Pad {
    pub key: u64,
}

/// The codec of all stores of a test run, where `SHOAL_TEST_CODEC` is set in the environment.
pub fn wanted() -> Option<Arc<dyn PageCodec>> {
    std::env::var_os("SHOAL_TEST_CODEC").map(|_| Arc::new(Pad { key: 7 }) as _)
}

fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Pad {
    fn xor(&self, pgno: Pgno, nonce: u64, content: &mut [u8]) {
        let mut state = self.key ^ (u64::from(pgno.get()) << 32) ^ nonce;
        for (number, eight) in content.chunks_mut(8).enumerate() {
            let pad = mix(&mut state).to_be_bytes();
            if number != 2 || pgno != Pgno::FIRST {
                eight.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
            }
        }
    }

    fn tag(&self, pgno: Pgno, nonce: u64, content: &[u8]) -> u64 {
        let mut state = self.key ^ u64::from(pgno.get()) ^ nonce.rotate_left(17);
        for eight in content.chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            state ^= u64::from_be_bytes(word);
            mix(&mut state);
        }
        mix(&mut state)
    }
}

impl PageCodec for Pad {
    fn reserved(&self) -> u8 {
        RESERVED
    }

    fn encode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        let end = page.len() - usize::from(RESERVED);
        let (content, own) = page.split_at_mut(end);
        // A generation: one more than that of the page's previous form.
        let nonce = u64::from_be_bytes(*own.first_chunk().unwrap()).wrapping_add(1);
        self.xor(pgno, nonce, content);
        own[..8].copy_from_slice(&nonce.to_be_bytes());
        own[8..16].copy_from_slice(&self.tag(pgno, nonce, content).to_be_bytes());
        Ok(())
    }

    fn decode(&self, pgno: Pgno, page: &mut [u8]) -> Result<(), Refused> {
        let end = page.len() - usize::from(RESERVED);
        let (content, own) = page.split_at_mut(end);
        let nonce = u64::from_be_bytes(*own.first_chunk().unwrap());
        let tag = u64::from_be_bytes(*own[8..].first_chunk().unwrap());
        if tag != self.tag(pgno, nonce, content) {
            return Err(Refused::new(Fault::Damaged, "has another tag than its content"));
        }
        self.xor(pgno, nonce, content);
        Ok(())
    }

    fn for_temporary(&self) -> Arc<dyn PageCodec> {
        Arc::new(Pad { key: !self.key })
    }
}

/// A plain database, stored page by page by `codec`. Its pages reserve enough.
pub fn stored(codec: &dyn PageCodec, plain: &[u8]) -> Vec<u8> {
    each_page(plain, |pgno, page| codec.encode(pgno, page).unwrap())
}

/// The plain form of a stored database.
pub fn plain(codec: &dyn PageCodec, stored: &[u8]) -> Vec<u8> {
    each_page(stored, |pgno, page| codec.decode(pgno, page).unwrap())
}

fn each_page(bytes: &[u8], work: impl Fn(Pgno, &mut [u8])) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 512 {
        let size = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65536,
            size => usize::from(size),
        };
        for (number, page) in (1..).zip(bytes.chunks_exact_mut(size)) {
            work(Pgno::new(number).unwrap(), page);
        }
    }
    bytes
}
