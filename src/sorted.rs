//! Sorting short lists, in little code: the standard library's sorts take several KiB of the module for each type.

use core::cmp::Ordering;

/// The items in order, equal ones as they came. Each is put in its place by bisection, so for thousands of items at
/// most.
pub(crate) fn sorted<T>(items: Vec<T>, mut order: impl FnMut(&T, &T) -> Ordering) -> Vec<T> {
    let mut out: Vec<T> = Vec::with_capacity(items.len());
    for item in items {
        let at = out.partition_point(|before| order(before, &item) != Ordering::Greater);
        out.insert(at, item);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::sorted;

    #[test]
    fn items_are_in_order_and_equal_ones_as_they_came() {
        let items = vec![(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (1, 'e')];
        let wanted = [(1, 'b'), (1, 'e'), (2, 'd'), (3, 'a'), (3, 'c')];
        assert_eq!(sorted(items, |a, b| a.0.cmp(&b.0)), wanted);
    }
}
