//! Parameters of the admin listener's URLs.

/// Returns the parameters of a query, with percent-encoding removed. A name may stand once.
pub(super) fn parameters(query: &str) -> Result<Vec<(&str, String)>, String> {
    let mut parameters: Vec<(&str, String)> = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if parameters.iter().any(|(earlier, _)| *earlier == name) {
            return Err(format!("{name} stands twice"));
        }
        let value = percent_decoded(value).ok_or_else(|| format!("bad percent-encoding in {name}"))?;
        parameters.push((name, value));
    }
    Ok(parameters)
}

/// Removes percent-encoding.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}
