//! The server's page, the example and admission by work, in headless Chromium.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use tempfile::tempdir;

use super::serve::installed;

/// Chromium, named by `SHOAL_CHROMIUM` or found; says so aloud where there is none.
fn chromium() -> Option<PathBuf> {
    let named = env::var_os("SHOAL_CHROMIUM").map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome"].map(PathBuf::from);
    let mut found = named.into_iter().chain(usual).filter_map(|program| {
        let asked = Command::new("which").arg(&program).stderr(Stdio::null()).output().ok()?;
        let path = String::from_utf8(asked.stdout).ok()?;
        asked.status.success().then(|| PathBuf::from(path.trim()))
    });
    let chromium = found.next();
    if chromium.is_none() {
        // Past the capture of what passing tests print.
        writeln!(io::stderr(), "browser: skipped: there is no chromium here").expect("stderr");
    }
    chromium
}

#[test]
fn a_browser_has_the_page_the_example_and_a_ticket() {
    let Some(chromium) = chromium() else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(folder) = installed(&sources.join("tests/clients")) else { return };
    // A copy: packages are installed beside it.
    let example = sources.join("../../examples/together");
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("together");
    fs::create_dir_all(&copy).unwrap();
    let lock = fs::read(example.join("package-lock.json")).unwrap();
    if fs::read(copy.join("package-lock.json")).is_ok_and(|known| known != lock) {
        let _ = fs::remove_dir_all(copy.join("node_modules"));
    }
    for entry in fs::read_dir(&example).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let dir = tempdir().unwrap();
    let output = Command::new("node")
        .arg("browser.mjs")
        .arg(env!("CARGO_BIN_EXE_shoal"))
        .args([dir.path(), chromium.as_path(), copy.as_path()])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let done: BTreeSet<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    for case in ["page", "phone", "together", "admission"] {
        assert!(done.contains(case), "{case}: {done:?}");
    }
}
