//! The protobuf wire format: tags, varints, lengths, skipping. Reads exactly what prost reads.
//!
//! Invariant: a field that prost's decoder would refuse is refused here with the same reach,
//! groups, recursion limit and over-long varints included; the differential tests hold us to it.

use crate::malformed::{Fault, Malformed, Place};

/// How many messages and groups may be nested, counted as prost counts them.
pub(crate) const RECURSION_LIMIT: u32 = 100;

/// Wire types of the protobuf encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint,
    Fixed64,
    LengthDelimited,
    StartGroup,
    EndGroup,
    Fixed32,
}

/// One field's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) field: u32,
    pub(crate) wire_type: WireType,
}

/// Reads the fields of one message. `depth` is how many more levels may be opened below it.
pub(crate) struct Reader<'a> {
    /// What is not read yet.
    rest: &'a [u8],
    /// Where `rest` ends in the request: errors name places in the request.
    end: usize,
    depth: u32,
    place: Place,
}

impl<'a> Reader<'a> {
    /// `base` is where `bytes` begins in the request.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], base: usize, depth: u32, place: Place) -> Self {
        Self {
            rest: bytes,
            end: base + bytes.len(),
            depth,
            place,
        }
    }

    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Position of the next byte in the request.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    #[cold]
    pub(crate) fn fail(&self, fault: Fault) -> Malformed {
        Malformed {
            place: self.place,
            offset: self.offset(),
            fault,
        }
    }

    #[inline]
    pub(crate) fn key(&mut self) -> Result<Key, Malformed> {
        let raw = self.varint()?;
        let Ok(raw) = u32::try_from(raw) else {
            return Err(self.fail(Fault::TagTooLarge));
        };
        let wire_type = match raw & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::LengthDelimited,
            3 => WireType::StartGroup,
            4 => WireType::EndGroup,
            5 => WireType::Fixed32,
            _ => return Err(self.fail(Fault::UnknownWireType)),
        };
        let field = raw >> 3;
        if field == 0 {
            return Err(self.fail(Fault::FieldNumberZero));
        }
        Ok(Key { field, wire_type })
    }

    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "twice a data point: the call costs more than the work"
    )]
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        match *self.rest {
            // Tags and short lengths.
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(first))
            }
            // The lengths of most messages.
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Ok(u64::from(first & 0x7f) | u64::from(second) << 7)
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for index in 0..10 {
            let Some(&byte) = self.rest.get(index) else {
                return Err(self.fail(Fault::Truncated));
            };
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                // The tenth byte holds the 64th bit alone.
                if index == 9 && byte > 1 {
                    break;
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(self.fail(Fault::VarintTooLong))
    }

    /// The payload of a length-delimited field and its offset in the request.
    #[inline]
    pub(crate) fn length_delimited(&mut self) -> Result<(&'a [u8], usize), Malformed> {
        let length = self.varint()?;
        let start = self.offset();
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let Some((payload, rest)) = split else {
            return Err(self.fail(Fault::Truncated));
        };
        self.rest = rest;
        Ok((payload, start))
    }

    /// The payload of a field that must be length-delimited.
    #[inline]
    pub(crate) fn bytes_field(&mut self, key: Key) -> Result<(&'a [u8], usize), Malformed> {
        self.expect(key, WireType::LengthDelimited)?;
        self.length_delimited()
    }

    /// A reader over a nested message.
    #[inline]
    pub(crate) fn message_field(&mut self, key: Key, place: Place) -> Result<Reader<'a>, Malformed> {
        self.expect(key, WireType::LengthDelimited)?;
        if self.depth == 0 {
            return Err(self.fail(Fault::NestedTooDeep));
        }
        let (bytes, base) = self.length_delimited()?;
        Ok(Reader::new(bytes, base, self.depth - 1, place))
    }

    pub(crate) fn varint_field(&mut self, key: Key) -> Result<u64, Malformed> {
        self.expect(key, WireType::Varint)?;
        self.varint()
    }

    pub(crate) fn fixed64_field(&mut self, key: Key) -> Result<u64, Malformed> {
        self.expect(key, WireType::Fixed64)?;
        let Some((chunk, rest)) = self.rest.split_first_chunk::<8>() else {
            return Err(self.fail(Fault::Truncated));
        };
        self.rest = rest;
        Ok(u64::from_le_bytes(*chunk))
    }

    #[inline]
    fn expect(&self, key: Key, wire_type: WireType) -> Result<(), Malformed> {
        if key.wire_type == wire_type {
            Ok(())
        } else {
            Err(self.fail(Fault::WrongWireType { field: key.field }))
        }
    }

    /// Skips a field that we do not read.
    pub(crate) fn skip(&mut self, key: Key) -> Result<(), Malformed> {
        self.skip_at(key, self.depth)
    }

    /// Skips fields with this tag of one byte as long as nothing about them is unusual; returns how many. What
    /// stands then is read as ever, faults too.
    #[inline]
    pub(crate) fn skip_run(&mut self, tag: u8) -> u32 {
        let mut count = 0;
        loop {
            let (head, length) = match *self.rest {
                [first, length, ..] if first == tag && length < 0x80 => (2, usize::from(length)),
                [first, low, high, ..] if first == tag && high < 0x80 => {
                    (3, usize::from(low & 0x7f) | usize::from(high) << 7)
                }
                _ => return count,
            };
            let Some(rest) = self.rest.get(head + length..) else {
                return count;
            };
            self.rest = rest;
            count += 1;
        }
    }

    fn skip_at(&mut self, key: Key, depth: u32) -> Result<(), Malformed> {
        if depth == 0 {
            return Err(self.fail(Fault::NestedTooDeep));
        }
        match key.wire_type {
            WireType::Varint => self.varint().map(|_| ()),
            WireType::Fixed64 => self.advance(8),
            WireType::Fixed32 => self.advance(4),
            WireType::LengthDelimited => self.length_delimited().map(|_| ()),
            WireType::StartGroup => loop {
                let inner = self.key()?;
                if inner.wire_type == WireType::EndGroup {
                    if inner.field == key.field {
                        return Ok(());
                    }
                    return Err(self.fail(Fault::GroupEndMismatch));
                }
                self.skip_at(inner, depth - 1)?;
            },
            WireType::EndGroup => Err(self.fail(Fault::GroupEndMismatch)),
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), Malformed> {
        let Some((_, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.fail(Fault::Truncated));
        };
        self.rest = rest;
        Ok(())
    }
}

