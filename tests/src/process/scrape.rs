//! Reads Prometheus and `OpenMetrics` text: series as printed, and their values.

use std::collections::BTreeMap;

/// The samples of `text`: key is the series with its labels as printed. Comments, time stamps and exemplars are
/// left out, and so are lines that are none of these.
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(sample)
        .collect()
}

fn sample(line: &str) -> Option<(String, f64)> {
    let end = series_end(line)?;
    let (series, rest) = line.split_at(end);
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((series.to_owned(), value))
}

/// Behind the closing brace, or at the first blank if there are no labels. Label values may hold both.
fn series_end(line: &str) -> Option<usize> {
    let (mut quoted, mut escaped, mut braced) = (false, false, false);
    for (place, letter) in line.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' => braced = true,
            '}' => return Some(place + 1),
            ' ' | '\t' if !braced => return Some(place),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn series_are_keyed_as_printed() {
        let text = "# HELP a b\n# TYPE a counter\na_total 3\n\
            b{x=\"1\",y=\"q } \\\" z\"} 4.5 1790000000000\n\
            c_bucket{le=\"+Inf\"} 7 # {trace=\"t\"} 0.5\n\
            d NaN\nnonsense\n# EOF\n";
        let samples = parse(text);
        assert_eq!(samples.len(), 4);
        assert_eq!(samples["a_total"].to_string(), "3");
        assert_eq!(samples["b{x=\"1\",y=\"q } \\\" z\"}"].to_string(), "4.5");
        assert_eq!(samples["c_bucket{le=\"+Inf\"}"].to_string(), "7");
        assert!(samples["d"].is_nan());
    }
}
