//! Well-formed queries of every kind beside SQLite, over tables of every kind: the first byte
//! chooses the tables, the others make the query; whatever the plan, the rows are the same. The sum
//! of the bytes chooses the planner's decisions to force when Shoal is asked once more.
//!
//! Needs the feature `peers`, to build SQLite.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::peers::{Peers, Verdict, all_choices};
use shoal_fuzz::query;
use shoal_sql::Forced;

thread_local! {
    static PEERS: RefCell<HashMap<u8, Rc<RefCell<Peers>>>> = RefCell::default();
    static CHOICES: Vec<Forced> = all_choices();
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
    let sum: usize = bytes.iter().map(|&byte| usize::from(byte)).sum();
    let forced = CHOICES.with(|choices| choices[sum % choices.len()]);
    if let Verdict::Differ(how) = peers.borrow_mut().ask(&query, &[forced]) {
        panic!("{}\n{how}", query.sql);
    }
});
