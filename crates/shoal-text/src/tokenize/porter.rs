//! The stems of English words, after M. F. Porter, *An algorithm for suffix stripping*, 1980.

/// Longer terms stay as they are.
const MAX_BYTES: usize = 64;

/// The condition on the letters before a suffix.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// At least one vowel sequence followed by consonants.
    One,
    /// At least two.
    Two,
}

/// Replaces `out` by the stem of `term`. In FTS3 suffixes of the first step may be whole words.
pub(crate) fn stem(term: &[u8], is_fts3: bool, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(term);
    if !(3..=MAX_BYTES).contains(&term.len()) {
        return;
    }
    plural(out, is_fts3);
    past(out, is_fts3);
    if let Some((b'y', before)) = out.split_last()
        && has_vowel(before)
    {
        *out.last_mut().expect("a stem has letters") = b'i';
    }
    replace(out, STEP_2, Measure::One);
    replace(out, STEP_3, Measure::One);
    cut(out);
    final_letters(out);
}

/// Step 1a.
fn plural(word: &mut Vec<u8>, is_fts3: bool) {
    let length = word.len();
    let ends = |suffix: &[u8]| word.ends_with(suffix) && (is_fts3 || length > suffix.len());
    if ends(b"sses") || ends(b"ies") {
        word.truncate(length - 2);
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        word.truncate(length - 1);
    }
}

/// Step 1b, and its corrections.
fn past(word: &mut Vec<u8>, is_fts3: bool) {
    let length = word.len();
    if word.ends_with(b"eed") && (is_fts3 || length > 3) {
        if measure(&word[..length - 3]) > 0 {
            word.truncate(length - 1);
        }
        return;
    }
    let cut = match word.as_slice() {
        [.., b'e', b'd'] if length > 2 => 2,
        [.., b'i', b'n', b'g'] if length > 3 => 3,
        _ => return,
    };
    if !has_vowel(&word[..length - cut]) {
        return;
    }
    word.truncate(length - cut);
    let length = word.len();
    let is_long = is_fts3 || length > 2;
    if is_long && [b"at".as_slice(), b"bl", b"iz"].iter().any(|end| word.ends_with(end)) {
        word.push(b'e');
        return;
    }
    let last = word[length - 1];
    let is_double = length > 1 && word[length - 2] == last;
    if is_double && !is_vowel(last, false) && !matches!(last, b'l' | b's' | b'z') {
        word.truncate(length - 1);
    } else if measure(word) == 1 && ends_short(word) {
        word.push(b'e');
    }
}

/// Steps 2 and 3: the first suffix of `rules` gives way to its substitute.
fn replace(word: &mut Vec<u8>, rules: &[(&[u8], &[u8])], wanted: Measure) {
    for (suffix, substitute) in rules {
        if word.len() > suffix.len() && word.ends_with(suffix) {
            let stem = word.len() - suffix.len();
            if holds(&word[..stem], wanted) {
                word.truncate(stem);
                word.extend_from_slice(substitute);
            }
            return;
        }
    }
}

/// Step 4.
fn cut(word: &mut Vec<u8>) {
    for suffix in STEP_4 {
        if word.len() <= suffix.len() || !word.ends_with(suffix) {
            continue;
        }
        let stem = &word[..word.len() - suffix.len()];
        let is_open = *suffix != b"ion" || matches!(stem.last(), Some(b's' | b't'));
        if is_open && holds(stem, Measure::Two) {
            word.truncate(word.len() - suffix.len());
        }
        return;
    }
}

/// Step 5.
fn final_letters(word: &mut Vec<u8>) {
    if let Some((b'e', before)) = word.split_last() {
        let count = measure(before);
        if count > 1 || count == 1 && !ends_short(before) {
            word.pop();
        }
    }
    if word.len() > 1 && word.ends_with(b"ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
}

const STEP_2: &[(&[u8], &[u8])] = &[
    (b"ational", b"ate"),
    (b"tional", b"tion"),
    (b"enci", b"ence"),
    (b"anci", b"ance"),
    (b"izer", b"ize"),
    (b"logi", b"log"),
    (b"bli", b"ble"),
    (b"alli", b"al"),
    (b"entli", b"ent"),
    (b"eli", b"e"),
    (b"ousli", b"ous"),
    (b"ization", b"ize"),
    (b"ation", b"ate"),
    (b"ator", b"ate"),
    (b"alism", b"al"),
    (b"iveness", b"ive"),
    (b"fulness", b"ful"),
    (b"ousness", b"ous"),
    (b"aliti", b"al"),
    (b"iviti", b"ive"),
    (b"biliti", b"ble"),
];

const STEP_3: &[(&[u8], &[u8])] = &[
    (b"ical", b"ic"),
    (b"ness", b""),
    (b"icate", b"ic"),
    (b"iciti", b"ic"),
    (b"ful", b""),
    (b"ative", b""),
    (b"alize", b"al"),
];

const STEP_4: &[&[u8]] = &[
    b"al", b"ance", b"ence", b"er", b"ic", b"able", b"ible", b"ant", b"ement", b"ment", b"ent",
    b"ion", b"ou", b"ism", b"ate", b"iti", b"ous", b"ive", b"ize",
];

fn is_vowel(letter: u8, y_is_vowel: bool) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u') || letter == b'y' && y_is_vowel
}

/// `y` is a vowel behind a consonant.
fn vowels(letters: &[u8]) -> impl Iterator<Item = bool> + '_ {
    let mut after_consonant = false;
    letters.iter().map(move |&letter| {
        let is_vowel = is_vowel(letter, after_consonant);
        after_consonant = !is_vowel;
        is_vowel
    })
}

/// Sequences of vowels that consonants follow.
fn measure(letters: &[u8]) -> usize {
    let mut count = 0;
    let mut was_vowel = false;
    for is_vowel in vowels(letters) {
        count += usize::from(was_vowel && !is_vowel);
        was_vowel = is_vowel;
    }
    count
}

fn holds(stem: &[u8], wanted: Measure) -> bool {
    measure(stem) >= if wanted == Measure::One { 1 } else { 2 }
}

fn has_vowel(letters: &[u8]) -> bool {
    letters.iter().enumerate().any(|(at, &letter)| is_vowel(letter, at > 0))
}

/// Ends in consonant, vowel, consonant, the last not w, x or y.
fn ends_short(letters: &[u8]) -> bool {
    let Some(&last) = letters.last() else {
        return false;
    };
    let mut mask = [false; 3];
    for is_vowel in vowels(letters) {
        mask = [mask[1], mask[2], is_vowel];
    }
    letters.len() >= 3 && mask == [false, true, false] && !matches!(last, b'w' | b'x' | b'y')
}