/// How many bytes a varint takes.
#[inline]
pub(crate) fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends a minimal varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        #[allow(clippy::cast_possible_truncation, reason = "masked to seven bits")]
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[allow(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes, 0, RECURSION_LIMIT, Place::Request)
    }

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..usize::BITS {
            for value in [1_usize << shift, (1_usize << shift) - 1] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_len(value));
                assert_eq!(reader(&bytes).varint().unwrap(), value as u64);
            }
        }
    }

    #[test]
    fn varints_beyond_64_bits_are_refused() {
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(reader(&longest).varint().unwrap(), u64::MAX);
        let overflowing = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(
            reader(&overflowing).varint().unwrap_err().fault,
            Fault::VarintTooLong
        );
        assert_eq!(
            reader(&[0x80; 11]).varint().unwrap_err().fault,
            Fault::VarintTooLong
        );
        assert_eq!(reader(&[0x80; 3]).varint().unwrap_err().fault, Fault::Truncated);
    }

    #[test]
    fn a_run_ends_before_whatever_is_unusual() {
        let plain = [&[0x0a, 1, 7][..], &[0x0a, 0], &[0x0a, 0x81, 1], &[9; 129]].concat();
        for (rest, why) in [
            (&[][..], "the end"),
            (&[0x12, 0], "another tag"),
            (&[0x0a], "no length"),
            (&[0x0a, 2, 7], "a length beyond the end"),
            (&[0x0a, 0x80, 0x80, 0], "a length of three bytes"),
            (&[0x8a, 0, 0], "a tag of two bytes"),
        ] {
            let bytes = [&plain, rest].concat();
            let mut reader = reader(&bytes);
            assert_eq!(reader.skip_run(0x0a), 3, "{why}");
            assert_eq!(reader.rest, rest, "{why}");
        }
    }

    #[test]
    fn groups_need_their_own_end() {
        let skip = |bytes: &[u8]| {
            let mut reader = reader(bytes);
            let key = reader.key().unwrap();
            reader.skip(key).map_err(|malformed| malformed.fault)
        };
        assert_eq!(skip(&[0x53, 0x08, 0x01, 0x54]), Ok(()));
        assert_eq!(skip(&[0x53, 0x5c]), Err(Fault::GroupEndMismatch));
        assert_eq!(skip(&[0x53]), Err(Fault::Truncated));
        assert_eq!(skip(&[0x54]), Err(Fault::GroupEndMismatch));
    }

    #[test]
    fn groups_nested_beyond_the_limit_are_refused() {
        let nested = |levels: usize| [vec![0x53; levels], vec![0x54; levels]].concat();
        let skip = |bytes: &[u8]| {
            let mut reader = reader(bytes);
            let key = reader.key().unwrap();
            reader.skip(key).map_err(|malformed| malformed.fault)
        };
        assert_eq!(skip(&nested(100)), Ok(()));
        assert_eq!(skip(&nested(101)), Err(Fault::NestedTooDeep));
    }

    #[test]
    fn a_wrong_tag_is_named() {
        assert_eq!(reader(&[0x07]).key().unwrap_err().fault, Fault::UnknownWireType);
        assert_eq!(reader(&[0x02]).key().unwrap_err().fault, Fault::FieldNumberZero);
        let large = [0x82, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(reader(&large).key().unwrap_err().fault, Fault::TagTooLarge);
    }
}
