//! The system's zone (`localtime_r`).

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Seconds by which local time is ahead of UTC at `unix_s`, in seconds since 1970-01-01 UTC; `None`
/// where the system cannot say.
pub(crate) fn local_offset_s(unix_s: i64) -> Option<i64> {
    let time = libc::time_t::try_from(unix_s).ok()?;
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are to variables of this function, readable and writable by the system.
    // `localtime_r` reads the environment, which nobody changes: `std::env::set_var` is unsafe for
    // this very reason.
    let done = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    if done.is_null() {
        return None;
    }
    // SAFETY: a non-null result means `localtime_r` has written `local`.
    let local = unsafe { local.assume_init() };
    // `tm_gmtoff` has 32 bits on some systems.
    #[allow(clippy::useless_conversion)]
    Some(local.tm_gmtoff.into())
}
