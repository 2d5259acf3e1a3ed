//! Parts of a full key that namings use. A full key begins with a URL.

/// Returns the host in a full key, in its original case: the bytes between `://` and the port, path
/// or end. A key that is no URL is returned whole.
pub(super) fn host_of(full_key: &[u8]) -> &[u8] {
    let Some(scheme) = full_key.windows(3).position(|part| part == b"://") else { return full_key };
    let rest = &full_key[scheme + 3..];
    if rest.first() == Some(&b'[') {
        let end = rest.iter().position(|byte| *byte == b']').map_or(rest.len(), |end| end + 1);
        return &rest[..end];
    }
    let is_end = |byte: &u8| matches!(byte, b':' | b'/' | b'?' | b'#' | 0);
    &rest[..rest.iter().position(is_end).unwrap_or(rest.len())]
}
