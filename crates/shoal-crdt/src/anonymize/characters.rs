//! Replacements of characters by others of the same length.

use super::Random;

/// A permutation of each class of characters, without a character replaced by itself.
#[derive(Default)]
pub(super) struct Characters {
    tables: [Vec<u32>; CLASSES],
}

/// Classes whose members take the same room in UTF-8, and so in UTF-16.
const CLASSES: usize = 5;

/// The characters of each class: some number of them from each first one on.
const RANGES: [&[(u32, u32)]; CLASSES] = [
    &[(0x20, 0x5f)],
    &[(0, 0x20), (0x7f, 1)],
    &[(0x80, 0x780)],
    // Without the surrogates.
    &[(0x800, 0xd000), (0xe000, 0x2000)],
    &[(0x1_0000, 0x10_0000)],
];

impl Characters {
    /// The replacement of `character`. The first of a class costs as much as the class has members.
    pub(super) fn replace(&mut self, character: char, random: &mut Random) -> char {
        let class = match (character.len_utf8(), character.is_ascii_control()) {
            (1, false) => 0,
            (1, true) => 1,
            (bytes, _) => bytes,
        };
        let ranges = RANGES[class];
        let table = &mut self.tables[class];
        if table.is_empty() {
            *table = cycle(ranges.iter().map(|(_, count)| count).sum(), random);
        }
        let mut rank = 0;
        for (first, count) in ranges {
            match u32::from(character).checked_sub(*first).filter(|at| at < count) {
                Some(at) => {
                    rank += at;
                    break;
                }
                None => rank += count,
            }
        }
        let mut replaced = table[rank as usize];
        for (first, count) in ranges {
            match replaced.checked_sub(*count) {
                Some(left) => replaced = left,
                None => {
                    return char::from_u32(first + replaced).expect("a class holds characters");
                }
            }
        }
        unreachable!("a rank is below the number of characters of its class")
    }
}

/// The numbers below `count` in one cycle: a permutation without a fixed point (Sattolo).
fn cycle(count: u32, random: &mut Random) -> Vec<u32> {
    let mut table: Vec<u32> = (0..count).collect();
    for at in (1..table.len()).rev() {
        table.swap(at, random.below(at as u64) as usize);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_stands_for_another_as_wide() {
        let mut random = Random::new([3; 32]);
        let mut characters = Characters::default();
        let mut seen = HashSet::new();
        let sample = (0..0x800).chain(0xd7f0..0xe010).chain(0xfff0..0x1_0010).chain([0x10_ffff]);
        for character in sample.filter_map(char::from_u32) {
            let replaced = characters.replace(character, &mut random);
            assert_ne!(replaced, character);
            assert_eq!(replaced.len_utf8(), character.len_utf8());
            assert_eq!(replaced.len_utf16(), character.len_utf16());
            assert!(seen.insert(replaced), "{replaced:?} stands for two");
            assert_eq!(characters.replace(character, &mut random), replaced);
        }
    }
}
