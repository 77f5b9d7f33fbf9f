// A word of 64 bits as two of 32, the low one first, for devices without wider integers.
alias Word = vec2<u32>;

fn low(x: Word) -> u32 {
    return x.x;
}

fn high(x: Word) -> u32 {
    return x.y;
}

fn word(low: u32, high: u32) -> Word {
    return vec2<u32>(low, high);
}

fn add(a: Word, b: Word) -> Word {
    let sum = a.x + b.x;
    return vec2<u32>(sum, a.y + b.y + select(0u, 1u, sum < a.x));
}

// The product of two numbers of 32 bits, by quarters of 16.
fn product(a: u32, b: u32) -> Word {
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let below = a0 * b0;
    let one = a1 * b0 + (below >> 16u);
    let other = a0 * b1 + (one & 0xffffu);
    return vec2<u32>((other << 16u) | (below & 0xffffu), a1 * b1 + (one >> 16u) + (other >> 16u));
}

// a + b + 2 * low(a) * low(b), the multiplying addition of RFC 9106 section 3.6.
fn add_product(a: Word, b: Word) -> Word {
    let p = product(a.x, b.x);
    let twice = vec2<u32>(p.x << 1u, (p.y << 1u) | (p.x >> 31u));
    return add(add(a, b), twice);
}

fn rotate_32(x: Word) -> Word {
    return x.yx;
}

fn rotate_24(x: Word) -> Word {
    return (x >> vec2<u32>(24u)) | (x.yx << vec2<u32>(8u));
}

fn rotate_16(x: Word) -> Word {
    return (x >> vec2<u32>(16u)) | (x.yx << vec2<u32>(16u));
}

fn rotate_63(x: Word) -> Word {
    return (x << vec2<u32>(1u)) | (x.yx >> vec2<u32>(31u));
}

fn high_product(a: u32, b: u32) -> u32 {
    return product(a, b).y;
}
