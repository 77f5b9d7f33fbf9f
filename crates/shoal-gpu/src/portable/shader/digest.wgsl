// BLAKE2b (RFC 7693), H0 and H' (RFC 9106 sections 3.2 and 3.3): one thread a digest.

const IV = array<vec2<u32>, 8>(
    vec2<u32>(0xf3bcc908u, 0x6a09e667u),
    vec2<u32>(0x84caa73bu, 0xbb67ae85u),
    vec2<u32>(0xfe94f82bu, 0x3c6ef372u),
    vec2<u32>(0x5f1d36f1u, 0xa54ff53au),
    vec2<u32>(0xade682d1u, 0x510e527fu),
    vec2<u32>(0x2b3e6c1fu, 0x9b05688cu),
    vec2<u32>(0xfb41bd6bu, 0x1f83d9abu),
    vec2<u32>(0x137e2179u, 0x5be0cd19u),
);

// The order of message words in the ten different rounds: four bits a word.
const SIGMA = array<vec2<u32>, 10>(
    vec2<u32>(0x76543210u, 0xfedcba98u),
    vec2<u32>(0x6df984aeu, 0x357b20c1u),
    vec2<u32>(0xdf250c8bu, 0x491763eau),
    vec2<u32>(0xebcd1397u, 0x8f04a562u),
    vec2<u32>(0xfa427509u, 0xd386cb1eu),
    vec2<u32>(0x38b0a6c2u, 0x91ef57d4u),
    vec2<u32>(0xa4def15cu, 0xb8293670u),
    vec2<u32>(0x931ce7bdu, 0xa2684f05u),
    vec2<u32>(0x803b9ef6u, 0x5a417d2cu),
    vec2<u32>(0x5167482au, 0x0dc3e9bfu),
);

var<private> state: array<Word, 8>;
var<private> message: array<u32, 32>;
var<private> v: array<Word, 16>;

fn message_word(round: u32, place: u32) -> Word {
    let order = SIGMA[round % 10u];
    let half = select(order.x, order.y, place > 7u);
    let index = (half >> (4u * (place & 7u))) & 15u;
    return word(message[2u * index], message[2u * index + 1u]);
}

fn mix(a: u32, b: u32, c: u32, d: u32, x: Word, y: Word) {
    v[a] = add(add(v[a], v[b]), x);
    v[d] = rotate_32(v[d] ^ v[a]);
    v[c] = add(v[c], v[d]);
    v[b] = rotate_24(v[b] ^ v[c]);
    v[a] = add(add(v[a], v[b]), y);
    v[d] = rotate_16(v[d] ^ v[a]);
    v[c] = add(v[c], v[d]);
    v[b] = rotate_63(v[b] ^ v[c]);
}

fn digest_begin(digest_bytes: u32) {
    for (var i = 0u; i < 8u; i++) {
        state[i] = word(IV[i].x, IV[i].y);
    }
    state[0] = state[0] ^ word(0x01010000u | digest_bytes, 0u);
}

// Takes the 128 bytes of `message`; `bytes` counts all bytes taken so far.
fn digest_block(bytes: u32, is_last: bool) {
    for (var i = 0u; i < 8u; i++) {
        v[i] = state[i];
        v[i + 8u] = word(IV[i].x, IV[i].y);
    }
    v[12] = v[12] ^ word(bytes, 0u);
    if is_last {
        v[14] = v[14] ^ word(0xffffffffu, 0xffffffffu);
    }
    for (var round = 0u; round < 12u; round++) {
        mix(0u, 4u, 8u, 12u, message_word(round, 0u), message_word(round, 1u));
        mix(1u, 5u, 9u, 13u, message_word(round, 2u), message_word(round, 3u));
        mix(2u, 6u, 10u, 14u, message_word(round, 4u), message_word(round, 5u));
        mix(3u, 7u, 11u, 15u, message_word(round, 6u), message_word(round, 7u));
        mix(0u, 5u, 10u, 15u, message_word(round, 8u), message_word(round, 9u));
        mix(1u, 6u, 11u, 12u, message_word(round, 10u), message_word(round, 11u));
        mix(2u, 7u, 8u, 13u, message_word(round, 12u), message_word(round, 13u));
        mix(3u, 4u, 9u, 14u, message_word(round, 14u), message_word(round, 15u));
    }
    for (var i = 0u; i < 8u; i++) {
        state[i] = state[i] ^ v[i] ^ v[i + 8u];
    }
}

