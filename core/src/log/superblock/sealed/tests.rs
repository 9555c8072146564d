//! Whose superblock is in a slot.
use super::*;

#[test]
fn only_a_superblock_of_a_creation_is_of_another_store_in_the_same_file() {
    let (own, foreign) = ([1; 16], [2; 16]);
    let first = Superblock::first(4096, own, [3; 16]);
    let is_of_another = |generation: u64, id: &[u8; 16]| Superblock { generation, ..first }.is_of_another_creation(id);
    assert_eq!([1, 2, 3].map(|generation| is_of_another(generation, &foreign)), [true, true, false]);
    assert_eq!([1, 2, 3].map(|generation| is_of_another(generation, &own)), [false; 3]);
}
