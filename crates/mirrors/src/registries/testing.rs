//! Shared by the tests of all registries: questions, and documents in pieces of several sizes.

use crate::{Class, Fetch, Form, Mirror, Place, Promise, Question, Registry, Route};

/// Asks a registry's code about a request with this Accept field.
pub fn routed(registry: &dyn Registry, mirror: &Mirror, method: &str, path: &str, accept: &str) -> Route {
    let field = |name: &str| (name == "accept" && !accept.is_empty()).then(|| accept.to_owned());
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    registry.route(mirror, &Question { method, path, query, field: &field })
}

/// Returns place and class of an answer below the upstream.
pub fn below(route: Route) -> (String, Class) {
    match route {
        Route::Fetch(Fetch { place: Place::Below(path), class, .. }) => (path, class),
        other => panic!("{other:?}"),
    }
}

/// Rewrites a document in pieces of three sizes, which must give the same bytes.
pub fn rewritten(registry: &dyn Registry, mirror: &Mirror, form: Form, document: &str) -> String {
    let rewriter = || registry.rewriter(mirror, form).expect("the form has a rewriter");
    in_pieces(document, || rewriter())
}

/// Converts a document in pieces of three sizes, which must give the same bytes.
pub fn converted(registry: &dyn Registry, mirror: &Mirror, forms: (Form, Form), document: &str) -> String {
    in_pieces(document, || registry.converter(mirror, forms.0, forms.1).expect("it has a converter").0)
}

fn in_pieces(document: &str, rewriter: impl Fn() -> Box<dyn crate::Rewriter + Send>) -> String {
    let mut whole: Option<String> = None;
    for size in [1, 13, document.len().max(1)] {
        let (mut rewriter, mut output) = (rewriter(), Vec::new());
        for piece in document.as_bytes().chunks(size) {
            rewriter.push(piece, &mut output).expect("a sound document");
        }
        rewriter.finish(&mut output).expect("a whole document");
        let made = String::from_utf8(output).expect("text");
        assert_eq!(*whole.get_or_insert_with(|| made.clone()), made, "pieces of {size}");
    }
    whole.expect("three sizes")
}

/// Reads the promise of a file in pieces of three sizes, which must agree.
pub fn promised(
    registry: &dyn Registry,
    mirror: &Mirror,
    form: Form,
    file: &Place,
    document: &str,
) -> (Option<Promise>, Option<Place>) {
    let mut first = None;
    for size in [1, 13, document.len().max(1)] {
        let mut promises = registry.promises(mirror, form, file).expect("the form promises files");
        document.as_bytes().chunks(size).for_each(|piece| promises.push(piece).expect("a sound document"));
        let found = (promises.finish().expect("a whole document"), promises.place());
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "pieces of {size}");
    }
    first.expect("three sizes")
}