fn clear_message() {
    for (var i = 0u; i < 32u; i++) {
        message[i] = 0u;
    }
}

// H0 of a nonce, into `state`.
fn prehash(nonce_low: u32, nonce_high: u32) {
    digest_begin(64u);
    let bytes = setup.request_bytes;
    var taken = 0u;
    loop {
        for (var i = 0u; i < 32u; i++) {
            let index = taken / 4u + i;
            var number = 0u;
            if 4u * index < bytes {
                number = request[index];
            }
            if index == NONCE_WORD {
                number = nonce_low;
            }
            if index == NONCE_WORD + 1u {
                number = nonce_high;
            }
            message[i] = number;
        }
        if bytes - taken <= 128u {
            digest_block(bytes, true);
            break;
        }
        taken += 128u;
        digest_block(taken, false);
    }
}

fn put_quad(place: Place, index: u32, x: Word) {
    let at = quad_of(index);
    pool_write_half(place.pool, place.quad + at.x, at.y, vec2<u32>(low(x), high(x)));
}

fn take_word(place: Place, index: u32) -> vec2<u32> {
    let at = quad_of(index);
    let quad = pool_read(place.pool, place.quad + at.x);
    return select(quad.xy, quad.zw, at.y == 1u);
}

// The first two blocks of every hash beginning in this launch, a thread each.
@compute @workgroup_size(32)
fn begin(@builtin(global_invocation_id) id: vec3<u32>) {
    let number = id.x >> 1u;
    let column = id.x & 1u;
    if number >= setup.orders {
        return;
    }
    let order = orders[number];
    if order.first != 0u {
        return;
    }
    prehash(order.nonce_low, order.nonce_high);
    clear_message();
    message[0] = 1024u;
    for (var i = 0u; i < 8u; i++) {
        message[2u * i + 1u] = low(state[i]);
        message[2u * i + 2u] = high(state[i]);
    }
    message[17] = column;
    digest_begin(64u);
    digest_block(76u, true);
    let place = place_of(order.lane, column);
    var index = 0u;
    loop {
        for (var i = 0u; i < 4u; i++) {
            put_quad(place, index + i, state[i]);
        }
        index += 4u;
        if index == 124u {
            break;
        }
        clear_message();
        for (var i = 0u; i < 8u; i++) {
            message[2u * i] = low(state[i]);
            message[2u * i + 1u] = high(state[i]);
        }
        digest_begin(64u);
        digest_block(64u, true);
    }
    // The last digest gives both halves.
    for (var i = 0u; i < 4u; i++) {
        put_quad(place, 124u + i, state[4u + i]);
    }
}

fn reversed(x: u32) -> u32 {
    let pairs = ((x & 0x00ff00ffu) << 8u) | ((x >> 8u) & 0x00ff00ffu);
    return (pairs << 16u) | (pairs >> 16u);
}

// The tag of every hash ending in this launch, compared with the target.
@compute @workgroup_size(32)
fn finish(@builtin(global_invocation_id) id: vec3<u32>) {
    let number = id.x;
    if number >= setup.orders {
        return;
    }
    let order = orders[number];
    if order.first + order.count != setup.blocks {
        return;
    }
    let place = place_of(order.lane, setup.blocks - 1u);
    digest_begin(32u);
    // The length of the tag, then 256 numbers of the block: each message holds 31 or 32 of them.
    for (var part = 0u; part < 9u; part++) {
        clear_message();
        for (var i = 0u; i < 32u; i++) {
            let at = 32u * part + i;
            if at == 0u {
                message[i] = 32u;
            } else if at <= 256u {
                let pair = take_word(place, (at - 1u) >> 1u);
                message[i] = select(pair.x, pair.y, ((at - 1u) & 1u) == 1u);
            }
        }
        digest_block(min(128u * (part + 1u), 1028u), part == 8u);
    }
    var tag: array<u32, 8>;
    for (var i = 0u; i < 4u; i++) {
        tag[2u * i] = low(state[i]);
        tag[2u * i + 1u] = high(state[i]);
    }
    var is_solution = 1u;
    for (var i = 0u; i < 8u; i++) {
        let number = reversed(tag[i]);
        let bound = select(setup.target_high[i & 3u], setup.target_low[i & 3u], i > 3u);
        if number < bound {
            break;
        }
        if number > bound {
            is_solution = 0u;
            break;
        }
    }
    results[number].is_solution = is_solution;
    results[number].tag = tag;
}
