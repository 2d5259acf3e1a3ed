//! A block device as a disk of the store: a loop device, which needs root.

use super::store::{DISKS, check, filled_with};
use super::*;

/// Loop device over a file of zeros, detached on drop.
struct Loop {
    path: String,
    _folder: TempDir,
}

impl Loop {
    /// Makes a loop device. Prints a note and returns `None` if the machine allows none.
    fn new(bytes: u64) -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let image = folder.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("made");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        match output {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Some(Self { path, _folder: folder })
            }
            Ok(output) => {
                eprintln!("skipped: no loop device here: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("skipped: losetup cannot be run: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn a_device_is_a_disk_without_a_file_system() {
    let Some(device) = Loop::new(32 << 20) else { return };
    let configuration = DISKS.replace("\"d2\"", &format!("{:?}", device.path));
    let (mut node, origin) = filled_with(&configuration);
    check(&node, origin, true);
    let run = |node: &Node, arguments: &[&str]| {
        let output = node.command(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = run(&node, &["store", "format", "--erase", &device.path]);
    assert_eq!(code, Some(1));
    assert!(why.contains("in use by another process"), "{why}");

    node.signal(Signal::TERM);
    assert_eq!(exit_code(&mut node.child), Some(0), "{}", node.error_log());
    check(&node, origin, false);
    let (code, why) = run(&node, &["store", "format", &device.path]);
    assert_eq!(code, Some(1));
    assert!(why.contains("holds a store of Shoal") && why.contains("--erase"), "{why}");
    assert_eq!(run(&node, &["store", "format", "--erase", &device.path]).0, Some(0));
    let (code, why) = run(&node, &["store", "info", "--store", &device.path]);
    assert_eq!(code, Some(1));
    assert!(why.contains("there is no store of Shoal here"), "{why}");
}

#[test]
fn a_device_that_holds_a_file_system_is_left_alone() {
    let Some(device) = Loop::new(32 << 20) else { return };
    let write = |bytes: &[u8]| {
        let file = std::fs::File::options().write(true).open(&device.path).expect("a device");
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 1080).expect("written");
    };
    write(b"\x53\xef");
    let configuration = DISKS.replace("\"d2\"", &format!("{:?}", device.path));
    let node = Node::start_with(&configuration);
    node.wait_for_log("it holds an ext2, ext3 or ext4 file system");
    node.wait_for_log("shoal store format --erase");
    let mut found = [0; 2];
    let file = std::fs::File::open(&device.path).expect("a device");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, 1080).expect("read");
    assert_eq!(&found, b"\x53\xef");
}
