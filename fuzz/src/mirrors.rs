//! Documents of package registries.

use shoal_mirrors::{Form, Mirror, Place, registries};

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
    let npm = registries::of(shoal_mirrors::Kind::Npm).expect("built");
    let mut promises = npm.promises(&mirror(), Form::NpmFull, &place).expect("of a tarball");
    document.chunks(cut).for_each(|piece| promises.push(piece).expect("read before"));
    promises.finish().expect("read before");
}

/// The mirror stands where its registry does, so that a second rewriting changes nothing.
fn mirror() -> Mirror {
    Mirror { external: "http://a.test".into(), upstream: "http://a.test".into() }
}

fn rewritten(document: &[u8], cut: usize) -> Option<Vec<u8>> {
    let npm = registries::of(shoal_mirrors::Kind::Npm).expect("built");
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
    let npm = registries::of(shoal_mirrors::Kind::Npm).expect("built");
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
