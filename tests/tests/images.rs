//! The ways to an image say the same: the scripts that `make images` runs, and the Dockerfiles, which are read here because
//! an engine that builds them is not everywhere.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PRODUCTS: [&str; 2] = ["operator", "dataplane"];
const SCRIPT: &str = "tests/images/image.sh";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Instructions of the Dockerfile of a product, each as one line of single spaces.
fn instructions(product: &str) -> Vec<String> {
    let whole = text(&format!("{product}/Dockerfile")).replace("\\\n", " ");
    let lines = whole
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// What follows `before` in the one line that has it, up to the next of these letters.
fn after<'a>(text: &'a str, before: &str, end: &[char]) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}"));
    rest.split(end).next().unwrap()
}

fn has(lines: &[String], wanted: &str) {
    assert!(
        lines.iter().any(|line| line.contains(wanted)),
        "no {wanted} in {lines:#?}"
    );
}

#[test]
fn dockerfiles_build_what_make_images_builds() {
    let (makefile, steps, script) = (text("Makefile"), text("tests/scripts/steps.sh"), text(SCRIPT));
    assert!(makefile.contains("\nIMAGE_PROFILE ?= release\n"));
    assert!(makefile.contains("write_images $(IMAGE_PROFILE) "));
    assert!(steps.contains(&format!("for name in {}; do\n", PRODUCTS.join(" "))));
    let wanted = "cargo build --locked --profile \"$1\" --target \"$static_target\" \\\n        ";
    let crates = after(&steps, wanted, &['\n']);
    let channel_file = text("rust-toolchain.toml");
    let channel = after(&channel_file, "channel = \"", &['"']);
    let packages = after(&steps, "install_packages ca-certificates", &['\n']);
    let user = after(&script, "\"User\":\"", &['"']);
    for product in PRODUCTS {
        let (name, lines) = (format!("jevmetrics-{product}"), instructions(product));
        assert_eq!(lines[0], format!("FROM rust:{channel}-bookworm AS build"));
        has(&lines, &format!("RUSTUP_TOOLCHAIN={channel} "));
        has(
            &lines,
            &format!("--no-install-recommends ca-certificates{packages}"),
        );
        has(&lines, "rustup target add \"$(uname -m)-unknown-linux-musl\"");
        for architecture in ["x86_64", "aarch64"] {
            has(&lines, &format!("CC_{architecture}_unknown_linux_musl=musl-gcc"));
        }
        has(
            &lines,
            &format!("cargo build --locked --release --target \"$target\" {crates}"),
        );
        has(
            &lines,
            &format!("install -D \"target/$target/release/{name}\" /out/{name}"),
        );
        let second = lines.iter().position(|line| line == "FROM scratch").unwrap();
        let (ends, version) = (&lines[second..], env!("CARGO_PKG_VERSION"));
        has(ends, &format!("image.title=\"{name}\""));
        has(ends, &format!("image.version=\"{version}\""));
        has(
            ends,
            "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
        );
        has(ends, &format!("COPY --from=build /out/{name} /{name}"));
        has(ends, &format!("USER {user}"));
        has(ends, &format!("ENTRYPOINT [\"/{name}\"]"));
        let manifest = text(&format!("{product}/Cargo.toml"));
        has(
            ends,
            &format!(
                "image.description=\"{}\"",
                after(&manifest, "description = \"", &['"'])
            ),
        );
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")));
        let first = text(&format!("{product}/Dockerfile"));
        assert!(first.contains(&format!(
            "docker build -f {product}/Dockerfile -t {name}:{version} .\n"
        )));
    }
}

/// Whether the build of an image sees a file: of the lines that match it or a folder that it is in, the last one counts.
fn is_sent(path: &str) -> bool {
    let ignored = text(".dockerignore");
    let mut is_sent = true;
    for line in ignored
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (pattern, sends) = line
            .strip_prefix('!')
            .map_or((line, false), |pattern| (pattern, true));
        let matches = match pattern.strip_prefix("**/") {
            Some(name) => {
                let file = path.rsplit('/').next().unwrap();
                name.strip_prefix('*')
                    .map_or(file == name, |end| file.ends_with(end))
            }
            None => pattern == "*" || path == pattern || path.starts_with(&format!("{pattern}/")),
        };
        if matches {
            is_sent = sends;
        }
    }
    is_sent
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_build_of_an_image_is_sent_all_that_it_compiles_and_nothing_else() {
    let workspace = text("Cargo.toml");
    let members = after(&workspace, "members = [", &[']']).replace(['"', ' '], "");
    let mut wanted = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned()];
    for member in members.split(',') {
        wanted.push(format!("{member}/Cargo.toml"));
        let mut sources = Vec::new();
        files(&root().join(member).join("src"), &mut sources);
        let relative = sources.iter().map(|path| path.strip_prefix(root()).unwrap());
        wanted.extend(relative.map(|path| path.to_str().unwrap().to_owned()));
    }
    assert!(wanted.len() > 100, "{wanted:?}");
    // Words may stay behind unless a source includes them.
    wanted.retain(|path| Path::new(path).extension() != Some("md".as_ref()));
    for path in &wanted {
        assert!(is_sent(path), "{path}");
    }
    for path in [
        "target/debug/x",
        ".git/HEAD",
        "docs/images.md",
        "Makefile",
        "tests/tests/images.rs",
        "operator/Dockerfile",
    ] {
        assert!(!is_sent(path), "{path}");
    }
}

