//! Documents of package registries.

use shoal_mirrors::bearer::{Challenge, Token};
use shoal_mirrors::generations::Generation;
use shoal_mirrors::registries as kinds;
use shoal_mirrors::{Class, Fetch, Form, Kind, Mirror, Place, Question, Registry, Route};

/// An npm document is refused, or rewritten alike however it is cut, into one that is read again.
pub fn npm_documents(data: &[u8]) {
    let Some((&cut, document)) = data.split_first() else { return };
    let cut = usize::from(cut).max(1);
    let whole = rewritten(document, document.len().max(1));
    assert_eq!(whole, rewritten(document, cut), "pieces make a difference");
    let Some(whole) = whole else { return };
    assert_eq!(rewritten(&whole, cut).as_ref(), Some(&whole), "own URLs stay as they are");
    for form in [Form::NpmFull, Form::NpmShort] {
        selected(document, form, cut);
    }
    let place = Place::Below("/a/-/a-1.0.0.tgz".into());
    let npm = kinds::of(shoal_mirrors::Kind::Npm);
    let mut promises = npm.promises(&mirror(), Form::NpmFull, &place).expect("of a tarball");
    document.chunks(cut).for_each(|piece| promises.push(piece).expect("read before"));
    promises.finish().expect("read before");
}

/// The mirror stands where its registry does, so that a second rewriting changes nothing.
fn mirror() -> Mirror {
    Mirror { external: "http://a.test".into(), upstream: "http://a.test".into() }
}

fn rewritten(document: &[u8], cut: usize) -> Option<Vec<u8>> {
    let npm = kinds::of(shoal_mirrors::Kind::Npm);
    let mut rewriter = npm.rewriter(&mirror(), Form::NpmFull).expect("a package");
    let mut output = Vec::new();
    for piece in document.chunks(cut) {
        rewriter.push(piece, &mut output).ok()?;
    }
    rewriter.finish(&mut output).ok()?;
    Some(output)
}

/// A selection of any versions is a document.
fn selected(document: &[u8], form: Form, cut: usize) {
    let npm = kinds::of(shoal_mirrors::Kind::Npm);
    let mut survey = npm.survey(Form::NpmFull).expect("dated");
    document.chunks(cut).for_each(|piece| survey.push(piece).expect("read before"));
    let facts = survey.finish().expect("read before");
    let versions = facts.versions.iter().step_by(2).map(|(version, _)| version.clone()).collect();
    let (mut rewriter, _) = npm.selected(&mirror(), form, &facts, versions).expect("a form");
    let mut output = Vec::new();
    document.chunks(cut).for_each(|piece| rewriter.push(piece, &mut output).expect("read before"));
    rewriter.finish(&mut output).expect("read before");
    assert!(rewritten(&output, output.len().max(1)).is_some(), "a selection that cannot be read");
}

/// The first byte chooses the registry, the second the size of pieces. A line is the request, the
/// rest the document: rewriters, converters and readers of promises end alike however it is cut.
pub fn registries(data: &[u8]) {
    let [kind, cut, rest @ ..] = data else { return };
    let registry = kinds::of(Kind::ALL[usize::from(*kind) % Kind::ALL.len()]);
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let document = rest.get(end + 1..).unwrap_or_default();
    if let Ok(request) = std::str::from_utf8(&rest[..end]) {
        routed(registry, request);
        Challenge::parse(request).map(|challenge| challenge.url());
    }
    Token::parse(document);
    Generation::parse(document.to_vec(), None);
    let cut = usize::from(*cut).max(1);
    for form in Form::ALL_DOCUMENTS {
        assert_eq!(
            made(registry, form, document, cut),
            made(registry, form, document, document.len().max(1))
        );
        for place in
            [Place::Below("/gems/a-1.0.gem".into()), Place::Elsewhere("http://a.test/a-1.zip".into())]
        {
            let Some(mut promises) = registry.promises(&mirror(), form, &place) else { continue };
            if document.chunks(cut).all(|piece| promises.push(piece).is_ok()) {
                let _ = promises.finish();
            }
        }
    }
}

/// A place that a request leads to stays below the registry, and is its own place.
fn routed(registry: &dyn Registry, request: &str) {
    let (path, query) = request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
    if !path.starts_with('/') {
        return;
    }
    registry.packages(&mirror(), path);
    let field = |_: &str| Some(request.to_owned());
    let question = Question { method: "GET", path, query, field: &field };
    let Route::Fetch(Fetch { place, class, .. }) = registry.route(&mirror(), &question) else { return };
    match &place {
        Place::Below(path) => assert!(path.starts_with('/'), "{path}"),
        Place::Elsewhere(url) => assert!(url.starts_with("http://") || url.starts_with("https://"), "{url}"),
    }
    if let (Class::Document(_), Place::Below(path)) = (class, &place) {
        assert!(!path.split(['/', '?']).any(|part| part == ".."), "{path}");
    }
}

/// Output of the rewriter of a form, and of the page made from a document.
fn made(registry: &dyn Registry, form: Form, document: &[u8], cut: usize) -> [Option<Vec<u8>>; 2] {
    let page = registry.converter(&mirror(), form, Form::PypiHtml).map(|(rewriter, _)| rewriter);
    [registry.rewriter(&mirror(), form), page].map(|rewriter| {
        let (mut rewriter, mut output) = (rewriter?, Vec::new());
        for piece in document.chunks(cut) {
            rewriter.push(piece, &mut output).ok()?;
        }
        rewriter.finish(&mut output).ok()?;
        Some(output)
    })
}
