//! FTS3's tokenizers beside SQLite's, by `fts3tokenize`.

use crate::support::Dice;
use crate::support::ask::{ask_ours, ask_sqlite};
use crate::support::fts3::ours;

const TOKENIZERS: &[&str] = &[
    "",
    "simple",
    "simple, x, 'abc '",
    "porter",
    "unicode61",
    "unicode61, 'remove_diacritics=0'",
    "unicode61, \"remove_diacritics=2\"",
    "unicode61, 'tokenchars=-.é_', 'separators=axé', 'tokenchars=a'",
];

#[test]
fn tokens_are_sqlites() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    for (number, arguments) in TOKENIZERS.iter().enumerate() {
        let sql = format!("CREATE VIRTUAL TABLE k{number} USING fts3tokenize({arguments})");
        theirs.execute_batch(&sql).unwrap();
    }
    let mut ours = ours(&path);
    let mut dice = Dice::new(7);
    let endings = [
        "", "s", "es", "ies", "sses", "eed", "ed", "ing", "ational", "tional", "enci", "anci",
        "izer", "logi", "bli", "alli", "entli", "eli", "ousli", "ization", "ation", "ator",
        "alism", "iveness", "fulness", "ousness", "aliti", "iviti", "biliti", "icate", "ative",
        "alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "er", "ic", "able", "ible",
        "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive",
        "ize", "e", "ll", "y", "at", "bl", "iz", "ate", "ble",
    ];
    for case in 0..300 {
        let mut text = dice.text(6);
        for _ in 0..20 {
            for _ in 0..dice.below(6) {
                text.push_str(
                    dice.of::<&str>(&["a", "b", "e", "i", "o", "y", "l", "s", "t", "z", "n", "w"]),
                );
            }
            text.push_str(dice.of::<&str>(&endings));
            text.push_str(dice.of::<&str>(&endings));
            text.push_str(dice.of::<&str>(&[" ", " ", "-", "_", "7 ", "É ", "\u{301}", ".", "A "]));
        }
        if case % 10 == 0 {
            let code = |dice: &mut Dice| {
                char::from_u32(dice.below(0x3000) as u32).filter(|code| *code != '\0')
            };
            text.extend((0..300).filter_map(|_| code(&mut dice)));
        }
        let text = text.replace('\'', "''");
        for (number, tokenizer) in TOKENIZERS.iter().enumerate() {
            let sql = format!(
                "SELECT token, start, \"end\", position FROM k{number} WHERE input = '{text}'"
            );
            let (found, wanted) = (ask_ours(&mut ours, &sql), ask_sqlite(&theirs, &sql));
            assert_eq!(found, wanted, "{tokenizer}: {sql}");
        }
    }
}
