//! The user that data planes are: what the documentation gives them, and nothing else.

use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

/// The page with the rule, so that what is tested is what people are told.
const PAGE: &str = include_str!("../../../docs/coordination.md");

/// A user of the server's ACL, and the file with its password as a data plane reads it.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: String,
    password: String,
    pattern: String,
    directory: TempDir,
}

impl User {
    /// A name and a password that nobody else has. `pattern` is that of the keys.
    pub(super) fn new(pattern: String) -> io::Result<Self> {
        let user = Self {
            name: format!("jevmetrics-{:08x}", fastrand::u32(..)),
            password: format!("{:032x}", fastrand::u128(..)),
            pattern,
            directory: tempfile::tempdir()?,
        };
        user.write_password(&user.password)?;
        Ok(user)
    }

    /// The rule behind `ACL SETUSER`.
    pub(super) fn rule(&self) -> String {
        format!(
            "{} reset on >{} {} resetchannels {}",
            self.name,
            self.password,
            self.pattern,
            documented_rights().join(" ")
        )
    }

    pub(super) fn password_file(&self) -> PathBuf {
        self.directory.path().join("password")
    }

    /// By rename, as Kubernetes does it.
    pub(super) fn write_password(&self, password: &str) -> io::Result<()> {
        let next = self.directory.path().join("next");
        std::fs::write(&next, password)?;
        std::fs::rename(next, self.password_file())
    }
}

/// `-@all` and what is given after it, from the page.
pub(super) fn documented_rights() -> Vec<&'static str> {
    let rule = PAGE
        .split("ACL SETUSER")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let is_right = |word: &&str| word.starts_with('+') || word.starts_with("-@");
    rule.unwrap_or_default()
        .split_whitespace()
        .filter(is_right)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::documented_rights;

    #[test]
    fn the_page_takes_all_rights_and_gives_some() {
        let rights = documented_rights();
        assert_eq!(rights[0], "-@all");
        for right in ["+evalsha", "+eval", "+pexpire", "+zremrangebyscore", "+mget"] {
            assert!(rights.contains(&right), "{rights:?}");
        }
        assert!(
            rights[1..].iter().all(|right| right.starts_with('+')),
            "{rights:?}"
        );
    }
}
