//! The cost of making a key of a passphrase: Argon2id's, with bounds.

use std::time::Instant;

use shoal_argon::{Argon2, Inputs, Params, Variant, Version};

use crate::VaultError;
use crate::secret::{Key, Secret};

/// Argon2id's costs, within bounds that are checked before any memory is asked for: a file's are
/// as hostile as the rest of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// Least memory, and least memory times passes, in KiB: the cheapest row of OWASP's table.
const MEMORY_MIN_KIB: u32 = 7 << 10;
const WORK_MIN_KIB: u64 = 35 << 10;
/// Most passes and lanes.
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 64;
/// Most memory [`Cost::taking`] chooses, in KiB (1 GiB).
const MEMORY_TUNED_MAX_KIB: u32 = 1 << 20;

impl Default for Cost {
    /// RFC 9106's second choice: 64 MiB, 3 passes, 4 lanes.
    fn default() -> Cost {
        Cost { memory_kib: 64 << 10, passes: 3, lanes: 4 }
    }
}

impl Cost {
    /// Most memory, in KiB: 4 GiB.
    pub(crate) const MEMORY_MAX_KIB: u32 = 4 << 20;

    /// These costs.
    ///
    /// # Errors
    /// [`VaultError::Cost`] outside the bounds.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Cost, VaultError> {
        let work = u64::from(memory_kib) * u64::from(passes);
        let why = if !(MEMORY_MIN_KIB..=Cost::MEMORY_MAX_KIB).contains(&memory_kib) {
            "memory is from 7 MiB to 4 GiB"
        } else if !(1..=PASSES_MAX).contains(&passes) {
            "there are 1 to 64 passes"
        } else if !(1..=LANES_MAX).contains(&lanes) {
            "there are 1 to 64 lanes"
        } else if work < WORK_MIN_KIB {
            "memory times passes is 35 MiB at least"
        } else {
            return Ok(Cost { memory_kib, passes, lanes });
        };
        Err(VaultError::Cost { why })
    }

    /// The least costs allowed: for tests, and for keys that are random anyway.
    pub fn least() -> Cost {
        Cost { memory_kib: MEMORY_MIN_KIB, passes: 5, lanes: 1 }
    }

    /// Costs that take about so many seconds on this machine: more memory first, up to 1 GiB, and
    /// then more passes. Never less than the default.
    ///
    /// # Errors
    /// [`VaultError::Kdf`] without the memory.
    pub fn taking(seconds: f64) -> Result<Cost, VaultError> {
        let cost = Cost::default();
        let start = Instant::now();
        cost.key(&Secret::new(b"a second try"), &[0; 16], b"")?;
        let factor = (seconds / start.elapsed().as_secs_f64()).max(1.0);
        let memory_kib = f64::from(cost.memory_kib) * factor;
        let most = f64::from(MEMORY_TUNED_MAX_KIB);
        let passes = f64::from(cost.passes) * (memory_kib / most).max(1.0);
        // Both are within the bounds of u32 by the lines above.
        Cost::new(
            (memory_kib.min(most) as u32).next_multiple_of(1 << 10).min(MEMORY_TUNED_MAX_KIB),
            (passes.min(f64::from(PASSES_MAX))) as u32,
            cost.lanes,
        )
    }

    /// KiB of memory.
    pub fn memory_kib(&self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory.
    pub fn passes(&self) -> u32 {
        self.passes
    }

    /// Degree of parallelism.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The key of a secret. The memory is wiped before anybody else has it.
    pub(crate) fn key(
        &self,
        secret: &Secret,
        salt: &[u8; 16],
        bound_to: &[u8],
    ) -> Result<Key, VaultError> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes)
            .map_err(|error| VaultError::Kdf { why: error.to_string() })?;
        let inputs = Inputs {
            password: secret.bytes(),
            salt,
            associated_data: bound_to,
            ..Inputs::default()
        };
        let mut failed = Ok(());
        let key = Key::filled(|key| {
            failed = Argon2::new(Variant::Id, Version::V0x13, params).hash(&inputs, key);
        });
        failed.map_err(|error| VaultError::Kdf { why: error.to_string() })?;
        Ok(key)
    }
}
