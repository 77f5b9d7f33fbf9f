//! `shoal flight`: the command, and ADBC's driver of Flight SQL from pip. Builds without the
//! feature `flight` say so.

use std::path::Path;

use super::shoal;

fn sample(dir: &Path) {
    shoal(
        dir,
        &[
            "sql",
            "t.db",
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, tag)",
            "INSERT INTO item VALUES (1, 'bolt', 0.5, 'a'), (2, 'nut', NULL, 7), (3, 'żuraw', 2.5, NULL)",
            "CREATE TABLE secret (n INTEGER)",
        ],
    )
    .ok();
}

#[cfg(not(feature = "flight"))]
#[test]
fn a_build_without_the_server_says_so() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let said = shoal(folder.path(), &["flight", "t.db"]).error();
    assert!(said.contains("built without its Flight SQL server"), "{said}");
    assert!(said.contains("--features flight"), "{said}");
}

#[cfg(feature = "flight")]
mod with {
    use std::io::{self, BufRead, BufReader, Write};
    use std::path::{Path, PathBuf};
    use std::process::{Child, ChildStderr, Command, Output, Stdio};
    use std::{env, fs};

    use tempfile::tempdir;

    use super::sample;
    use crate::shoal;

    /// A server on a free port; killed when dropped.
    struct Server {
        child: Child,
        address: String,
        stderr: BufReader<ChildStderr>,
    }

    impl Server {
        fn start(dir: &Path, args: &[&str]) -> Server {
            let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
                .args(["flight", "t.db", "--listen", "127.0.0.1:0"])
                .args(args)
                .current_dir(dir)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stderr = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            let address = line.trim().split_once("Flight SQL at ").expect(&line).1.to_owned();
            Server { child, address, stderr }
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_command_line_that_is_wrong_is_refused() {
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        let said = shoal(dir, &["flight", "none.db"]).error();
        assert!(said.contains("none.db: no such file"), "{said}");
        let said = shoal(dir, &["flight", "t.db", "--listen", "0.0.0.0:0"]).error();
        assert!(said.contains("other machines") && said.contains("--token-file"), "{said}");
        fs::write(dir.join("token"), "short\n").unwrap();
        let said = shoal(dir, &["flight", "t.db", "--token-file", "token"]).error();
        assert!(said.contains("at least 16"), "{said}");
        fs::write(dir.join("rules.json"), r#"{"principals": {"ada": {"item": {}}}}"#).unwrap();
        let eve = ["flight", "t.db", "--as", "eve", "--rules", "rules.json"];
        let said = shoal(dir, &eve).error();
        assert!(said.contains("rules.json: nothing is granted to eve"), "{said}");
        for wrong in [
            &["flight", "t.db", "--timeout", "0"][..],
            &["flight", "t.db", "--as", "ada"],
            &["flight", "t.db", "--rules", "rules.json"],
            &["flight", "t.db", "--tokens", "tokens.json"],
            &["flight", "t.db", "--tls-cert", "cert.pem"],
            &["flight", "t.db", "--statements", "0"],
        ] {
            assert_eq!(shoal(dir, wrong).code, 2, "{wrong:?}");
        }
        fs::write(dir.join("key"), "a key of the tests\n").unwrap();
        let kdf = ["encrypt", "t.db", "--new-key-file", "key", "--kdf-time", "0"];
        shoal(dir, &kdf).ok();
        assert_eq!(shoal(dir, &["flight", "t.db"]).code, 10);
    }

    #[cfg(unix)]
    #[test]
    fn a_signal_ends_it() {
        let folder = tempdir().unwrap();
        sample(folder.path());
        let mut server = Server::start(folder.path(), &[]);
        let id = server.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(server.child.wait().unwrap().success());
        let mut said = String::new();
        server.stderr.read_line(&mut said).unwrap();
        assert_eq!(said, "stopping\n");
    }

    /// A folder of Python with the packages of the client; says so aloud where they cannot be had.
    fn installed() -> Option<PathBuf> {
        let skip = |why: &str| {
            // Past the capture of what passing tests print.
            writeln!(io::stderr(), "adbc_client: skipped: {why}").expect("stderr is open");
            None
        };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flight");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flight");
        let wanted = fs::read(sources.join("requirements.txt")).unwrap();
        let is_there = fs::read(folder.join("installed")).is_ok_and(|found| found == wanted);
        if !is_there {
            let run = |program: &Path, args: &[&str]| -> Result<(), String> {
                match Command::new(program).args(args).output() {
                    Ok(output) if output.status.success() => Ok(()),
                    Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                    Err(error) => Err(format!("{}: {error}", program.display())),
                }
            };
            let place = folder.to_str().unwrap();
            let requirements = sources.join("requirements.txt");
            let requirements = requirements.to_str().unwrap();
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            let made =
                run(Path::new("python3"), &["-m", "venv", "--clear", place]).and_then(|()| {
                    run(&folder.join("bin/python"), &[&pip[..], &["-r", requirements]].concat())
                });
            if let Err(why) = made {
                return skip(&why);
            }
            fs::write(folder.join("installed"), wanted).unwrap();
        }
        Some(folder.join("bin/python"))
    }

    fn client(python: &Path, args: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flight/client.py");
        Command::new(python).arg(script).args(args).output().unwrap()
    }

    fn is_well(output: &Output) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(text(&output.stdout), "all well\n");
    }

    /// The driver that data frames and tools for people are made with.
    #[test]
    fn an_unmodified_adbc_driver_uses_it() {
        let Some(python) = installed() else { return };
        let folder = tempdir().unwrap();
        let dir = folder.path();
        sample(dir);
        let server = Server::start(dir, &[]);
        is_well(&client(&python, &[&server.address]));
        drop(server);
        // The same file sealed, and narrowed to a principal.
        fs::write(dir.join("key"), "a key of the tests\n").unwrap();
        let kdf = ["encrypt", "t.db", "--new-key-file", "key", "--kdf-time", "0"];
        shoal(dir, &kdf).ok();
        let rules = r#"{"principals": {"ada": {"item": {"rows": "price IS NOT NULL"}}}}"#;
        fs::write(dir.join("rules.json"), rules).unwrap();
        let token = shoal(dir, &["token", "new", "tokens.json", "--as", "ada"]).ok();
        let narrowed = ["--tokens", "tokens.json", "--rules", "rules.json", "--key-file", "key"];
        let server = Server::start(dir, &narrowed);
        is_well(&client(&python, &[&server.address, token.trim()]));
    }
}
