//! Field lines: where the tokenizer found name and value, and whether the line ended as it must.
//!
//! httparse finds the parts quickly but takes a bare LF for a line's end. RFC 9112 section 2.2 lets a recipient
//! do so; a neighbour that does not would then see another message in the same bytes, so we refuse it.

use crate::Refusal;
use shoal_core::FieldLine;

/// Locates `field` in `head`, out of which it was parsed, and checks that its line ends in CRLF.
pub(crate) fn locate(head: &[u8], field: &httparse::Header<'_>) -> Result<FieldLine, Refusal> {
    let name_start = offset_in(head, field.name.as_bytes());
    let name_end = name_start + field.name.len();
    let value_start = match field.value {
        // An empty value's slice may point anywhere in the line, so its place is counted from the name.
        [] => skip_whitespace(head, name_end + 1),
        value => offset_in(head, value),
    };
    let value_end = value_start + field.value.len();
    let ends_at_once = head.get(value_end) == Some(&b'\r');
    if !ends_at_once && head.get(skip_whitespace(head, value_end)) != Some(&b'\r') {
        return Err(BARE_LF);
    }
    Ok(FieldLine {
        name_start: name_start as u32,
        name_end: name_end as u32,
        value_start: value_start as u32,
        value_end: value_end as u32,
    })
}

/// The offset of `part` within `whole`, of which it is a slice.
pub(crate) fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Whether the bytes hold an LF followed by an empty line, as every head does at its end.
pub(crate) fn holds_end(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
        rest = &rest[at + 1..];
        if rest.starts_with(b"\r\n") || rest.starts_with(b"\n") {
            return true;
        }
    }
    false
}

/// The refusal of a line that ends in LF alone.
pub(crate) const BARE_LF: Refusal = Refusal::bad_request("line not ended by CRLF");

fn skip_whitespace(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