/// Runs the script, which must do it.
fn image(arguments: &[&str]) {
    let output = Command::new(root().join(SCRIPT))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn unpacked(archive: &Path, file: &str) -> Vec<u8> {
    let output = Command::new("tar")
        .arg("-xOf")
        .arg(archive)
        .arg(file)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{file}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn an_image_names_its_parts_by_what_they_are_and_is_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let (program, words) = (folder.path().join("program"), folder.path().join("words"));
    fs::copy("/bin/true", &program).unwrap();
    fs::write(&words, "words").unwrap();
    let archives = [folder.path().join("one.tar"), folder.path().join("other.tar")];
    let files = [
        format!("/bin/it={}", program.display()),
        format!("/etc/words={}", words.display()),
    ];
    let other_order = [files[1].as_str(), files[0].as_str()];
    for (archive, order) in archives
        .iter()
        .zip([[files[0].as_str(), files[1].as_str()], other_order])
    {
        image(&["it:1.2", archive.to_str().unwrap(), "/bin/it", order[0], order[1]]);
        // Its date must not show.
        fs::File::open(&program)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }
    assert_eq!(fs::read(&archives[0]).unwrap(), fs::read(&archives[1]).unwrap());

    let json =
        |file: &str| serde_json::from_slice::<serde_json::Value>(&unpacked(&archives[0], file)).unwrap();
    let blob = |reference: &serde_json::Value| {
        let digest = reference["digest"]
            .as_str()
            .unwrap()
            .strip_prefix("sha256:")
            .unwrap()
            .to_owned();
        let path = format!("blobs/sha256/{digest}");
        let bytes = unpacked(&archives[0], &path);
        assert_eq!(reference["size"], bytes.len());
        let file = folder.path().join(&digest);
        fs::write(&file, bytes).unwrap();
        let sum = Command::new("sha256sum").arg(&file).output().unwrap();
        assert!(String::from_utf8(sum.stdout).unwrap().starts_with(&digest));
        (path, file)
    };
    let index = json("index.json");
    let entry = &index["manifests"][0];
    assert!(
        entry["annotations"]["io.containerd.image.name"]
            .as_str()
            .unwrap()
            .ends_with("/library/it:1.2")
    );
    let manifest = json(&blob(entry).0);
    let config = json(&blob(&manifest["config"]).0);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/bin/it"]));
    let (_, layer) = blob(&manifest["layers"][0]);
    let listed = Command::new("tar")
        .args(["--numeric-owner", "-tvzf"])
        .arg(&layer)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row[0], row[1], *row.last().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("drwxr-xr-x", "0/0", "bin/"),
            ("-rwxr-xr-x", "0/0", "bin/it"),
            ("drwxr-xr-x", "0/0", "etc/"),
            ("-rw-r--r--", "0/0", "etc/words"),
        ]
    );
}

#[test]
fn what_makes_no_image_is_refused_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("x.tar");
    let out = archive.to_str().unwrap();
    let no_program = format!("/it={}", root().join("Cargo.toml").display());
    for wrong in [
        ["it", out, "/it", "/it=/bin/true"],
        ["It:1", out, "/it", "/it=/bin/true"],
        ["it:1", out, "/it", "it=/bin/true"],
        ["it:1", out, "/it", "/it=/no/such/file"],
        ["it:1", out, "/it", "/bin/true"],
        ["it:1", out, "/other", "/it=/bin/true"],
        ["it:1", out, "/it", no_program.as_str()],
    ] {
        let output = Command::new(root().join(SCRIPT)).args(wrong).output().unwrap();
        assert!(!output.status.success(), "{wrong:?}");
        assert!(
            String::from_utf8(output.stderr).unwrap().starts_with("error: "),
            "{wrong:?}"
        );
        assert!(!archive.exists(), "{wrong:?}");
    }
}
