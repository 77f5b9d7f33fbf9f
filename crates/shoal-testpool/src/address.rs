//! Addresses: Base58 of a view key and a spend key, with or without a checksum.

use std::fmt;

use sha3::{Digest, Sha3_256};

/// The chain of an address, told by its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The main chain.
    Main,
    /// The chain to try things on.
    Test,
}

impl Network {
    fn id(self) -> &'static [u8] {
        match self {
            Self::Main => b"blocknet_mainnet",
            Self::Test => b"blocknet_testnet",
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// A character not of Base58.
    NotBase58,
    /// Neither two keys nor two keys and a checksum.
    Length {
        /// Bytes of the decoded text.
        bytes: usize,
    },
    /// The checksum belongs to other keys, or to another network.
    Checksum,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBase58 => f.write_str("invalid base58 address"),
            Self::Length { bytes } => write!(f, "invalid address length: {bytes}"),
            Self::Checksum => f.write_str("invalid address checksum"),
        }
    }
}

impl std::error::Error for AddressError {}

/// Checks an address as the pool does. One without a checksum belongs to every network.
///
/// # Errors
/// [`AddressError`], whose words a pool puts behind `invalid address: `.
pub fn check(address: &str, network: Network) -> Result<(), AddressError> {
    let bytes = bs58::decode(address).into_vec().map_err(|_| AddressError::NotBase58)?;
    match bytes.len() {
        KEYS_BYTES => Ok(()),
        ADDRESS_BYTES => {
            let (keys, sum) = bytes.split_at(KEYS_BYTES);
            if sum == checksum(keys, network) { Ok(()) } else { Err(AddressError::Checksum) }
        }
        bytes => Err(AddressError::Length { bytes }),
    }
}

/// An address made from `seed`: it passes the check and belongs to nobody.
pub fn sample(seed: u64, network: Network) -> String {
    let mut bytes: Vec<u8> = (0..2u8)
        .flat_map(|half| {
            let digest = Sha3_256::new().chain_update(seed.to_le_bytes()).chain_update([half]);
            digest.finalize().to_vec()
        })
        .collect();
    bytes.extend(checksum(&bytes, network));
    bs58::encode(bytes).into_string()
}

fn checksum(keys: &[u8], network: Network) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha3_256::new()
        .chain_update(b"blocknet_stealth_address_checksum")
        .chain_update(network.id())
        .chain_update(keys)
        .finalize();
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&digest[..CHECKSUM_BYTES]);
    sum
}

const KEYS_BYTES: usize = 64;
const CHECKSUM_BYTES: usize = 4;
const ADDRESS_BYTES: usize = KEYS_BYTES + CHECKSUM_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_pass_on_their_network_alone() {
        for seed in 0..4 {
            let address = sample(seed, Network::Main);
            assert!(address.len() <= 128, "{address}");
            assert_eq!(check(&address, Network::Main), Ok(()));
            assert_eq!(check(&address, Network::Test), Err(AddressError::Checksum));
        }
        assert_ne!(sample(1, Network::Main), sample(2, Network::Main));
    }

    #[test]
    fn two_bare_keys_are_an_address() {
        let address = bs58::encode([0x11; 64]).into_string();
        assert_eq!(check(&address, Network::Main), Ok(()));
        assert_eq!(check(&address, Network::Test), Ok(()));
    }

    #[test]
    fn refusals_say_why() {
        let mut address = sample(0, Network::Main);
        assert_eq!(check("0OIl", Network::Main), Err(AddressError::NotBase58));
        assert_eq!(check("", Network::Main), Err(AddressError::Length { bytes: 0 }));
        let last = if address.ends_with('2') { '3' } else { '2' };
        address.pop();
        address.push(last);
        assert_eq!(check(&address, Network::Main), Err(AddressError::Checksum));
        assert_eq!(AddressError::Length { bytes: 3 }.to_string(), "invalid address length: 3");
    }
}
