//! A server that speaks to nobody but over TLS, with a certificate made for the occasion.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Account, PostgresServer};

/// Over the socket in its own folder everybody is let in; over the network whoever has a password,
/// and only encrypted.
const WHO_MAY: &str = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";

impl PostgresServer {
    /// Starts it again with a certificate for `name` (`IP:127.0.0.1`, `DNS:db.example`), signed by
    /// a new authority. Returns where that authority's certificate is.
    pub fn demand_tls(&mut self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name.replace(':', "-"));
        fs::create_dir(&folder)?;
        let authority = folder.join("ca.crt");
        make_certificates(&folder, name)?;
        fs::write(self.data().join("pg_hba.conf"), WHO_MAY)?;
        for file in ["server.crt", "server.key"] {
            let place = self.data().join(file);
            fs::copy(folder.join(file), &place)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o600))?;
            if let Some(Account { uid, gid }) = self.account {
                chown(&place, Some(uid), Some(gid))?;
            }
        }
        self.query("postgres", "ALTER SYSTEM SET ssl = on")?;
        self.stop()?;
        self.resume()?;
        Ok(authority)
    }
}

fn make_certificates(folder: &Path, name: &str) -> Result<()> {
    fs::write(folder.join("extensions"), format!("subjectAltName={name}\nbasicConstraints=CA:FALSE\n"))?;
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for words in [
        &format!("req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"),
        &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"),
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions \
         -out server.crt",
    ] {
        let output = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(folder)
            .output()
            .context("install Debian's package `openssl`")?;
        ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
