//! `shoal argon2`.

use crate::shoal;

#[test]
fn the_vector_of_the_rfc() {
    let dir = tempfile::tempdir().unwrap();
    let call = |more: &[&str]| {
        let password = "01".repeat(32);
        let salt = "02".repeat(16);
        let secret = "03".repeat(8);
        let ad = "04".repeat(12);
        let mut args = vec![
            "argon2",
            "--memory-kib",
            "32",
            "--passes",
            "3",
            "--lanes",
            "4",
            "--password-hex",
            &password,
            "--salt-hex",
            &salt,
            "--secret-hex",
            &secret,
            "--ad-hex",
            &ad,
        ];
        args.extend(more);
        shoal(dir.path(), &args).ok()
    };
    assert_eq!(
        call(&["--type", "id"]),
        "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659\n"
    );
    assert_eq!(
        call(&["--type", "d", "--version", "0x10", "--format", "json"]),
        "{\"tag\":\"96a9d4e5a1734092c85e29f410a45914a5dd1f5cbf08b2670da68a0285abf32b\"}\n"
    );
    assert_eq!(call(&["--tag-length", "4"]).len(), 9);
}

#[test]
fn refusals() {
    let dir = tempfile::tempdir().unwrap();
    let call = |memory: &str, salt: &str| {
        shoal(
            dir.path(),
            &[
                "argon2",
                "--memory-kib",
                memory,
                "--passes",
                "1",
                "--lanes",
                "1",
                "--password-hex",
                "",
                "--salt-hex",
                salt,
            ],
        )
        .error()
    };
    assert!(call("8", "0g").contains("--salt-hex: not a hexadecimal digit at offset: 1"));
    assert!(call("7", "0102030405060708").contains("memory"));
    assert!(call("8", "01").contains("salt"));
}
