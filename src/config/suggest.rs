//! "Did you mean" for misspelt names.

/// Longest name that is compared, in bytes; keys of this configuration are shorter.
const LONGEST: usize = 40;

/// The candidate nearest to `name`, if one is near enough to be a slip: two edits after dropping case and separators.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
    };
    if name.len() > LONGEST {
        return None;
    }
    let written = plain(name);
    candidates
        .into_iter()
        .map(|candidate| (edits(&written, &plain(candidate)), candidate))
        // A third of a short name is another name.
        .filter(|(distance, candidate)| *distance <= 2 && distance.saturating_mul(3) < candidate.len().max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn edits(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = left;
        }
        for (cell, b) in cells.zip(to) {
            let above = *cell;
            let replaced = diagonal.saturating_add(usize::from(a != b));
            left = replaced.min(above.saturating_add(1)).min(left.saturating_add(1));
            *cell = left;
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn distances_are_levenshtein() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("limit", "limits", 1)]
        {
            assert_eq!(edits(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let keys = ["limits", "max_wait_ms", "burst_seconds", "tenants", "name"];
        for (written, meant) in [
            ("limit", Some("limits")),
            ("maxWaitMs", Some("max_wait_ms")),
            ("burst-seconds", Some("burst_seconds")),
            ("nmae", None),
            ("tokens_per_day", None),
        ] {
            assert_eq!(nearest(written, keys), meant, "{written}");
        }
    }
}
