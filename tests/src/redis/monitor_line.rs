//! One line of `MONITOR`. Pure.
//!
//! ```text
//! 1796050615.830028 [0 lua] "SET" "jevmetrics:{n}:admissions" "1796050615 1" "PX" "2000"
//! ```

/// A command that the server has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    /// Microseconds of the server's clock.
    pub(super) at: u64,
    /// Whether a script ran it.
    pub(super) by_script: bool,
    /// The command and its arguments; bytes that are no text are replaced.
    pub(super) words: Vec<String>,
}

/// Reads a line without its end; `None` if it is none of these.
pub(super) fn read(line: &str) -> Option<Ran> {
    let (time, rest) = line.strip_prefix('+').unwrap_or(line).split_once(' ')?;
    let (seconds, micros) = time.split_once('.')?;
    let at = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (origin, rest) = rest.strip_prefix('[')?.split_once("] ")?;
    let (_database, client) = origin.split_once(' ')?;
    Some(Ran {
        at,
        by_script: client == "lua",
        words: words(rest)?,
    })
}

/// Texts in quotes, one blank between them.
fn words(mut text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    while !text.is_empty() {
        let (word, rest) = quoted(text.strip_prefix('"')?)?;
        words.push(word);
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    Some(words)
}

/// The text up to the closing quote, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes().enumerate();
    while let Some((place, byte)) = rest.next() {
        match byte {
            b'"' => return Some((String::from_utf8_lossy(&bytes).into_owned(), &text[place + 1..])),
            b'\\' => match rest.next()?.1 {
                b'n' => bytes.push(b'\n'),
                b'r' => bytes.push(b'\r'),
                b't' => bytes.push(b'\t'),
                b'a' => bytes.push(7),
                b'b' => bytes.push(8),
                b'x' => {
                    let digits = [rest.next()?.1, rest.next()?.1];
                    let digits = std::str::from_utf8(&digits).ok()?;
                    bytes.push(u8::from_str_radix(digits, 16).ok()?);
                }
                other => bytes.push(other),
            },
            other => bytes.push(other),
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Ran, read};

    #[test]
    fn lines_of_scripts_and_of_clients_are_read() {
        let line = r#"+1796050615.830028 [0 lua] "SET" "x{a}:\xc3\xa9" "a \"b\" \x01" "PX" "2000""#;
        let ran = Ran {
            at: 1_796_050_615_830_028,
            by_script: true,
            words: ["SET", "x{a}:é", "a \"b\" \u{1}", "PX", "2000"]
                .map(str::to_owned)
                .to_vec(),
        };
        assert_eq!(read(line), Some(ran));
        let line = r#"1796050615.000001 [0 127.0.0.1:37838] "HSET" "h" "next" "" "b\\\n" "1 2""#;
        let ran = read(line).unwrap();
        assert_eq!((ran.at % 1_000_000, ran.by_script), (1, false));
        assert_eq!(ran.words, ["HSET", "h", "next", "", "b\\\n", "1 2"]);
    }

    #[test]
    fn what_is_no_such_line_is_none() {
        for line in ["+OK", "", "1.2 [0 lua] \"open", "1.2 [0 lua] bare", "-ERR no"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
