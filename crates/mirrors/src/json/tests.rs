//! Walks in pieces of every size, with replaced and left-out members.

use super::*;
use proptest::prelude::*;

/// Replaces the strings at `a/*/u`, and leaves out the members `x` of every object.
#[derive(Default)]
struct Example {
    left: Vec<String>,
}

impl Visitor for Example {
    fn keeps(&mut self, path: &Path) -> bool {
        path.key(path.depth() - 1) != "x"
    }

    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["a", "*", "u"])
    }

    fn scalar(&mut self, _: &Path, raw: &[u8], output: &mut Vec<u8>) {
        output.extend_from_slice(quoted(&format!("<{}>", String::from_utf8_lossy(raw))).as_bytes());
    }

    fn left(&mut self, path: &Path) {
        self.left.push((0..path.depth()).map(|level| format!("/{}", path.key(level))).collect());
    }
}

fn walked(document: &str, piece: usize) -> Result<String, BadDocument> {
    let (mut walk, mut output) = (Walk::new(Example::default()), Vec::new());
    for piece in document.as_bytes().chunks(piece) {
        walk.push(piece, &mut output)?;
    }
    walk.finish(&mut output)?;
    Ok(String::from_utf8(output).expect("text"))
}

#[test]
fn other_bytes_stay_as_they_came() {
    for (document, made) in [
        (r#" { "b" : [ 1 , {"u":"v"} , true ] } "#, r#" { "b" : [ 1 , {"u":"v"} , true ] } "#),
        (r#"{"a":{"k":{"u":"v\"w"}}}"#, r#"{"a":{"k":{"u":"<\"v\\\"w\">"}}}"#),
        (r#"{"a":{"k":{"u":1.5e3,"v":null}}}"#, r#"{"a":{"k":{"u":"<1.5e3>","v":null}}}"#),
        (r#"{"x":1, "b":2}"#, r#"{ "b":2}"#),
        (r#"{"b":2 ,"x":{"b":[1,2,{"x":3}]} }"#, r#"{"b":2  }"#),
        (r#"{"b":2,"x":"c","d":3}"#, r#"{"b":2,"d":3}"#),
        (r#"{"x":"c","x":[],"x":{} }"#, r#"{ }"#),
        ("[]", "[]"),
        ("12", "12"),
        (r#""\\""#, r#""\\""#),
    ] {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(walked(document, piece).as_deref(), Ok(made), "{document} by {piece}");
        }
    }
}

#[test]
fn malformed_documents_are_refused() {
    let deep = "[".repeat(DEPTH_MAX + 1);
    let key = format!("{{\"{}\":1}}", "k".repeat(TOKEN_MAX));
    let value = format!("{{\"a\":{{\"k\":{{\"u\":\"{}\"}}}}}}", "k".repeat(TOKEN_MAX));
    for document in
        ["", "{", "{]", "[}", "{\"a\"}", "{\"a\":}", "[1", "\"a", "[1]]", "[1],", "{,}", "x", "<html>"]
            .into_iter()
            .chain([&*deep, &key, &value])
    {
        assert!(walked(document, 5).is_err(), "{document}");
    }
}

#[test]
fn ends_of_objects_are_told() {
    let mut walk = Walk::new(Example::default());
    walk.push(br#"{"a":{"k":[{}]},"x":{"y":{}}}"#, &mut Vec::new()).expect("sound");
    assert_eq!(walk.visitor.left, ["/a/k/", "/a/k", "/a", ""]);
}

/// Leaves out the elements of `a` that have a member `x`, and the strings "x" of `b`.
#[derive(Default)]
struct Weigher {
    has_x: bool,
}

impl Visitor for Weigher {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["a", "*", "x"]) || path.is(&["b", "*"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], output: &mut Vec<u8>) {
        self.has_x |= path.key(0) == "a" || raw == b"\"x\"";
        output.extend_from_slice(raw);
    }

    fn weighs(&mut self, path: &Path) -> bool {
        self.has_x = false;
        path.is(&["a", "*"]) || path.is(&["b", "*"])
    }

    fn passes(&mut self, _: &Path) -> bool {
        !self.has_x
    }
}

fn weighed(document: &str, piece: usize) -> Result<String, BadDocument> {
    let (mut walk, mut output) = (Walk::new(Weigher::default()), Vec::new());
    for piece in document.as_bytes().chunks(piece) {
        walk.push(piece, &mut output)?;
    }
    walk.finish(&mut output)?;
    Ok(String::from_utf8(output).expect("text"))
}

#[test]
fn elements_are_left_out_at_their_end() {
    for (document, made) in [
        (r#"{"a":[{"y":1}, {"x":1} ,{"y":[2,3]}],"c":[1, 2]}"#, r#"{"a":[{"y":1} ,{"y":[2,3]}],"c":[1, 2]}"#),
        (r#"{"a":[{"x":1},{"y":1}]}"#, r#"{"a":[{"y":1}]}"#),
        (r#"{"a":[ {"x":1}, {"x":2} ]}"#, r#"{"a":[  ]}"#),
        (r#"{"b":["x","y", "x", "z"]}"#, r#"{"b":["y", "z"]}"#),
        (r#"{"a":[{"y":{"x":1}}]}"#, r#"{"a":[{"y":{"x":1}}]}"#),
    ] {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(weighed(document, piece).as_deref(), Ok(made), "{document} by {piece}");
        }
    }
    let endless = format!("{{\"a\":[{{\"y\":\"{}", "y".repeat(2 * ELEMENT_MAX));
    assert!(weighed(&endless, 1000).is_err());
}

proptest! {
    #[test]
    fn weighed_pieces_make_no_difference(document in r#"\{"[ab]":\[[\[\]{}",:x-y 1]{0,40}\]\}"#, piece in 1usize..9) {
        prop_assert_eq!(weighed(&document, piece).ok(), weighed(&document, 1000).ok());
    }


    #[test]
    fn pieces_make_no_difference(document in r#"[\[\]{}",:a-c u\\0-9]{0,60}"#, piece in 1usize..9) {
        prop_assert_eq!(walked(&document, piece).ok(), walked(&document, 1000).ok());
    }
}
