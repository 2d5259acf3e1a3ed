//! Index pages of a job: each is validated once, and read for the files that a list does not name.

use super::files::FileTask;
use super::job::Job;
use crate::exchange::{OwnAnswer, OwnFreshness, OwnRequest};
use crate::message::StreamBody;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_mirrors::wanted::{
    Check, CrateDigest, ImageManifest, IndexPage, ListCheck, MANIFEST_MAX, NeededFile, ProjectFiles, Search,
};
use shoal_mirrors::{Digest, Form};

/// A page, with the searches that read it.
pub(super) struct PageTask {
    pub mirror: String,
    pub page: IndexPage,
    pub searches: Vec<(String, Search)>,
}

impl PageTask {
    /// Returns `true` for a document that others of its registry are checked against: a release of
    /// an archive, the list of all gems. It is read first; else the others would be fetched again
    /// for the client that reads it.
    pub fn leads(&self) -> bool {
        let name = self.page.path.rsplit('/').next().unwrap_or_default();
        matches!(name, "InRelease" | "Release" | "versions")
    }
}

/// An image; its manifests name its files.
pub(super) struct ImageTask {
    pub what: String,
    pub mirror: String,
    pub repository: String,
    pub reference: String,
}

impl Job {
    /// Validates a page and runs its searches.
    pub async fn read_page(&self, task: PageTask) {
        self.pace.wait().await;
        let asked = OwnRequest {
            mirror: &task.mirror,
            path: &task.page.path,
            accept: task.page.accept,
            freshness: OwnFreshness::Validated,
            pinned_until: None,
        };
        let answer = self.engine.ask_mirror(asked).await;
        let fault = match answer.status {
            StatusCode::OK => self.search(&task, answer).await.err(),
            // Without a search, a file tells its absence itself.
            StatusCode::NOT_FOUND | StatusCode::GONE if task.searches.is_empty() => None,
            status => Some(format!("its index answers {status}")),
        };
        if let Some(why) = fault {
            let names: Vec<&str> = task.searches.iter().map(|(what, _)| &**what).collect();
            let names = if names.is_empty() { vec![&*task.page.path] } else { names };
            self.note(|report| names.iter().for_each(|name| report.failures.add(name, why.clone())));
        }
        self.note(|report| report.pages.done += 1);
    }

    /// Reads a page to its end, for its searches if it has any.
    async fn search(&self, task: &PageTask, answer: OwnAnswer) -> Result<(), String> {
        let OwnAnswer { fields, body, .. } = answer;
        match task.searches.first() {
            None => pushed(body, |_| Ok(())).await,
            Some((_, Search::Project { .. })) => {
                let content_type = fields.value(&http::header::CONTENT_TYPE).unwrap_or_default();
                let form = Form::PypiJson.given(&String::from_utf8_lossy(content_type));
                self.search_project(task, form, body).await
            }
            Some((_, Search::Crate { .. })) => self.search_crate(task, body).await,
            Some((_, Search::Image { .. })) => Ok(()),
        }
    }

    async fn search_project(&self, task: &PageTask, form: Form, body: StreamBody) -> Result<(), String> {
        debug_assert!(!task.searches.is_empty(), "a search reads the page");
        let live = self.engine.live();
        let mirror = live.mirrors.named(&task.mirror).map(|mirror| mirror.as_registry());
        let mirror = mirror.ok_or("its mirror is gone from the settings")?;
        let mut page = ProjectFiles::new(&mirror, form).ok_or("its index is no page of a project")?;
        pushed(body, |piece| page.push(piece).map_err(|error| error.to_string())).await?;
        let index = page.finish().map_err(|error| error.to_string())?;
        for (number, (what, search)) in task.searches.iter().enumerate() {
            let found = search.among(&index, &mirror, &self.choice);
            self.found(what, &task.mirror, found);
            let_others_work(number).await;
        }
        Ok(())
    }

    async fn search_crate(&self, task: &PageTask, body: StreamBody) -> Result<(), String> {
        let mut digests = CrateDigest::default();
        pushed(body, |piece| digests.push(piece).map_err(|error| error.to_string())).await?;
        for (number, (what, search)) in task.searches.iter().enumerate() {
            let Search::Crate { name, version, .. } = search else { continue };
            let file = digests.file(name, version).map_err(|error| error.to_string())?;
            self.found(what, &task.mirror, file.into_iter().collect());
            let_others_work(number).await;
        }
        Ok(())
    }

