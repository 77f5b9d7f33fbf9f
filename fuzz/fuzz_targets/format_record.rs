//! `shoal_format::record`: a payload's values, read in order and one by one, are the same; the
//! record written from them reads back equal, and compares equal to them.
#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use shoal_format::{KeyOrder, Record, ValueRef, encode_record};

fuzz_target!(|data: &[u8]| {
    let Ok(record) = Record::new(data) else { return };
    let values: Result<Vec<ValueRef<'_>>, _> = record.values().collect();
    assert_eq!(record.column_count().is_ok(), values.is_ok());
    let Ok(values) = values else { return };
    assert_eq!(record.column_count(), Ok(values.len()));
    for (index, value) in values.iter().enumerate().step_by(7) {
        assert_eq!(record.column(index), Ok(Some(*value)));
    }
    assert_eq!(record.column(values.len()), Ok(None));

    for schema_format in [1, 4] {
        let mut written = Vec::new();
        encode_record(&values, schema_format, &mut written);
        let again = Record::new(&written).expect("a written record reads");
        let back: Result<Vec<ValueRef<'_>>, _> = again.values().collect();
        assert_eq!(back.expect("a written record reads"), values);
        assert_eq!(KeyOrder::binary().compare(&written, &values), Ok(Ordering::Equal));
    }
});
