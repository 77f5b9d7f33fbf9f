//! Argon2 (RFC 9106): d, i and id, versions 0x10 and 0x13
