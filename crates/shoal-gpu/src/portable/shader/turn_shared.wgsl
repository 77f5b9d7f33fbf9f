// Turns b, c and d of four neighbouring threads by one, two and three times `by`, through the
// workgroup's memory: diagonals become columns and, with `by` 3, columns diagonals.
fn turned(x: Four, thread: u32, by: u32) -> Four {
    let four = thread & ~3u;
    workgroupBarrier();
    exchange[thread] = x.b;
    exchange[32u + thread] = x.c;
    exchange[64u + thread] = x.d;
    workgroupBarrier();
    return Four(
        x.a,
        exchange[four | ((thread + by) & 3u)],
        exchange[32u + (four | ((thread + 2u) & 3u))],
        exchange[64u + (four | ((thread + 3u * by) & 3u))],
    );
}
