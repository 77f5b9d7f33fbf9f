//! Rows on Argon2id: fixed numbers of hashes, tags compared.

use std::sync::Arc;

use super::{Bench, Context, Family, Row, Sampler, sampler};
use crate::answer::{Answer, Digest};
use crate::engine::hash::{Costs, TryNonces};
use crate::engine::{HashEngine, Miss};
use crate::watch::Watch;

/// Every hash row.
pub(crate) fn rows<E: HashEngine>() -> Bench<E> {
    let mut bench = Bench::new();
    for shape in SHAPES {
        for thread_count in [1, 2] {
            for kept in [true, false] {
                add(&mut bench, shape, thread_count, kept);
            }
        }
    }
    add_batch(&mut bench);
    for thread_count in [1, 2] {
        add_nonces(&mut bench, thread_count);
    }
    #[cfg(any(feature = "gpu", feature = "cuda"))]
    for shape in DEVICE_SHAPES {
        add_device(&mut bench, shape);
    }
    bench
}

/// Rows of whole devices, by the memory of a hash; `hashes` are all of a sample.
#[cfg(any(feature = "gpu", feature = "cuda"))]
const DEVICE_SHAPES: [Shape; 3] = {
    const fn costs(memory_mib: u32) -> Costs {
        Costs { memory_kib: memory_mib * 1024, passes: 1, lanes: 1 }
    }
    [
        Shape { name: "2GiB", costs: costs(2048), hashes: 64 },
        Shape { name: "64MiB", costs: costs(64), hashes: 2048 },
        Shape { name: "1MiB", costs: costs(1), hashes: 65536 },
    ]
};

/// A whole device, or all cores: from the common start to the last one's end.
#[cfg(any(feature = "gpu", feature = "cuda"))]
fn add_device<E: HashEngine>(bench: &mut Bench<E>, shape: Shape) {
    let Shape { name, costs, hashes } = shape;
    let others = if costs.memory_kib >= LARGE_KIB {
        "; the seed's CUDA programs are said to do 8.9 to 11.2 a second on an RTX 5090, about 1.2 on \
         an RTX 3080"
    } else {
        ""
    };
    let text = format!(
        "{hashes} nonces on a whole graphics processor, or on all of the processor's cores, m = {} \
         KiB, t = 1, p = 1, one hash at a time on each core and as many as fit on a device; every \
         tag comes back{others}",
        costs.memory_kib
    );
    let row = Row::new(Family::Argon, &format!("gpu/{name}"), "hash", &text).taking_turns();
    bench.add(row, move |engine, cx| {
        one_at_a_time(&**engine)?;
        let costs = picked(costs, cx);
        let nonces = engine.device_nonces(costs)?;
        in_nonces(nonces, costs, cx.pick(hashes, 64))
    });
}

/// Costs with their name and how many hashes one thread computes in a sample.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    costs: Costs,
    hashes: usize,
}

const SHAPES: [Shape; 4] = [
    Shape {
        name: "2GiB_t1_p1",
        costs: Costs { memory_kib: 2 * 1024 * 1024, passes: 1, lanes: 1 },
        hashes: 1,
    },
    Shape {
        name: "256MiB_t1_p1",
        costs: Costs { memory_kib: 256 * 1024, passes: 1, lanes: 1 },
        hashes: 4,
    },
    Shape {
        name: "64MiB_t3_p4",
        costs: Costs { memory_kib: 64 * 1024, passes: 3, lanes: 4 },
        hashes: 4,
    },
    Shape {
        name: "19MiB_t2_p1",
        costs: Costs { memory_kib: 19 * 1024, passes: 2, lanes: 1 },
        hashes: 16,
    },
];

/// From this much memory on, contenders do not fit beside each other.
const LARGE_KIB: u32 = 1024 * 1024;

/// A quick run hashes in this much memory.
const QUICK_KIB: u32 = 256;

