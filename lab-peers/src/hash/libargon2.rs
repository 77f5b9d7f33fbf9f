//! libargon2, the C library: its reference source as distributions ship, or, with the feature
//! `libargon2-native`, its optimised source built for this very processor.

use std::ffi::c_int;

use argon2_sys::{ARGON2_OK, Argon2_Context, argon2id_ctx};
use shoal_lab::engine::hash::Costs;
use shoal_lab::engine::{About, HashEngine, Miss};
use shoal_lab::memory::HugePages;

pub(crate) struct LibArgon2;

thread_local! {
    /// The memory lent to the hash under way on this thread. The library's callbacks hand out all
    /// of the memory at once: a hash allocates once.
    static LENT: std::cell::Cell<(*mut u8, usize)> =
        const { std::cell::Cell::new((std::ptr::null_mut(), 0)) };
}

unsafe extern "C" {
    /// 1, the default, makes the library wipe its memory after a hash; 0 skips the wiping.
    static mut FLAG_clear_internal_memory: c_int;
}

unsafe extern "C" fn lend(memory: *mut *mut u8, bytes: usize) -> c_int {
    let (start, room) = LENT.get();
    if start.is_null() || bytes > room {
        return -1;
    }
    // SAFETY: the library passes the address of its own pointer.
    unsafe { *memory = start };
    0
}

unsafe extern "C" fn take_back(_memory: *mut u8, _bytes: usize) {}

/// Runs the hash; with `arena`, in its memory and without wiping.
fn run(
    costs: Costs,
    arena: Option<&mut HugePages>,
    password: &[u8],
    salt: &[u8],
    tag: &mut [u8; 32],
) -> Result<(), Miss> {
    let (mut password, mut salt) = (password.to_vec(), salt.to_vec());
    let lent = arena.is_some();
    if let Some(arena) = arena {
        let memory = arena.bytes();
        LENT.set((memory.as_mut_ptr(), memory.len()));
    }
    let mut context = Argon2_Context {
        out: tag.as_mut_ptr(),
        outlen: 32,
        pwd: password.as_mut_ptr(),
        pwdlen: u32::try_from(password.len()).map_err(Miss::failed)?,
        salt: salt.as_mut_ptr(),
        saltlen: u32::try_from(salt.len()).map_err(Miss::failed)?,
        secret: std::ptr::null_mut(),
        secretlen: 0,
        ad: std::ptr::null_mut(),
        adlen: 0,
        t_cost: costs.passes,
        m_cost: costs.memory_kib,
        lanes: costs.lanes,
        threads: costs.lanes,
        version: 0x13,
        allocate_cbk: lent.then_some(lend as _),
        free_cbk: lent.then_some(take_back as _),
        flags: 0,
    };
    // SAFETY: every pointer lives until the call returns, with the length beside the pointer; the
    // lent memory is borrowed by this thread for as long. A process runs one row, so the flag is
    // set to the same value by all its threads.
    let code = unsafe {
        FLAG_clear_internal_memory = c_int::from(!lent);
        argon2id_ctx(&raw mut context)
    };
    LENT.set((std::ptr::null_mut(), 0));
    if code == ARGON2_OK { Ok(()) } else { Err(Miss::Failed(format!("error {code}"))) }
}

impl HashEngine for LibArgon2 {
    type Arena = HugePages;

    fn about(&self) -> About {
        let (name, note) = if cfg!(feature = "libargon2-native") {
            ("libargon2", "the C library's optimised source, for this processor; lanes on threads")
        } else {
            (
                "libargon2",
                "the C library's reference source, as distributions ship it; lanes on \
                           threads; wipes its memory when it is not kept",
            )
        };
        About::peer(name, "20190702", note).c_heap()
    }

    fn arena(&self, costs: Costs) -> Result<HugePages, Miss> {
        HugePages::new(usize::try_from(costs.memory_kib).map_err(Miss::failed)? * 1024)
    }

    fn hash_in(
        &self,
        arena: &mut HugePages,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        run(costs, Some(arena), password, salt, tag)
    }

    fn hash(
        &self,
        costs: Costs,
        password: &[u8],
        salt: &[u8],
        tag: &mut [u8; 32],
    ) -> Result<(), Miss> {
        run(costs, None, password, salt, tag)
    }
}
