//! `shoal import` of workbooks: one content in four formats, hostile files, and builds without.
//! `tests/workbooks/make.py` made the files.

use std::path::{Path, PathBuf};

use crate::shoal;

fn book(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workbooks").join(format!("book.{kind}"))
}

#[cfg(feature = "excel")]
mod built {
    use std::io::Write;

    use super::*;
    use crate::Finished;

    const KINDS: [&str; 4] = ["xlsx", "xlsb", "xls", "ods"];

    fn ask(dir: &Path, file: &str, sql: &str) -> String {
        shoal(dir, &["sql", file, "--format", "list", sql]).ok()
    }

    fn import(dir: &Path, kind: &str, args: &[&str]) -> Finished {
        let path = book(kind);
        shoal(dir, &[&["import", path.to_str().unwrap()], args].concat())
    }

    #[test]
    fn sheets_become_tables() {
        let dir = tempfile::tempdir().unwrap();
        for kind in KINDS {
            let file = format!("{kind}.db");
            let told = import(dir.path(), kind, &[&file]);
            assert!(told.stderr.contains("people: 2 cells with errors are NULL"), "{told:?}");
            assert!(told.stderr.contains("left out: hidden sheets secret"), "{told:?}");
            told.ok();
            assert_eq!(
                ask(dir.path(), &file, "SELECT sql FROM sqlite_schema"),
                "CREATE TABLE \"people\"(\n\"name\" TEXT, \"born\" TEXT, \"seen\" TEXT, \"score\" REAL, \
                 \"zip\" TEXT, \"active\" INTEGER, \"ratio\" REAL)\n\
                 CREATE TABLE \"place\"(\n\"city\" TEXT, \"size\")\n",
                "{kind}"
            );
            let sql = "SELECT name, born, replace(seen, ' 00:00:00', ''), score, zip, active, ratio \
                       FROM people";
            assert_eq!(
                ask(dir.path(), &file, sql),
                "Ada|2001-12-10|2024-02-29 12:30:00|1.0|02134|1|0.5\n\
                 Emmy|1982-03-23||2.5|10001|0|\n\u{c9}va, jr||2024-03-01|-3.0|00501|1|\n",
                "{kind}"
            );
            let sql = "SELECT city, size, typeof(size) FROM place";
            assert_eq!(
                ask(dir.path(), &file, sql),
                "Oslo|7|integer\nBergen|large|text\n",
                "{kind}"
            );
            // The rows of a second import stand behind the first ones.
            import(dir.path(), kind, &["--sheet", "PLACE", &file]).ok();
            assert_eq!(ask(dir.path(), &file, "SELECT count(*), sum(size) FROM place"), "4|14.0\n");
        }
    }