fn add<E: HashEngine>(bench: &mut Bench<E>, shape: Shape, thread_count: usize, kept: bool) {
    let memory = if kept { "kept" } else { "cold" };
    let text = format!(
        "{} hashes on each of {thread_count} thread{}, m = {} KiB, t = {}, p = {}; {}",
        shape.hashes,
        if thread_count == 1 { "" } else { "s" },
        shape.costs.memory_kib,
        shape.costs.passes,
        shape.costs.lanes,
        if kept {
            "memory kept from hash to hash, faulted in before, not wiped"
        } else {
            "memory found and given back by every hash: page faults are part of it, and wiping \
             where the engine wipes"
        },
    );
    let name = format!("{}/{memory}/{thread_count}", shape.name);
    let mut row = Row::new(Family::Argon, &name, "hash", &text);
    if shape.costs.memory_kib >= LARGE_KIB {
        row = row.taking_turns();
    }
    bench.add(row, move |engine, cx| {
        one_at_a_time(&**engine)?;
        let costs = picked(shape.costs, cx);
        let hashes = cx.pick(shape.hashes, 1);
        if kept {
            in_arenas(engine, costs, hashes, thread_count)
        } else {
            cold(engine, costs, hashes, thread_count)
        }
    });
}

/// The row of a miner: many hashes on one thread, as many side by side as the contender does.
fn add_batch<E: HashEngine>(bench: &mut Bench<E>) {
    let costs = SHAPES[0].costs;
    let text = format!(
        "{BATCH} hashes on one thread, as many side by side as the contender's name says, m = {} \
         KiB, t = 1, p = 1; memory kept from hash to hash, faulted in before, not wiped",
        costs.memory_kib
    );
    let row = Row::new(Family::Argon, "2GiB_t1_p1/batch/1", "hash", &text).taking_turns();
    bench.add(row, move |engine, cx| {
        let costs = picked(costs, cx);
        in_arenas(engine, costs, BATCH, 1)
    });
}

/// The cost of a miner's engine beside bare loops of the same hashes.
fn add_nonces<E: HashEngine>(bench: &mut Bench<E>, thread_count: usize) {
    let costs = SHAPES[0].costs;
    let text = format!(
        "{NONCES} nonces for each of {thread_count} thread{}, m = {} KiB, t = 1, p = 1, one hash at \
         a time on each: in bare loops, or dealt by the miner's engine to workers that stay; from \
         the common start to the last one's end",
        if thread_count == 1 { "" } else { "s" },
        costs.memory_kib
    );
    let name = format!("2GiB_t1_p1/nonces/{thread_count}");
    let row = Row::new(Family::Argon, &name, "hash", &text).taking_turns();
    bench.add(row, move |engine, cx| {
        one_at_a_time(&**engine)?;
        let costs = picked(costs, cx);
        refuse_swapping(costs, thread_count)?;
        let nonces = engine.nonces(costs, thread_count)?;
        in_nonces(nonces, costs, NONCES * thread_count)
    });
}

/// Refuses contenders of hashes side by side.
fn one_at_a_time<E: HashEngine>(engine: &E) -> Result<(), Miss> {
    if engine.side_by_side() > 1 {
        return Err(Miss::NotRun("one hash at a time is another contender's".into()));
    }
    Ok(())
}

/// Tries `hashes` nonces a sample.
fn in_nonces(mut nonces: Box<dyn TryNonces>, costs: Costs, hashes: usize) -> Result<Sampler, Miss> {
    sampler(move |watch| {
        let mut tags = vec![[0; 32]; hashes];
        watch.time_threads(hashes as u64, || nonces.try_nonces(HEADER, 0, &mut tags))?;
        watch.figure("blocks per hash", costs.blocks() as f64);
        if let Some(watts) = nonces.watts() {
            watch.figure("watts", watts);
        }
        Ok(Some(digest(&tags)))
    })
}

/// Nonces of a sample for each thread.
const NONCES: usize = 8;

/// As long as a real one.
const HEADER: &[u8; 92] = &[0x5a; 92];

/// Hashes of a batch: a multiple of every count of hashes side by side.
const BATCH: usize = 12;

/// The row's costs, or small ones for a quick run.
fn picked(costs: Costs, cx: &Context) -> Costs {
    match cx.pick(1, 0) {
        1 => costs,
        _ => Costs { memory_kib: QUICK_KIB, ..costs },
    }
}

/// Input of hash `number`: a nonce at the end of the password, as in a proof of work.
fn password(number: usize) -> [u8; 16] {
    let mut bytes = *b"shoal lab\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&(number as u64).to_le_bytes());
    bytes
}

const SALT: &[u8; 16] = b"sixteen byte sal";

