//! `shoal_format::freelist` and `overflow`: pages listing pages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_format::Pgno;
use shoal_format::freelist::Trunk;
use shoal_format::overflow::OverflowPage;

fuzz_target!(|data: &[u8]| {
    let [reserved, bytes @ ..] = data else { return };
    let usable = bytes.len().saturating_sub(usize::from(*reserved)).max(480);
    if let Ok(trunk) = Trunk::new(bytes, Pgno::FIRST, usable) {
        assert!(trunk.leaf_count() * 4 + 8 <= usable);
        for index in 0..=trunk.leaf_count() {
            let leaf = trunk.leaf(index);
            assert!(index < trunk.leaf_count() || leaf.is_err());
        }
    }
    if let Ok(page) = OverflowPage::new(bytes, Pgno::FIRST, usable) {
        let mut written = vec![0; usable];
        OverflowPage::write(&mut written, page.next, page.content);
        assert_eq!(written, bytes[..usable]);
    }
});
