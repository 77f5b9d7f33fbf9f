// G over the memory (RFC 9106 sections 3.4 to 3.6): a workgroup of 32 threads a hash. Each thread
// holds four words of the block, the a, b, c and d of one of 32 calls of G.

struct Four {
    a: Word,
    b: Word,
    c: Word,
    d: Word,
}

var<workgroup> exchange: array<Word, 128>;
var<workgroup> chosen: u32;

fn xor_four(x: Four, y: Four) -> Four {
    return Four(x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d);
}

fn round(x: Four) -> Four {
    var f = x;
    f.a = add_product(f.a, f.b);
    f.d = rotate_32(f.d ^ f.a);
    f.c = add_product(f.c, f.d);
    f.b = rotate_24(f.b ^ f.c);
    f.a = add_product(f.a, f.b);
    f.d = rotate_16(f.d ^ f.a);
    f.c = add_product(f.c, f.d);
    f.b = rotate_63(f.b ^ f.c);
    return f;
}

// Word k of the row step of a thread is word 4 k of its row, and of the column step, word k of
// its column: two neighbouring words of each row.
fn row_word(thread: u32, k: u32) -> u32 {
    return 16u * (thread >> 2u) + 4u * k + (thread & 3u);
}

fn column_word(thread: u32, k: u32) -> u32 {
    let number = 4u * k + (thread & 3u);
    return 16u * (number >> 1u) + 2u * (thread >> 2u) + (number & 1u);
}

fn to_rows(x: Four, thread: u32) -> Four {
    workgroupBarrier();
    exchange[column_word(thread, 0u)] = x.a;
    exchange[column_word(thread, 1u)] = x.b;
    exchange[column_word(thread, 2u)] = x.c;
    exchange[column_word(thread, 3u)] = x.d;
    workgroupBarrier();
    return Four(
        exchange[row_word(thread, 0u)],
        exchange[row_word(thread, 1u)],
        exchange[row_word(thread, 2u)],
        exchange[row_word(thread, 3u)],
    );
}

fn to_columns(x: Four, thread: u32) -> Four {
    workgroupBarrier();
    exchange[row_word(thread, 0u)] = x.a;
    exchange[row_word(thread, 1u)] = x.b;
    exchange[row_word(thread, 2u)] = x.c;
    exchange[row_word(thread, 3u)] = x.d;
    workgroupBarrier();
    return Four(
        exchange[column_word(thread, 0u)],
        exchange[column_word(thread, 1u)],
        exchange[column_word(thread, 2u)],
        exchange[column_word(thread, 3u)],
    );
}

fn permuted(x: Four, thread: u32) -> Four {
    var f = round(x);
    f = turned(f, thread, 1u);
    f = round(f);
    return turned(f, thread, 3u);
}

fn read_block(lane: u32, column: u32, thread: u32) -> Four {
    let place = place_of(lane, column);
    let one = pool_read(place.pool, place.quad + thread);
    let other = pool_read(place.pool, place.quad + 32u + thread);
    return Four(
        word(one.x, one.y),
        word(one.z, one.w),
        word(other.x, other.y),
        word(other.z, other.w),
    );
}

fn write_block(lane: u32, column: u32, thread: u32, f: Four) {
    let place = place_of(lane, column);
    pool_write(
        place.pool,
        place.quad + thread,
        vec4<u32>(low(f.a), high(f.a), low(f.b), high(f.b)),
    );
    pool_write(
        place.pool,
        place.quad + 32u + thread,
        vec4<u32>(low(f.c), high(f.c), low(f.d), high(f.d)),
    );
}

// The reference of `column` for J1, in a single lane's first pass.
fn reference_of(column: u32, j1: u32) -> u32 {
    let area = column - 1u;
    let x = high_product(j1, j1);
    return area - 1u - high_product(area, x);
}

@compute @workgroup_size(32)
fn fill(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let order = orders[group.x];
    let end = order.first + order.count;
    var column = max(order.first, 2u);
    var previous = read_block(order.lane, column - 1u, thread);
    // References of the first half are known: each is read a block ahead.
    var ahead: Four;
    if column < setup.dependent_from {
        ahead = read_block(order.lane, references[column], thread);
    }
    while column < end {
        var r: Four;
        if column < setup.dependent_from {
            r = xor_four(previous, ahead);
            if column + 1u < min(end, setup.dependent_from) {
                ahead = read_block(order.lane, references[column + 1u], thread);
            }
        } else {
            if thread == 0u {
                chosen = reference_of(column, low(previous.a));
            }
            r = xor_four(previous, read_block(order.lane, workgroupUniformLoad(&chosen), thread));
        }
        var z = to_rows(r, thread);
        z = permuted(z, thread);
        z = to_columns(z, thread);
        z = permuted(z, thread);
        previous = xor_four(z, r);
        write_block(order.lane, column, thread, previous);
        column++;
    }
}
