//! File system with calls that a test watches and lets fail, one by one.

use crate::fs::{Access, File, FileSystem, LoadedWords, Mapping, MemoryFs, Space};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    /// The call has no effect and fails.
    Fails,
    /// The call takes effect, but reports a failure.
    FailsAfterwards,
}

/// Call to an open file.
pub(super) struct Call<'a> {
    pub(super) path: &'a str,
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) length: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Sync,
}

type Script = Box<dyn Fn(&Call<'_>) -> Fate + Send + Sync>;

/// Files in RAM behind a script.
pub(super) struct Scripted {
    inner: Arc<MemoryFs>,
    script: Arc<Mutex<Arc<Script>>>,
}

impl Scripted {
    pub(super) fn new(inner: &Arc<MemoryFs>) -> Arc<Self> {
        let script: Script = Box::new(|_| Fate::Passes);
        Arc::new(Self { inner: Arc::clone(inner), script: Arc::new(Mutex::new(Arc::new(script))) })
    }

    /// Lets `script` decide all further calls. The script may make calls itself.
    pub(super) fn play(&self, script: impl Fn(&Call<'_>) -> Fate + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(Box::new(script));
    }

    /// Gives writes to this file a fate; all other calls pass.
    pub(super) fn writes(&self, path: &'static str, fate: Fate) {
        self.play(move |call| match call.kind == Kind::Write && call.path == path {
            true => fate,
            false => Fate::Passes,
        });
    }

    fn wrap(&self, path: &str, inner: Box<dyn File>) -> Box<dyn File> {
        Box::new(ScriptedFile { path: path.to_owned(), inner, script: Arc::clone(&self.script) })
    }
}

struct ScriptedFile {
    path: String,
    inner: Box<dyn File>,
    script: Arc<Mutex<Arc<Script>>>,
}

impl ScriptedFile {
    fn play<T>(
        &self,
        (kind, offset, length): (Kind, u64, usize),
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let script = Arc::clone(&self.script.lock());
        let fate = (*script)(&Call { path: &self.path, kind, offset, length: length as u64 });
        let failed = || io::Error::from(io::ErrorKind::TimedOut);
        match fate {
            Fate::Passes => call(),
            Fate::Fails => Err(failed()),
            Fate::FailsAfterwards => call().and(Err(failed())),
        }
    }
}

impl File for ScriptedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.play((Kind::Read, offset, buffer.len()), || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.play((Kind::Write, offset, bytes.len()), || self.inner.write_at(bytes, offset))
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_length(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.play((Kind::Sync, 0, 0), || self.inner.sync())
    }
}

impl FileSystem for Scripted {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        Ok(self.wrap(path, self.inner.open(path, access)?))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        self.inner.load(path, bytes)
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.inner.length(path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.inner.unlink(path)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        self.inner.make_folder(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.inner.remove_folder(path)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.inner.list(path, limit)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        self.inner.map(path, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}
