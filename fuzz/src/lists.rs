//! Lockfiles and lists for warming, and the pages that a search reads.

use shoal_mirrors::wanted::{
    Choice, CrateDigest, ENTRIES_MAX, Format, ImageManifest, ListCheck, ProjectFiles, ProjectIndex, need,
    parse,
};
use shoal_mirrors::{Form, Kind, Mirror};

/// The first byte chooses the format, the second the size of pieces; the rest is the list. Entries
/// are bounded, and no name leads out of its registry's paths. As a page of an index, the rest gives
/// the same files however it is cut.
pub fn any(data: &[u8]) {
    let [format, cut, list @ ..] = data else { return };
    let (format, _) = Format::ALL[usize::from(*format) % Format::ALL.len()];
    let _ = Format::of("", list);
    if let Ok(mut wishes) = parse(format, list) {
        assert!(wishes.wanted.len() + wishes.left_out.len() <= ENTRIES_MAX, "bounded");
        for wanted in &wishes.wanted {
            assert!(!wanted.title().is_empty() || wanted.url.is_none(), "{wanted:?}");
            let Ok(need) = need(wanted, wanted.kind.unwrap_or(Kind::Generic), None) else { continue };
            need.pages.iter().for_each(|page| below(&page.path));
            for file in &need.files {
                below(&file.path);
                let mut check = ListCheck::new(&file.check, &file.path);
                check.push(list);
                check.agrees();
            }
        }
        let before = wishes.wanted.len();
        let choice = Choice { wheels: vec!["*-x*".to_owned()], ..Choice::default() };
        assert_eq!(choice.apply(&mut wishes) + wishes.wanted.len(), before);
    }
    let cut = usize::from(*cut).max(1);
    for form in [Form::PypiJson, Form::PypiHtml] {
        assert_eq!(files(list, form, cut), files(list, form, list.len().max(1)), "pieces make a difference");
    }
    assert_eq!(crate_file(list, cut), crate_file(list, list.len().max(1)));
    if let Some(manifest) = ImageManifest::parse(list) {
        manifest.blobs("a").iter().for_each(|file| below(&file.path));
    }
    zip(list, cut);
}

/// A path is absolute, has no dots that lead out, and no byte that ends it early.
fn below(path: &str) {
    assert!(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
    assert!(!path.split(['/', '?']).any(|part| part == ".."), "{path:?}");
}

fn files(page: &[u8], form: Form, cut: usize) -> Option<ProjectIndex> {
    let index = "http://index.test/simple";
    let mirror = Mirror { external: index.into(), upstream: index.into() };
    let mut files = ProjectFiles::new(&mirror, form)?;
    for piece in page.chunks(cut) {
        files.push(piece).ok()?;
    }
    files.finish().ok()
}

fn crate_file(index: &[u8], cut: usize) -> Option<String> {
    let mut digests = CrateDigest::default();
    for piece in index.chunks(cut) {
        digests.push(piece).ok()?;
    }
    digests.file("a", "1.0.0").ok()?.map(|file| file.path)
}

/// A zip has the same hash however it is cut.
fn zip(bytes: &[u8], cut: usize) {
    let agrees = |cut: usize| {
        let check = shoal_mirrors::wanted::Check::GoSum([0; 32]);
        let mut check = ListCheck::new(&check, "/a/@v/v1.0.0.zip");
        bytes.chunks(cut).for_each(|piece| check.push(piece));
        check.agrees()
    };
    assert_eq!(agrees(cut), agrees(bytes.len().max(1)));
}
