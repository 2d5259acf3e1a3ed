//! A block device that grows while the node has it open: a loop device, which needs root.

use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};
use std::fs::File;
use std::process::Command;
use tempfile::TempDir;

/// Loop device over a sparse file, detached on drop.
struct Loop {
    path: String,
    image: File,
    _folder: TempDir,
}

impl Loop {
    /// Makes a loop device. Prints a note and returns `None` if the machine allows none.
    fn new(bytes: u64) -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("image");
        let image = File::create(&path).expect("made");
        image.set_len(bytes).expect("a sparse file");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
        let output = output.inspect_err(|error| eprintln!("skipped: losetup cannot be run: {error}")).ok()?;
        if !output.status.success() {
            eprintln!("skipped: no loop device: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(Self { path, image, _folder: folder })
    }

    /// Enlarges the device under its users.
    fn enlarge(&self, bytes: u64) {
        self.image.set_len(bytes).expect("a sparse file");
        let status = Command::new("losetup").args(["--set-capacity", &self.path]).status();
        assert!(status.is_ok_and(|status| status.success()), "losetup --set-capacity");
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

const OBJECTS: usize = 100;

/// Returns the number of objects for which the origin is asked now. Each must have its bytes.
fn fetched(shoal: &Shoal, origin: &Origin, objects: usize) -> usize {
    let before = origin.total();
    for number in 0..objects {
        let path = format!("/{number}");
        let came = shoal.get(&path);
        assert!(came.status == 200 && came.body == body(&path, 50_000), "{path}: {}", came.status);
    }
    origin.total() - before
}

#[test]
fn device_that_grows_gets_a_larger_volume() {
    // The index is copied, or made anew for more objects.
    for max_objects in [20_000, 0] {
        grow(max_objects);
    }
}

fn grow(max_objects: i64) {
    let Some(device) = Loop::new(32 << 20) else { return };
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(body(request.path(), 50_000), 86_400));
    let setup = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.admission", "always");
    let setup = setup.set("store.max_objects", max_objects);
    let mut shoal = setup.disks(&[(&device.path, "32 MiB")]).start();
    assert_eq!(fetched(&shoal, &origin, OBJECTS), OBJECTS);
    shoal.wait_until_written();
    let reload = |shoal: &mut Shoal, from: &str, to: &str| {
        shoal.change(|text| text.replace(from, to));
        shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    };
    device.enlarge(96 << 20);
    reload(&mut shoal, "32 MiB", "96 MiB");
    let disk = |shoal: &Shoal| shoal.status()["store"]["disks"][0].clone();
    wait::until("the volume has grown", || shoal.log().contains("the volume has changed its size"));
    wait::until("the disk serves", || disk(&shoal)["service"] == "in_service");
    if max_objects == 0 {
        wait::until("the index is complete", || shoal.log().contains("the end of the log has been found"));
    }
    assert_eq!(fetched(&shoal, &origin, OBJECTS), 0, "no object is lost, {max_objects}");
    // The new part takes objects: more than there was room for.
    assert_eq!(fetched(&shoal, &origin, 700), 700 - OBJECTS);
    shoal.wait_until_written();
    assert_eq!(fetched(&shoal, &origin, 700), 0, "all have room");
    shoal.restart_and_find_all();
    assert_eq!(fetched(&shoal, &origin, 700), 0, "after a restart");
}
