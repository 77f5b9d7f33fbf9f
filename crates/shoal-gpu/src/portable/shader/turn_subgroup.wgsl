// Turns b, c and d of four neighbouring threads by one, two and three times `by`, by shuffles of
// a subgroup: diagonals become columns and, with `by` 3, columns diagonals.
fn from_thread(x: Word, lane: u32) -> Word {
    return word(subgroupShuffle(low(x), lane), subgroupShuffle(high(x), lane));
}

fn turned(x: Four, thread: u32, by: u32) -> Four {
    // Subgroups are whole fours of neighbouring threads: checked when the device is opened.
    let four = thread & (SUBGROUP - 1u) & ~3u;
    return Four(
        x.a,
        from_thread(x.b, four | ((thread + by) & 3u)),
        from_thread(x.c, four | ((thread + 2u) & 3u)),
        from_thread(x.d, four | ((thread + 3u * by) & 3u)),
    );
}
