use super::*;

#[test]
fn what_may_be_verified_grows_with_the_range_from_a_least_on() {
    let least = LONG_MIN / LONG_FACTOR;
    assert_eq!([0, least - 1, least].map(budget), [LONG_MIN; 3]);
    assert_eq!((budget(least + 1), budget(u64::MAX)), (LONG_MIN + LONG_FACTOR, u64::MAX));
}

#[test]
fn stranded_records_add_up_from_the_first_one_on() {
    let mut sum = Stranded::default();
    sum.add(Stranded { records: 2, bytes: 30, at: Some(7) });
    sum.add(Stranded { records: 1, bytes: 5, at: Some(3) });
    sum.add(Stranded::default());
    assert_eq!(sum, Stranded { records: 3, bytes: 35, at: Some(7) });
}
