//! Well-formed queries of every kind beside SQLite, over tables of every kind: the first byte says
//! which tables, the others what a query is made of; whatever the plan, the rows are the same.
//!
//! Needs the feature `peers`, which builds SQLite.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::peers::{Peers, Verdict};
use shoal_fuzz::query;

thread_local! {
    static PEERS: RefCell<HashMap<u8, Rc<RefCell<Peers>>>> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((tables, choices)) = bytes.split_first() else { return };
    let peers = PEERS.with_borrow_mut(|known| {
        let made = known.entry(*tables).or_insert_with(|| {
            let script = query::schema(&query::bytes_of(u64::from(*tables), 600));
            Rc::new(RefCell::new(Peers::new(&script)))
        });
        Rc::clone(made)
    });
    let query = query::query(choices);
    if let Verdict::Differ(how) = peers.borrow_mut().ask(&query) {
        panic!("{}\n{how}", query.sql);
    }
});