fn in_arenas<E: HashEngine>(
    engine: &Arc<E>,
    costs: Costs,
    hashes: usize,
    thread_count: usize,
) -> Result<Sampler, Miss> {
    let engine = Arc::clone(engine);
    let side_by_side = engine.side_by_side();
    refuse_swapping(costs, thread_count * side_by_side)?;
    let mut arenas =
        (0..thread_count).map(|_| engine.arena(costs)).collect::<Result<Vec<_>, Miss>>()?;
    sampler(move |watch| {
        let hash_in = |arena: &mut E::Arena, first: usize, tags: &mut [[u8; 32]]| {
            let passwords: Vec<_> = (first..first + tags.len()).map(password).collect();
            let passwords: Vec<&[u8]> = passwords.iter().map(<[u8; 16]>::as_slice).collect();
            engine.hash_side_by_side(arena, costs, &passwords, SALT, tags)
        };
        let tags = timed(watch, &mut arenas, hashes, side_by_side, &hash_in)?;
        watch.figure("blocks per hash", costs.blocks() as f64);
        if let Some(huge_kib) = crate::environment::huge_page_kib() {
            let wanted_kib = u64::from(costs.memory_kib) * (arenas.len() * side_by_side) as u64;
            watch.figure("share in huge pages", (huge_kib as f64 / wanted_kib as f64).min(1.0));
        }
        Ok(Some(digest(&tags)))
    })
}

fn cold<E: HashEngine>(
    engine: &Arc<E>,
    costs: Costs,
    hashes: usize,
    thread_count: usize,
) -> Result<Sampler, Miss> {
    let engine = Arc::clone(engine);
    refuse_swapping(costs, thread_count)?;
    sampler(move |watch| {
        let hash = |(): &mut (), number: usize, tags: &mut [[u8; 32]]| {
            tags.iter_mut()
                .zip(number..)
                .try_for_each(|(tag, number)| engine.hash(costs, &password(number), SALT, tag))
        };
        let tags = timed(watch, &mut vec![(); thread_count], hashes, 1, &hash)?;
        watch.figure("blocks per hash", costs.blocks() as f64);
        Ok(Some(digest(&tags)))
    })
}

/// Computes `hashes` tags in each arena, `side_by_side` at a time; several arenas have a thread
/// each. Tags come back in the order of their numbers.
fn timed<A: Send>(
    watch: &mut Watch,
    arenas: &mut [A],
    hashes: usize,
    side_by_side: usize,
    hash: &(impl Fn(&mut A, usize, &mut [[u8; 32]]) -> Result<(), Miss> + Sync),
) -> Result<Vec<[u8; 32]>, Miss> {
    let run = |arena: &mut A, first: usize| {
        let mut tags = vec![[0; 32]; hashes];
        let mut number = first;
        for tags in tags.chunks_mut(side_by_side) {
            hash(arena, number, tags)?;
            number += tags.len();
        }
        Ok(tags)
    };
    let total = (hashes * arenas.len()) as u64;
    if let [arena] = arenas {
        return watch.time(total, || run(arena, 0));
    }
    watch.time_threads(total, || {
        std::thread::scope(|scope| {
            let workers: Vec<_> = arenas
                .iter_mut()
                .enumerate()
                .map(|(thread, arena)| scope.spawn(move || run(arena, thread * hashes)))
                .collect();
            let mut tags = Vec::new();
            for worker in workers {
                tags.extend(
                    worker
                        .join()
                        .unwrap_or_else(|_| Err(Miss::Failed("a thread panicked".into())))?,
                );
            }
            Ok(tags)
        })
    })
}

fn digest(tags: &[[u8; 32]]) -> Answer {
    Answer::of(tags.iter().fold(Digest::new(), |digest, tag| digest.bytes(tag)))
}

/// Hashing in swapped memory measures a disk.
pub(crate) fn refuse_swapping(costs: Costs, memories: usize) -> Result<(), Miss> {
    let wanted_kib = u64::from(costs.memory_kib) * memories as u64;
    match crate::environment::available_memory_kib() {
        Some(free_kib) if free_kib < wanted_kib + wanted_kib / 8 => {
            Err(Miss::NotRun(format!("needs {wanted_kib} KiB, {free_kib} KiB are free")))
        }
        _ => Ok(()),
    }
}
