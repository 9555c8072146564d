//! What the golden stores in `tests/golden/kinds` hold: records of every kind and with every flag, those of capabilities that are not built
//! yet among them.

use alloc::format;
use alloc::string::String;
use pipkin::{Db, Error};

/// The namespace beside the default one.
pub const SPACE: &str = "named";
/// Keys of both namespaces whose records every build reads.
pub const READABLE: [&str; 3] = ["plain", "with an origin", "written twice"];
/// Keys of both namespaces whose records this build carries, and answers with a clear error.
pub const CARRIED: [&str; 3] = ["compressed", "with more flags", "with everything"];
/// A key of both namespaces whose record expires one day, and its value.
pub const EXPIRES: (&str, &str) = ("expires far off", "until then");
/// Keys that were removed or have expired, in every way that there is.
pub const REMOVED: [&str; 5] = ["removed", "expired", "expired long ago", "removed with an origin", "removed with more flags"];
/// Numbers of the events.
pub const EVENTS: [u64; 3] = [1, 2, 3];
/// The one of [`CARRIED`] that a build with compression reads.
pub const COMPRESSED: &str = "compressed";
/// Number of the event of which retention left a stub.
pub const STUB: u64 = 4;

/// The value of a record in [`READABLE`].
pub fn value_of(space: &str, key: &str) -> String {
    format!("the value of {key} in {space:?}")
}

/// Fails unless the engine reads what it knows of such a store, and says of the rest what it is.
pub fn check_kinds(db: &Db) -> Result<(), String> {
    for space in ["", SPACE] {
        let get = |key: &str| match space {
            "" => db.get(key),
            name => db.namespace(name).and_then(|space| space.get(key)),
        };
        for key in READABLE {
            let found = get(key).map_err(|error| format!("{space:?} {key}: {error}"))?;
            if found.as_deref() != Some(value_of(space, key).as_bytes()) {
                return Err(format!("{space:?} {key}: {found:?}"));
            }
        }
        let found = get(EXPIRES.0).map_err(|error| format!("{space:?} {}: {error}", EXPIRES.0))?;
        if found.as_deref() != Some(EXPIRES.1.as_bytes()) {
            return Err(format!("{space:?} {}: {found:?}", EXPIRES.0));
        }
        for key in CARRIED {
            match get(key) {
                Err(Error::Unsupported { .. }) => {}
                // A build that knows the codec.
                Ok(Some(value)) if key == COMPRESSED && value == b"a value in one block" => {}
                other => return Err(format!("{space:?} {key}: {other:?} where the build should say what it does not know")),
            }
        }
        for key in REMOVED {
            if let Some(found) = get(key).map_err(|error| format!("{space:?} {key}: {error}"))? {
                return Err(format!("{space:?} {key}: it was removed, and {found:?} came back"));
            }
        }
    }
    let keys = |count: Result<u64, Error>| count.map_err(|error| format!("len: {error}"));
    let named = db.namespace(SPACE).map_err(|error| format!("namespace: {error}"))?;
    let expected = (READABLE.len() + CARRIED.len() + 1) as u64;
    match (keys(db.len())?, keys(named.len())?) {
        (one, other) if one == expected && other == expected => Ok(()),
        found => Err(format!("{found:?} keys instead of {expected} in both namespaces")),
    }
}