    fn found(&self, what: &str, mirror: &str, files: Vec<NeededFile>) {
        if files.is_empty() {
            self.note(|report| report.failures.add(what, "its index has no such file"));
        }
        self.add_files(files.into_iter().map(|file| FileTask::at_mirror(what, mirror, file)));
    }

    /// Reads the manifests of an image, and adds their files.
    pub async fn read_image(&self, task: ImageTask) {
        let mut references = vec![task.reference.clone()];
        let mut read = 0;
        while let Some(reference) = references.pop().filter(|_| read < MANIFESTS_MAX) {
            read += 1;
            match self.read_manifest(&task, &reference).await {
                Ok((manifest, own)) => {
                    self.add_files(own.map(|file| FileTask::at_mirror(&task.what, &task.mirror, file)));
                    references.extend(manifest.manifests(&self.choice).map(str::to_owned));
                    let blobs = manifest.blobs(&task.repository);
                    let blob = |file| FileTask::at_mirror(&task.what, &task.mirror, file);
                    self.add_files(blobs.into_iter().map(blob));
                }
                Err(why) => self.note(|report| report.failures.add(&task.what, why)),
            }
        }
        self.note(|report| report.pages.done += 1);
    }

    /// Reads a manifest. Gives with it the file of its digest, if the registry tells the digest of
    /// a tag: containerd asks for the tag by HEAD, and for the manifest by digest.
    async fn read_manifest(
        &self,
        task: &ImageTask,
        reference: &str,
    ) -> Result<(ImageManifest, Option<NeededFile>), String> {
        self.pace.wait().await;
        let path = format!("/v2/{}/manifests/{reference}", task.repository);
        // A tag is a document; a manifest by digest is constant.
        let is_constant = Digest::from_named_hex(reference).is_some();
        let freshness = if is_constant { OwnFreshness::Any } else { OwnFreshness::Validated };
        let asked =
            OwnRequest { mirror: &task.mirror, path: &path, accept: None, freshness, pinned_until: None };
        let answer = self.engine.ask_mirror(asked).await;
        if answer.status != StatusCode::OK {
            return Err(format!("its manifest {reference} answers {}", answer.status));
        }
        let told = answer.fields.get(CONTENT_DIGEST).filter(|_| !is_constant);
        let told = told.and_then(|value| Some(std::str::from_utf8(value.as_bytes()).ok()?.to_owned()));
        let mut bytes = Vec::new();
        pushed(answer.body, |piece| {
            bytes.extend_from_slice(piece);
            if bytes.len() > MANIFEST_MAX { Err("its manifest is too large".to_owned()) } else { Ok(()) }
        })
        .await?;
        let manifest =
            ImageManifest::parse(&bytes).ok_or_else(|| format!("its manifest {reference} cannot be read"))?;
        let own = told.and_then(|told| {
            let path = format!("/v2/{}/manifests/{told}", task.repository);
            let check = Check::OneOf(vec![Digest::from_named_hex(&told)?]);
            // A registry may tell the digest of another form, which nobody would ask for.
            let mut own = ListCheck::new(&check, &path);
            own.push(&bytes);
            let file = NeededFile { path, check, size: Some(bytes.len() as u64), may_lack: true };
            own.agrees().then_some(file)
        });
        Ok((manifest, own))
    }
}

/// Gives the pieces of a body to a reader.
pub(super) async fn pushed(
    mut body: StreamBody,
    mut push: impl FnMut(&Bytes) -> Result<(), String>,
) -> Result<(), String> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the body broke off: {error}"))?;
        if let Ok(piece) = frame.into_data() {
            push(&piece)?;
        }
    }
    Ok(())
}

/// Lets the clients of the worker have their turn, once in a while.
async fn let_others_work(number: usize) {
    if number.is_multiple_of(SEARCHES_AT_ONCE) {
        tokio::task::yield_now().await;
    }
}

/// Field with the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// Searches between two turns of others.
const SEARCHES_AT_ONCE: usize = 64;
/// Most manifests of one image.
const MANIFESTS_MAX: usize = 100;
