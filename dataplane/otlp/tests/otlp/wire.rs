//! Protobuf written by hand, also as no ordinary encoder writes it.

/// A varint of at least `length` bytes: longer than it need be if the value is small.
pub(crate) fn varint(mut value: u64, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 || out.len() + 1 < length {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

pub(crate) fn key(field: u32, wire_type: u8) -> Vec<u8> {
    varint(u64::from(field << 3 | u32::from(wire_type)), 1)
}

/// A length-delimited field.
pub(crate) fn len(field: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [key(field, 2), varint(payload.len() as u64, 1), payload.to_vec()].concat()
}

/// A length-delimited field whose tag and length are longer than they need be.
pub(crate) fn long_len(field: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let tag = varint(u64::from(field << 3 | 2), 4);
    [tag, varint(payload.len() as u64, 9), payload.to_vec()].concat()
}

/// A varint field.
pub(crate) fn int(field: u32, value: u64) -> Vec<u8> {
    [key(field, 0), varint(value, 1)].concat()
}

/// A field of eight bytes.
pub(crate) fn fixed64(field: u32, value: u64) -> Vec<u8> {
    [key(field, 1), value.to_le_bytes().to_vec()].concat()
}

/// A group.
pub(crate) fn group(field: u32, content: impl AsRef<[u8]>) -> Vec<u8> {
    [key(field, 3), content.as_ref().to_vec(), key(field, 4)].concat()
}

/// One unknown field of every wire type, a group with fields and a group among them.
pub(crate) fn unknown() -> Vec<u8> {
    [
        int(100, u64::MAX),
        fixed64(101, 7),
        len(102, b"\xffunknown"),
        group(103, [int(1, 1), group(104, len(2, "x"))].concat()),
        [key(105, 5), vec![1, 2, 3, 4]].concat(),
        int(536_870_911, 1),
    ]
    .concat()
}

/// Concatenates.
pub(crate) fn cat(pieces: &[Vec<u8>]) -> Vec<u8> {
    pieces.concat()
}
