//! Messages of a bounded size: a large document goes in pieces, to any peer.

use shoal_crdt::SyncMessage;

use super::ENGINES;
use super::peer::{Edit, Peer, assert_equal, run, run_with, without_flags};

const MAX_BYTES: usize = 1500;

/// Many changes that a document chunk cannot hold in few bytes.
fn large(ours: bool, number: u8) -> Peer {
    let mut peer = Peer::seed(ours).fork(number);
    for step in 0_u8..=255 {
        peer.edit(Edit::Type { at: step.wrapping_mul(151), letter: step.wrapping_mul(57) });
        peer.edit(Edit::Put { key: step, value: step.wrapping_mul(91).cast_signed() });
    }
    peer
}

fn check_sizes(messages: &[Vec<u8>], at_least: usize) {
    let sizes: Vec<usize> = messages.iter().map(Vec::len).collect();
    assert!(messages.len() > at_least, "{sizes:?}");
    for bytes in messages {
        let message = SyncMessage::decode(bytes).unwrap();
        let parts = (message.need.len(), message.have.len(), message.changes.as_bytes().len());
        assert!(bytes.len() <= MAX_BYTES, "{} in {sizes:?}: {parts:?}", bytes.len());
    }
}

#[test]
fn an_empty_peer_gets_the_document_in_pieces() {
    for other in [true, false] {
        for has_flags in [true, false] {
            let mut a = large(true, 1);
            let mut b = Peer::empty(other, 2);
            let (mut a_state, mut b_state) = (a.new_state(), b.new_state());
            a_state.bound(MAX_BYTES);
            b_state.bound(MAX_BYTES);
            let messages = run_with([&mut a, &mut b], [&mut a_state, &mut b_state], |bytes| {
                if has_flags { bytes.to_vec() } else { without_flags(bytes) }
            });
            assert_equal(&a, &b);
            // What the reference says it has is not bounded, but smaller here.
            check_sizes(&messages, 20);
            let total: usize = messages.iter().map(Vec::len).sum();
            assert!(total < 150_000, "{total}");
        }
    }
}

#[test]
fn a_bound_that_the_document_keeps_changes_nothing() {
    for other in [true, false] {
        let mut a = large(true, 1);
        let mut b = Peer::empty(other, 2);
        let (mut a_state, mut b_state) = (a.new_state(), b.new_state());
        a_state.bound(1 << 20);
        let messages = run([&mut a, &mut b], [&mut a_state, &mut b_state]);
        assert_equal(&a, &b);
        assert!(messages.len() <= 4, "{}", messages.len());
    }
}

#[test]
fn two_large_peers_meet_in_pieces() {
    for engines in ENGINES {
        if engines == [false, false] {
            continue;
        }
        for max_bytes in [MAX_BYTES, 300, 0] {
            let [mut a, mut b] = [large(engines[0], 1), large(engines[1], 2)];
            let (mut a_state, mut b_state) = (a.new_state(), b.new_state());
            a_state.bound(max_bytes);
            b_state.bound(max_bytes);
            let messages = run([&mut a, &mut b], [&mut a_state, &mut b_state]);
            assert_equal(&a, &b);
            if engines == [true, true] && max_bytes == MAX_BYTES {
                check_sizes(&messages, 20);
            }
        }
    }
}

#[test]
fn a_peer_that_lost_everything_gets_it_in_pieces() {
    for other in [true, false] {
        let mut a = large(true, 1);
        let mut b = a_copy(&a, other);
        let (mut a_state, mut b_state) = (a.new_state(), b.new_state());
        a_state.bound(MAX_BYTES);
        run([&mut a, &mut b], [&mut a_state, &mut b_state]);
        b = Peer::empty(other, 3);
        b.edit(Edit::Put { key: 0, value: 1 });
        b_state = b.new_state();
        // This side still counts on what the other one had.
        let messages = run([&mut a, &mut b], [&mut a_state, &mut b_state]);
        assert_equal(&a, &b);
        check_sizes(&messages, 20);
    }
}

fn a_copy(a: &Peer, ours: bool) -> Peer {
    let mut b = Peer::empty(ours, 2);
    let (mut a_state, mut b_state) = (a.new_state(), b.new_state());
    run([&mut a.clone(), &mut b], [&mut a_state, &mut b_state]);
    assert_equal(a, &b);
    b
}