    #[test]
    fn a_sheet_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for kind in KINDS {
            let file = format!("{kind}.db");
            import(dir.path(), kind, &["--sheet", "secret", &file, "t"]).ok();
            assert_eq!(
                ask(dir.path(), &file, "SELECT k, typeof(k) FROM t"),
                "1|integer\n",
                "{kind}"
            );
            // Without a header columns are numbered, and go by their order into a table.
            import(dir.path(), kind, &["--sheet", "secret", "--header", "no", &file, "u"]).ok();
            assert_eq!(ask(dir.path(), &file, "SELECT column1 FROM u"), "k\n1\n", "{kind}");
            import(dir.path(), kind, &["--sheet", "secret", "--header", "no", &file, "t"]).ok();
            assert_eq!(ask(dir.path(), &file, "SELECT count(*) FROM t"), "3\n", "{kind}");
            for (args, expect) in [
                (&["--sheet", "none", "e.db"][..], "no sheet is called none"),
                (&["e.db", "t"], "one table, and the sheets people, place"),
                (&["--sheet", "blank", "e.db"], "there is no row"),
                (&["--sheet", "people", &file, "t"], "table t has no column named name"),
                (
                    &["--sheet", "people", "--types", "zip=integer", "e.db"],
                    "row 2, column zip: not of type INTEGER: \"02134\"",
                ),
            ] {
                let told = import(dir.path(), kind, args);
                assert_ne!(told.code, 0, "{kind} {args:?}");
                assert!(told.stderr.contains(expect), "{kind} {args:?}: {}", told.stderr);
            }
            assert!(!dir.path().join("e.db").exists());
        }
        std::fs::write(dir.path().join("a.csv"), "a\n1\n").unwrap();
        let told = shoal(dir.path(), &["import", "--sheet", "x", "a.csv", "a.db"]);
        assert!(told.stderr.contains("--sheet names a sheet of a workbook"), "{told:?}");
    }

    /// Damaged bytes end in rows or in a sentence, never in a hang, an abort or a new database.
    #[test]
    fn damaged_workbooks() {
        let dir = tempfile::tempdir().unwrap();
        for kind in KINDS {
            let whole = std::fs::read(book(kind)).unwrap();
            let name = format!("bad.{kind}");
            for place in 0..24 {
                let mut bytes = whole.clone();
                let at = place * bytes.len() / 24;
                bytes[at..].iter_mut().take(5).for_each(|byte| *byte ^= 0x5a);
                std::fs::write(dir.path().join(&name), bytes).unwrap();
                let told = shoal(dir.path(), &["import", &name, "bad.db"]);
                match told.code {
                    0 => std::fs::remove_file(dir.path().join("bad.db")).unwrap(),
                    1 => assert!(told.stderr.contains("error: bad."), "{}", told.stderr),
                    other => panic!("{kind} at {at}: {other:?} {}", told.stderr),
                }
                assert!(!dir.path().join("bad.db").exists(), "{kind} at {at}");
            }
            std::fs::write(dir.path().join(&name), &whole[..whole.len() / 2]).unwrap();
            assert_eq!(shoal(dir.path(), &["import", &name, "bad.db"]).code, 1);
        }
    }

    /// A zip archive.
    fn package(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, data) in entries {
            let mut sum = flate2::Crc::new();
            sum.update(data);
            let mut deflated =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            deflated.write_all(data).unwrap();
            let mut deflated = deflated.finish().unwrap();
            let mut head = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
            // OpenDocument's first entry is as it stands, so that a file shows its kind.
            if *name == "mimetype" {
                (deflated, head[4]) = (data.to_vec(), 0);
            }
            head.extend(sum.sum().to_le_bytes());
            head.extend((deflated.len() as u32).to_le_bytes());
            head.extend((data.len() as u32).to_le_bytes());
            head.extend((name.len() as u16).to_le_bytes());
            head.extend([0, 0]);
            let start = file.len() as u32;
            file.extend(b"PK\x03\x04");
            file.extend(&head);
            file.extend(name.as_bytes());
            file.extend(deflated);
            directory.extend(b"PK\x01\x02\x14\0");
            directory.extend(&head);
            directory.extend([0; 10]);
            directory.extend(start.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let (start, length) = (file.len() as u32, directory.len() as u32);
        file.extend(directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend((entries.len() as u16).to_le_bytes().repeat(2));
        file.extend(length.to_le_bytes());
        file.extend(start.to_le_bytes());
        file.extend([0, 0]);
        file
    }

    fn xlsx(sheet: &[u8], strings: &[u8]) -> Vec<u8> {
        let types = b"<Types/>";
        let relation = br#"<Relationships><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
        let workbook = br#"<workbook xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>"#;
        let relations = br#"<Relationships><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;
        package(&[
            ("[Content_Types].xml", types),
            ("_rels/.rels", relation),
            ("xl/workbook.xml", workbook),
            ("xl/_rels/workbook.xml.rels", relations),
            ("xl/worksheets/sheet1.xml", sheet),
            ("xl/sharedStrings.xml", strings),
        ])
    }

    fn ods(rows: &str) -> Vec<u8> {
        let content = format!(
            "<office:document-content><office:body><office:spreadsheet><table:table table:name=\"s\">{rows}\
             </table:table></office:spreadsheet></office:body></office:document-content>"
        );
        package(&[
            ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
            ("META-INF/manifest.xml", b"<manifest:manifest/>"),
            ("content.xml", content.as_bytes()),
        ])
    }

    /// Small files that ask for much: far cells, counts without items, repeated rows and texts.
    #[test]
    fn bombs() {
        let dir = tempfile::tempdir().unwrap();
        let cell = |place: &str| format!("<c r=\"{place}\"><v>1</v></c>");
        let sheet = |rows: &str| format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
        let import = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            let started = std::time::Instant::now();
            let told = shoal(dir.path(), &["import", "--header", "no", name, "b.db", "t"]);
            assert!(started.elapsed().as_secs() < 120, "{name}: {:?}", started.elapsed());
            let found = match told.code {
                0 => ask(dir.path(), "b.db", "SELECT count(*), sum(column1) FROM t"),
                _ => told.stderr,
            };
            let _ = std::fs::remove_file(dir.path().join("b.db"));
            found
        };
        // Two cells in opposite corners are two rows, not 17,179,869,184 cells.
        let far = format!(
            "<row r=\"1\">{}</row><row r=\"1048576\">{}</row>",
            cell("A1"),
            cell("XFD1048576")
        );
        assert_eq!(import("far.xlsx", &xlsx(sheet(&far).as_bytes(), b"<sst/>")), "2|1\n");
        let back = format!("<row r=\"2\">{}</row><row r=\"1\">{}</row>", cell("A2"), cell("A1"));
        let told = import("back.xlsx", &xlsx(sheet(&back).as_bytes(), b"<sst/>"));
        assert!(told.contains("row 1 stands behind 2"), "{told}");
        let one = sheet(&format!("<row r=\"1\">{}</row>", cell("A1")));
        let counted = b"<sst uniqueCount=\"99999999999\"></sst>";
        let told = import("counted.xlsx", &xlsx(one.as_bytes(), counted));
        assert!(told.contains("its reader gave up"), "{told}");
        // One text of 100 kB, named by 20,000 cells.
        let text = format!("<sst><si><t>{}</t></si></sst>", "x".repeat(100_000));
        let named: String = (1..=20_000)
            .map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\" t=\"s\"><v>0</v></c></row>"))
            .collect();
        let told = import("named.xlsx", &xlsx(sheet(&named).as_bytes(), text.as_bytes()));
        assert!(told.contains("texts are far longer than the file"), "{told}");
        let row = "<table:table-row table:number-rows-repeated=\"1048576\"><table:table-cell \
                   office:value=\"1\" office:value-type=\"float\" \
                   table:number-columns-repeated=\"16384\"/></table:table-row>";
        let told = import("rows.ods", &ods(row));
        assert!(told.contains("error: rows.ods: "), "{told}");
        let row = row.replace("\"16384\"", "\"90\"");
        let told = import("fewer.ods", &ods(&row));
        assert!(told.contains("its reader gave up"), "{told}");
        let row = row.replace("\"1048576\"", "\"3\"");
        assert_eq!(import("few.ods", &ods(&row)), "3|3\n");
        let told = import("none.xlsx", b"PK\x03\x04 and no package");
        assert!(told.contains("error: none.xlsx: "), "{told}");
    }
}

#[cfg(not(feature = "excel"))]
#[test]
fn a_build_without_workbooks_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let told = shoal(dir.path(), &["import", book("xlsx").to_str().unwrap(), "a.db"]);
    assert_eq!(told.code, 1);
    assert!(told.stderr.contains("workbooks are not in this build"), "{}", told.stderr);
    assert!(told.stderr.contains("--features excel"), "{}", told.stderr);
    assert!(!dir.path().join("a.db").exists());
}
