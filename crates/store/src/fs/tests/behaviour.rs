//! Behaviour that every file system must have. The crate of the modelled machine includes this file
//! in its tests, too.

use super::{Access, FileSystem, MappedAccess, read_full, write_full};
use std::io;

/// Checks the behaviour that every file system must have.
pub fn behaves(door: &dyn FileSystem) {
    assert!(door.make_folder("00").unwrap());
    assert!(!door.make_folder("00").unwrap());
    assert_eq!(door.make_folder("01/00").unwrap_err().kind(), io::ErrorKind::NotFound);
    write_full(&*door.create("00/old").unwrap(), b"old", 0).unwrap();
    write_full(&*door.create("00/newer").unwrap(), b"newer", 0).unwrap();
    door.rename("00/newer", "00/old").unwrap();
    assert_eq!(door.length("00/old").unwrap(), 5);
    assert_eq!(door.rename("00/newer", "00/old").unwrap_err().kind(), io::ErrorKind::NotFound);
    door.unlink("00/old").unwrap();
    let file = door.create("00/a").unwrap();
    assert_eq!(door.create("00/a").err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    write_full(&*file, b"body", 4096).unwrap();
    write_full(&*file, b"head", 0).unwrap();
    assert_eq!(door.length("00/a").unwrap(), 4100);
    let again = door.open("00/a", Access::Read).unwrap();
    assert!(again.write_at(b"x", 0).is_err());
    file.set_length(5000).unwrap();
    assert_eq!(door.length("00/a").unwrap(), 5000);
    file.set_length(4100).unwrap();
    assert_eq!(door.length("00/a").unwrap(), 4100);
    assert!(again.set_length(0).is_err());
    door.unlink("00/a").unwrap();
    assert_eq!(door.unlink("00/a").unwrap_err().kind(), io::ErrorKind::NotFound);
    let mut buffer = [0; 5000];
    assert_eq!(read_full(&*again, &mut buffer, 0).unwrap(), 4100);
    assert_eq!((&buffer[..5], &buffer[4096..4100]), (&b"head\0"[..], &b"body"[..]));
    assert_eq!(read_full(&*again, &mut buffer, 9999).unwrap(), 0);
    assert_eq!(door.open("00/a", Access::Read).err().unwrap().kind(), io::ErrorKind::NotFound);
    for name in ["00/b", "00/c", "00/d"] {
        door.create(name).unwrap();
    }
    let mut names = door.list("00", 99).unwrap();
    names.sort();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!(door.list("00", 2).unwrap().len(), 2);
    assert_eq!(door.list("", 9).unwrap(), ["00"]);
    assert!(door.list("01", 2).is_err());
    door.make_folder("00/sub").unwrap();
    let full = door.remove_folder("00").unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::DirectoryNotEmpty);
    door.remove_folder("00/sub").unwrap();
    assert_eq!(door.remove_folder("00/sub").unwrap_err().kind(), io::ErrorKind::NotFound);
    for access in [MappedAccess::Calls, MappedAccess::Memory, MappedAccess::RandomMemory] {
        maps(door, access);
    }
    assert!(door.space().unwrap().block_bytes > 0);
    door.sync().unwrap();
}

fn maps(door: &dyn FileSystem, access: MappedAccess) {
    let mapping = door.map_for("mapped", 3 * 8192, access).unwrap();
    assert_eq!(door.length("mapped").unwrap(), 3 * 8192);
    mapping.write(&[7; 8192], 8192).unwrap();
    let mut buffer = [1; 8193];
    mapping.read(&mut buffer, 8191).unwrap();
    assert_eq!((buffer[0], buffer[1], buffer[8192]), (0, 7, 7));
    assert!(mapping.is_resident(8192));
    for beyond in [2 * 8192, 3 * 8192, u64::MAX] {
        assert!(mapping.read(&mut buffer, beyond).is_err());
        assert!(mapping.write(&buffer, beyond).is_err());
    }
    drop(mapping);
    let again = door.map_for("mapped", 3 * 8192, access).unwrap();
    again.read(&mut buffer[..1], 2 * 8192 - 1).unwrap();
    assert_eq!(buffer[0], 7);
    let other_length = door.map_for("mapped", 8192, access).err().unwrap();
    assert_eq!(other_length.kind(), io::ErrorKind::InvalidInput);
    door.unlink("mapped").unwrap();
}
