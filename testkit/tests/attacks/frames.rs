//! HTTP/2 frames as bytes (RFC 9113, section 4.1), sound or not.

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The connection preface (section 3.4), with a SETTINGS frame of this payload.
pub fn preface(settings: &[u8]) -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, settings)].concat()
}

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field block of literals that stand in no table (RFC 7541, section 6.2.2); names and values
/// have less than 127 bytes.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// The pseudo-header fields of a request to `site.test`, and others after them.
pub fn request<'a>(method: &'a str, path: &'a str, others: &[(&'a str, &'a str)]) -> Vec<u8> {
    let own = [(":method", method), (":scheme", "http"), (":authority", "site.test"), (":path", path)];
    block(&[&own[..], others].concat())
}

/// The frames in `bytes`, as kind, stream and payload; a rest that is no whole frame is left out.
pub fn read(mut bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((head[3], stream, payload.to_vec()));
        bytes = rest;
    }
    frames
}
