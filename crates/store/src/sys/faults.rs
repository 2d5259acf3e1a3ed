//! Pages of mapped files that the disk does not deliver: zeros take their place, and the process
//! goes on.
//!
//! The kernel reports such a page by SIGBUS, which ends a process. One unreadable sector, or a
//! shortened file, would end it at each start. For guarded ranges, a handler maps a page of zeros
//! in place of the lost one, and counts the page. The instruction that met the page then runs
//! again. A reader of zeros finds nothing, and writes to that page never reach the file. SIGBUS for
//! any other cause goes to the earlier handler.
//!
//! The handler calls only `mmap` and, on its way out, `sigaction` and `raise`. It takes no lock and
//! allocates nothing.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Guard of a range, which has lost pages replaced while it lives. Drop it before the map.
pub(crate) struct Guard {
    place: &'static GuardedRange,
}

/// Guarded range, or none if the end is 0.
struct GuardedRange {
    begin: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicU64,
    is_taken: AtomicUsize,
}

impl Guard {
    /// Guards a map. Fails if there is no room for one more, or no handler can be installed;
    /// nothing may be mapped then.
    pub(crate) fn over(begin: *const u8, bytes: usize) -> io::Result<Self> {
        install()?;
        let take = |place: &&GuardedRange| place.is_taken.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
        let full = || io::Error::other("more files are mapped than can be");
        let place = PLACES.iter().find(take).ok_or_else(full)?;
        place.lost.store(0, SeqCst);
        place.begin.store(begin.addr(), SeqCst);
        place.end.store(begin.addr() + bytes, SeqCst);
        Ok(Self { place })
    }

    /// Returns the number of lost pages.
    pub(crate) fn lost(&self) -> u64 {
        self.place.lost.load(SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.place.end.store(0, SeqCst);
        self.place.begin.store(0, SeqCst);
        self.place.is_taken.store(0, SeqCst);
    }
}

/// Installs the handler of SIGBUS, once.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: both structures are plain data that sigaction(2) fills or reads during the call.
        // The handler has the signature that SA_SIGINFO asks for. The earlier action is kept for
        // good, and stored before the handler is installed.
        unsafe {
            let mut before = Box::new(std::mem::zeroed::<libc::sigaction>());
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut *before) != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
            }
            BEFORE.store(Box::into_raw(before), SeqCst);
            let mut ours = std::mem::zeroed::<libc::sigaction>();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
            ours.sa_sigaction = handler as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            match libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            }
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands over a valid `info`. errno belongs to this thread, and the
    // interrupted code finds it unchanged.
    let (address, is_kernels, errno) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code > 0, *libc::__errno_location()) };
    let is_mended = is_kernels && replace(address);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if is_mended {
        return;
    }
    // SAFETY: the earlier action was stored before this function could be called, and is never
    // freed. The instruction runs again, and meets the earlier handler. A signal that a process
    // sent is sent again.
    unsafe {
        libc::sigaction(libc::SIGBUS, BEFORE.load(SeqCst), std::ptr::null_mut());
        if !is_kernels {
            libc::raise(signal);
        }
    }
}

/// Replaces the page at this address with zeros, if the page is guarded.
fn replace(address: usize) -> bool {
    let holds = |place: &&GuardedRange| (place.begin.load(SeqCst)..place.end.load(SeqCst)).contains(&address);
    let Some(place) = PLACES.iter().find(holds) else { return false };
    let page = address / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the page lies in a map that its owner keeps while it is guarded. The map's words may
    // have any value at any time. The page stays readable and writable.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(page),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    place.lost.fetch_add(1, SeqCst);
    true
}

/// Action for SIGBUS before ours.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static PLACES: [GuardedRange; PLACES_MAX] = [const {
    GuardedRange {
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        lost: AtomicU64::new(0),
        is_taken: AtomicUsize::new(0),
    }
}; PLACES_MAX];
/// Most guarded ranges: more than a node has disks, or a test program has stores.
const PLACES_MAX: usize = 256;
/// Smallest page size. With larger pages the kernel refuses, and the process ends as it would
/// without the handler.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::{Map, Private};
    use crate::fs::LoadedWords;
    use std::os::fd::OwnedFd;
    use std::os::unix::process::ExitStatusExt;
    use std::sync::atomic::Ordering::Relaxed;

    fn file_of_ones(pages: usize) -> std::fs::File {
        use std::io::Write;
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![1; pages * 4096]).expect("written");
        file
    }

    #[test]
    fn pages_that_are_lost_are_zeros_and_are_counted() {
        let file = file_of_ones(4);
        let fd: OwnedFd = file.try_clone().expect("a second handle").into();
        let private = Private::new(&fd, 0, 4 * 4096).expect("mapped");
        let shared = Map::new(&file, 4 * 512).expect("mapped");
        let word = |words: &[std::sync::atomic::AtomicU64], page: usize| words[page * 512 + 7].load(Relaxed);
        assert_eq!((word(private.words(), 0), private.lost_pages()), (0x0101_0101_0101_0101, 0));
        file.set_len(2 * 4096).expect("cut off");
        for round in 0..2 {
            assert_eq!(word(private.words(), 3), 0, "round {round}");
            assert_eq!(word(shared.words(), 2), 0, "round {round}");
        }
        assert_eq!((private.lost_pages(), shared.lost_pages()), (1, 1));
        private.words()[3 * 512].store(9, Relaxed);
        assert_eq!(private.words()[3 * 512].load(Relaxed), 9);
        assert_eq!(word(private.words(), 1), 0x0101_0101_0101_0101, "what is there is there");
    }

    /// Runs in a process of its own.
    #[test]
    fn unguarded_fault_ends_the_process() {
        if std::env::var_os("SHOAL_TEST_OF_SIGBUS").is_some() {
            let file = file_of_ones(2);
            let _guarded = Map::new(&file, 512).expect("mapped");
            let map = memmap2::MmapOptions::new().len(2 * 4096).map_raw(&file).expect("mapped");
            file.set_len(0).expect("cut off");
            // SAFETY: the address is mapped; the test is about the file that is no longer behind
            // it.
            unsafe { map.as_ptr().add(4096).read_volatile() };
            unreachable!("the process has ended");
        }
        let itself = std::env::current_exe().expect("it runs");
        let name = "sys::faults::tests::unguarded_fault_ends_the_process";
        let ended = std::process::Command::new(itself)
            .args([name, "--exact", "--nocapture"])
            .env("SHOAL_TEST_OF_SIGBUS", "1")
            .output()
            .expect("started");
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }
}
