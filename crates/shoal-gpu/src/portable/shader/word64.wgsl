// A word of 64 bits by the device's own integers.
alias Word = u64;

fn low(x: Word) -> u32 {
    return u32(x & 0xfffffffflu);
}

fn high(x: Word) -> u32 {
    return u32(x >> 32u);
}

fn word(low: u32, high: u32) -> Word {
    return (u64(high) << 32u) | u64(low);
}

fn add(a: Word, b: Word) -> Word {
    return a + b;
}

// a + b + 2 * low(a) * low(b), the multiplying addition of RFC 9106 section 3.6.
fn add_product(a: Word, b: Word) -> Word {
    return a + b + 2lu * (a & 0xfffffffflu) * (b & 0xfffffffflu);
}

fn rotate_32(x: Word) -> Word {
    return (x >> 32u) | (x << 32u);
}

fn rotate_24(x: Word) -> Word {
    return (x >> 24u) | (x << 40u);
}

fn rotate_16(x: Word) -> Word {
    return (x >> 16u) | (x << 48u);
}

fn rotate_63(x: Word) -> Word {
    return (x >> 63u) | (x << 1u);
}

fn high_product(a: u32, b: u32) -> u32 {
    return high(u64(a) * u64(b));
}
