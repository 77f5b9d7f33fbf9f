//! A tag depends on none of kernel, threads, arena, neighbours; and errors a caller can stop
//! or get wrong.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use shoal_argon::{
    Arena, Argon2, Error, Inputs, Isa, Job, Options, Pages, Params, Progress, Variant, Version,
};

fn id(memory_kib: u32, passes: u32, lanes: u32) -> Argon2 {
    Argon2::new(Variant::Id, Version::V0x13, Params::new(memory_kib, passes, lanes).unwrap())
}

fn inputs(password: &[u8]) -> Inputs<'_> {
    Inputs { password, salt: b"somesalt", ..Inputs::default() }
}

fn tag(function: Argon2, password: &[u8], options: &Options<'_>) -> [u8; 32] {
    let mut tag = [0; 32];
    function.hash_with(&inputs(password), &mut tag, options).unwrap();
    tag
}

/// Large enough for lanes to go to threads by themselves.
#[test]
fn kernels_and_threads_give_the_same_tag() {
    let function = id(16 * 1024, 2, 4);
    let expect = tag(function, b"password", &Options::default().isa(Isa::SCALAR));
    for isa in Isa::available() {
        for threads in [1, 2, 3, 4, 9] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let options = Options::default().isa(isa).threads(threads);
            assert_eq!(tag(function, b"password", &options), expect, "{isa}, {threads} threads");
        }
        assert_eq!(tag(function, b"password", &Options::default().isa(isa)), expect, "{isa}");
    }
}

/// Different inputs and tag lengths beside each other, in every kind of pages.
#[test]
fn neighbours_and_pages_give_the_same_tag() {
    let function = id(4096, 1, 1);
    let passwords: Vec<String> = (0..11).map(|number| format!("password {number}")).collect();
    let expect: Vec<Vec<u8>> = passwords
        .iter()
        .enumerate()
        .map(|(number, password)| {
            let mut tag = vec![0; 32 + number];
            function.hash(&inputs(password.as_bytes()), &mut tag).unwrap();
            tag
        })
        .collect();
    for isa in Isa::available() {
        for count in [1, 2, 3, 8, 11] {
            let mut arenas: Vec<Arena> = (0..count)
                .map(|number| {
                    let pages = Pages::ALL[number % Pages::ALL.len()];
                    Arena::with_pages(4096, pages).or_else(|_| Arena::new(5000)).unwrap()
                })
                .collect();
            let mut tags: Vec<Vec<u8>> = (0..count).map(|number| vec![0; 32 + number]).collect();
            let mut jobs: Vec<Job<'_>> = arenas
                .iter_mut()
                .zip(&passwords)
                .zip(&mut tags)
                .map(|((arena, password), tag)| Job {
                    arena,
                    inputs: inputs(password.as_bytes()),
                    tag,
                })
                .collect();
            function.hash_side_by_side(&mut jobs, &Options::default().isa(isa)).unwrap();
            assert_eq!(tags, expect[..count], "{isa}, {count} side by side");
        }
    }
}

#[test]
fn progress_is_told_slice_by_slice() {
    let told = RefCell::new(Vec::new());
    let progress = |progress: Progress| {
        assert_eq!(progress.slices, 12);
        told.borrow_mut().push(progress.slices_done);
    };
    tag(id(1024, 3, 2), b"password", &Options::default().progress(&progress));
    assert_eq!(*told.borrow(), (1..=12).collect::<Vec<_>>());
}

#[test]
fn a_hash_can_be_stopped_and_leaves_the_tag_alone() {
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| stop.store(progress.slices_done == 2, Ordering::Relaxed);
    let options = Options::default().stop(&stop).progress(&progress);
    let mut tag = [7; 32];
    let error = id(1024, 3, 2).hash_with(&inputs(b"password"), &mut tag, &options).unwrap_err();
    assert_eq!((error, tag), (Error::Stopped, [7; 32]));
    // The next one finds everything in order.
    tag[0] = 0;
    stop.store(false, Ordering::Relaxed);
    id(1024, 1, 2).hash(&inputs(b"password"), &mut tag).unwrap();
    assert_ne!(tag[1..], [7; 31]);
}

#[test]
fn an_arena_that_is_too_small_is_refused() {
    let mut arena = Arena::new(64).unwrap();
    let mut tag = [7; 32];
    let error = id(72, 1, 1)
        .hash_in(&mut arena, &inputs(b"password"), &mut tag, &Options::default())
        .unwrap_err();
    assert_eq!(error, Error::ArenaTooSmall { block_count: 72, found: 64 });
    assert_eq!(error.to_string(), "an arena for 72 blocks of 1 KiB is needed, this one has 64");
    assert_eq!(tag, [7; 32]);
}
