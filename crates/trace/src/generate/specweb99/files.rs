//! The file set of SPECweb99: directories of 36 files, and their access frequencies.
//!
//! Kant and Won, *Performance impact of uncached file accesses in SPECweb99*, 1999, section 2. A
//! directory has 4 classes of 9 files. The print contradicts itself about sizes and order. These
//! readings give the numbers that the print states elsewhere:
//!
//! - Print: S(i,j) = 1.024 (i+1) 10^(j+1), i from 1, j from 1. Reading: 1.024 i 10^(j+2), i from 1,
//!   j from 0: 102.4 bytes to 921.6 KB. Settled by "class 0 in 100's of bytes" and by sets of 2688,
//!   10367 and 41084 MB.
//! - Print: sums over i from 0 (1.1). Reading: from 1. Settled by 1/0, which is no number.
//! - Print: files 1 to 9 have the indices 9, 6, 4, 2, 1, 3, 5, 7, 8. Reading: the same, so that
//!   file 5 is requested most. Settled by the mean access of 14.73 KB; the inverse gives 18.07, no
//!   permutation 9.56.
//! - Print: the sixth probability is 0.053. Reading: 1/(6 H_9) = 0.059. Settled by the sum of the
//!   nine, which must be one.
//!
//! Any file's size and probability are O(1) once the set is made; making it is O(directories).

/// Files with their sizes and probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSet {
    directories: u32,
    /// Harmonic number of `directories`.
    harmonic: f64,
}

/// Position of a file in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Directory, from 0, the most popular first.
    pub directory: u32,
    /// Class, from 0 to 3: the order of magnitude of the size.
    pub class: u8,
    /// Number within the class, from 0 to 8.
    pub number: u8,
}

impl FileSet {
    /// Makes a set of `directories` directories, at least one.
    pub fn of(directories: u32) -> Self {
        let directories = directories.max(1);
        Self { directories, harmonic: harmonic(directories) }
    }

    /// Makes the set for a target throughput in operations a second: (int)(25 + λ/5) directories
    /// (Eq. 1.2).
    pub fn for_throughput(operations_per_second: f64) -> Self {
        // A cast of a float that is out of range saturates.
        Self::of((25.0 + operations_per_second / 5.0) as u32)
    }

    /// Returns the number of directories.
    pub fn directories(&self) -> u32 {
        self.directories
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.directories as usize * FILES_PER_DIRECTORY
    }

    /// Returns `false`: every set has a directory.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns all files, by directory, class and number.
    pub fn files(&self) -> impl Iterator<Item = File> {
        (0..self.len()).map(File::at)
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> f64 {
        f64::from(self.directories)
            * (0..FILES_PER_DIRECTORY).map(|at| File::at(at).exact_bytes()).sum::<f64>()
    }

    /// Returns the probability that an access is to this file (Eq. 1.4).
    pub fn probability(&self, file: File) -> f64 {
        CLASS_SHARES[usize::from(file.class)] * within_class(file.number)
            / (f64::from(file.directory + 1) * self.harmonic)
    }

    /// Returns the mean size of an access, in bytes: 14,727, which the paper rounds to 14.73 KB.
    /// The mean does not depend on the number of directories.
    pub fn mean_access_bytes() -> f64 {
        let one = Self::of(1);
        one.files().map(|file| one.probability(file) * file.exact_bytes()).sum()
    }
}

impl File {
    /// Returns the file at this place of [`FileSet::files`].
    pub fn at(place: usize) -> Self {
        let within = place % FILES_PER_DIRECTORY;
        let directory = (place / FILES_PER_DIRECTORY) as u32;
        Self { directory, class: (within / FILES_PER_CLASS) as u8, number: (within % FILES_PER_CLASS) as u8 }
    }

    /// Returns the file's place in [`FileSet::files`].
    pub fn place(self) -> usize {
        self.directory as usize * FILES_PER_DIRECTORY
            + usize::from(self.class) * FILES_PER_CLASS
            + usize::from(self.number)
    }

    /// Returns the size by the formula, in bytes. Sizes of class 0 are not whole numbers.
    pub fn exact_bytes(self) -> f64 {
        102.4 * f64::from(self.number + 1) * 10f64.powi(self.class.into())
    }

    /// Returns the size on disk, in bytes.
    pub fn bytes(self) -> u64 {
        self.exact_bytes() as u64
    }

    /// Returns the path below the file set's folder.
    pub fn path(self) -> String {
        format!("dir{:05}/class{}_{}", self.directory, self.class, self.number)
    }
}

/// Returns the probability of a number within a class: Zipf with exponent 1 over the popularity
/// index.
pub(super) fn within_class(number: u8) -> f64 {
    1.0 / (f64::from(POPULARITY_INDEX[usize::from(number)]) * harmonic(9))
}

fn harmonic(terms: u32) -> f64 {
    (1..=terms).rev().map(|term| 1.0 / f64::from(term)).sum()
}

/// Files of one directory.
pub const FILES_PER_DIRECTORY: usize = 36;
/// Files of one class.
const FILES_PER_CLASS: usize = 9;
/// Probability of each class (section 2).
pub(super) const CLASS_SHARES: [f64; 4] = [0.35, 0.5, 0.14, 0.01];
/// Popularity index of the files of a class, by number.
const POPULARITY_INDEX: [u8; FILES_PER_CLASS] = [9, 6, 4, 2, 1, 3, 5, 7, 8];
