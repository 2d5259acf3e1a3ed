//! `shoal status` and `shoal doctor` without a node: verdicts, exit codes, variables.

use super::*;

/// Monitoring plugins read standard output: 2 is critical, 3 is unknown.
#[test]
fn status_exit_codes_are_those_of_plugins() {
    let folder = TempDir::new().expect("a folder");
    let address = format!("unix:{}/absent.sock", folder.path().display());
    let absent = shoal(&["status", "--admin", &address]);
    assert_eq!((absent.status.code(), stderr(&absent)), (Some(2), ""));
    assert!(stdout(&absent).starts_with("bad ") && stdout(&absent).contains(&address), "{absent:?}");
    let absent = shoal(&["status", "--admin", &address, "--json"]);
    let value: serde_json::Value = serde_json::from_str(stdout(&absent)).expect("JSON");
    assert_eq!(
        (absent.status.code(), &value["verdict"], &value["code"]),
        (Some(2), &"bad".into(), &2.into())
    );
    for arguments in [
        &["status", "--admin", "nowhere"][..],
        &["status", "--colour"],
        &["status", "--admin", &address, "--user", "ann"],
        &["doctor", "--config", "/absent/shoal.toml"],
        &["doctor", "--colour"],
    ] {
        assert_eq!(shoal(arguments).status.code(), Some(3), "{arguments:?}");
    }
    assert_eq!(shoal(&["status", "--help"]).status.code(), Some(0));
    assert_eq!(shoal(&["status", "--health", "--admin", &address]).status.code(), Some(1));
}

#[test]
fn variables_name_the_node_and_its_user() {
    let folder = TempDir::new().expect("a folder");
    let status = |variables: &[(&str, &str)]| {
        let mut command = command(&["status"]);
        let output =
            command.current_dir(folder.path()).envs(variables.iter().copied()).output().expect("runs");
        (output.status.code(), stdout(&output).to_owned())
    };
    let (code, told) = status(&[("SHOAL_ADMIN_URL", "unix:absent.sock")]);
    assert!(code == Some(2) && told.contains("unix:absent.sock"), "{told}");
    let (code, told) = status(&[("SHOAL_ADMIN_URL", "ftp://a")]);
    assert!(code == Some(3) && told.contains("SHOAL_ADMIN_URL: \"ftp\" is neither"), "{told}");
    let user = [("SHOAL_ADMIN_URL", "http://cache.test"), ("SHOAL_ADMIN_USER", "ann")];
    let (code, told) = status(&user);
    assert!(code == Some(3) && told.contains("SHOAL_ADMIN_PASSWORD_FILE"), "{told}");
    std::fs::write(folder.path().join("password"), "secret").expect("written");
    let (code, told) = status(&[user[0], user[1], ("SHOAL_ADMIN_PASSWORD_FILE", "password")]);
    assert!(code == Some(3) && told.contains("in clear to cache.test:3129"), "{told}");
}

/// Permissions, limits and ports are judged without a node.
#[test]
fn doctor_examines_settings_without_a_node() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("bound");
    let secret = folder.path().join("users");
    std::fs::write(&secret, "ann:secret\n").expect("written");
    let mode = |mode: u32| std::fs::set_permissions(&secret, PermissionsExt::from_mode(mode)).expect("set");
    let text = format!(
        "[[listen]]\naddress = \"{address}\"\nmode = \"forward\"\n[forward]\nusers_file = {secret:?}\n\
         [store]\ndirectory = {:?}\ndisk = \"20 MB\"\n[admin]\nlisten = \"unix:{}/admin.sock\"\n",
        folder.path(),
        folder.path().display()
    );
    let path = file(&folder, &text);
    mode(0o644);
    let output = shoal(&["doctor", "--config", name(&path)]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(2), ""));
    let told = stdout(&output);
    assert!(told.starts_with("bad: 2 bad, "), "{told}");
    for part in [
        "bad  forward.users_file: every user of this machine may use",
        "bad  listen[0].address = 127.0.0.1:",
        "is taken by another process — `ss -ltnp",
        "ok   no node runs at unix:",
        "open files: ",
        "memory: cache.ram = ",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    mode(0o600);
    drop(taken);
    let output = shoal(&["doctor", "--config", name(&path), "--json"]);
    let value: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let findings = value["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|finding| finding["level"] != "bad"), "{value}");
    assert_eq!(output.status.code().map(i64::from), value["code"].as_i64());
    let quiet = shoal(&["doctor", "--config", name(&path), "--quiet", "--offline"]);
    assert!(!stdout(&quiet).contains("\nok "), "{quiet:?}");
    let wrong = file(&folder, &text.replace("ann", "x").replace("users\"", "absent\""));
    let output = shoal(&["doctor", "--config", name(&wrong), "--offline"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stdout(&output).contains("bad  settings: ") && stdout(&output).contains("is not there"),
        "{output:?}"
    );
}
