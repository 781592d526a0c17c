//! The budget of a namespace, as one line of text: what the scripts compare.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// What all replicas of a namespace must agree upon. Equal blocks have equal texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Which change of the budget this is; 0 in explicitly shared namespaces, which do not count.
    pub generation: u64,
    /// For how long one may ask; whole milliseconds, at most a day.
    pub lease: Duration,
    /// Questions under way at once.
    pub in_flight: NonZeroU32,
    /// Questions begun in one second of Redis.
    pub per_second: NonZeroU32,
}

/// The text of a block that does not follow the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be four decimal numbers: generation, lease in ms, in flight, per second")]
pub struct NotABlock;

/// Larger numbers would not be exact in Lua.
const LARGEST: u64 = 1 << 53;

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            generation,
            lease,
            in_flight,
            per_second,
        } = self;
        write!(f, "{generation} {} {in_flight} {per_second}", lease.as_millis())
    }
}

impl FromStr for Block {
    type Err = NotABlock;

    fn from_str(text: &str) -> Result<Self, NotABlock> {
        let mut numbers = text.split(' ').map(|number| {
            let canonical = number
                .parse::<u64>()
                .ok()
                .filter(|parsed| parsed.to_string() == number);
            canonical.filter(|number| *number <= LARGEST).ok_or(NotABlock)
        });
        let mut next = || numbers.next().unwrap_or(Err(NotABlock));
        let (generation, lease, in_flight, per_second) = (next()?, next()?, next()?, next()?);
        if numbers.next().is_some() || lease == 0 {
            return Err(NotABlock);
        }
        let whole = |number: u64| {
            u32::try_from(number)
                .ok()
                .and_then(NonZeroU32::new)
                .ok_or(NotABlock)
        };
        Ok(Self {
            generation,
            lease: Duration::from_millis(lease),
            in_flight: whole(in_flight)?,
            per_second: whole(per_second)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_text() {
        for text in ["1 10000 4 10", "0 7000 1 1", "9007199254740992 1 4294967295 2"] {
            assert_eq!(text.parse::<Block>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_scripts_would_not_compare_alike_is_no_block() {
        for text in [
            "",
            "1",
            "1 10000 4",
            "1 10000 4 10 2",
            "01 10000 4 10",
            "1  10000 4 10",
            "1 10000 0 10",
            "1 0 4 10",
            "+1 10000 4 10",
            "1 10000 4 10 ",
            "9007199254740993 1 1 1",
            "1 10000 4294967296 1",
            "a b c d",
        ] {
            assert_eq!(text.parse::<Block>(), Err(NotABlock), "{text:?}");
        }
    }
}
