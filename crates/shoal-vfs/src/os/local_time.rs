//! The system's zone (`localtime_r`).

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Seconds that local time is ahead of UTC at a moment in seconds since 1970-01-01 UTC; `None` where the
/// system cannot say.
pub(crate) fn local_offset_s(unix_s: i64) -> Option<i64> {
    let time = libc::time_t::try_from(unix_s).ok()?;
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are to variables of this function that the system may read and write. It
    // looks at the environment, which nobody changes: `std::env::set_var` is unsafe for that very reason.
    let done = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    if done.is_null() {
        return None;
    }
    // SAFETY: a result that is not null says that `local` was written.
    let local = unsafe { local.assume_init() };
    // It has 32 bits on some systems.
    #[allow(clippy::useless_conversion)]
    Some(local.tm_gmtoff.into())
}
