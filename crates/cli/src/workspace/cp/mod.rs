//! `emergent workspace cp`

mod below;
mod tree;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use emergent_client::{BashRequest, Client, ReadAnswer, ReadRequest, Upload};
use emergent_types::WorkspaceId;
use serde::Serialize;
use tokio::io::AsyncWriteExt;

use super::local_file;
use crate::exit::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::shell_words;

use tree::Tree;

#[derive(Debug, Args)]
#[command(after_help = "\
A path in a workspace is written ID:PATH. Folders are copied with what is in them: folders, and files \
with their content and whether they can be run. Links below a folder, pipes, sockets and names that are \
not UTF-8 are left out and named. A download is never larger than the workspace's disk may be.")]
pub(crate) struct Cp {
    /// What to copy: a path here, or ID:PATH
    from: Place,
    /// Where to: ID:PATH, or a path here
    to: Place,
}

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    In(WorkspaceId, String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inside = text.split_once(':').and_then(|(id, path)| Some((id.parse().ok()?, path)));
        match inside {
            Some((_, "")) => Err("the path after the colon is missing".to_owned()),
            Some((id, path)) => Ok(Self::In(id, path.to_owned())),
            None => Ok(Self::Here(text.into())),
        }
    }
}

/// What was copied.
#[derive(Debug, Default, Serialize)]
struct Copied {
    files: u64,
    bytes: u64,
    /// What was not copied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

impl Cp {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let mut copy = Copy { client, progress: Progress::bytes(output), copied: Copied::default() };
        match (self.from, self.to) {
            (Place::Here(from), Place::In(id, to)) => copy.upload(id, from, to).await?,
            (Place::In(id, from), Place::Here(to)) => copy.download(id, from, to).await?,
            _ => return Err(Failure::Usage("one of the two must be ID:PATH, and the other a path here")),
        }
        copy.progress.finish();
        for path in &copy.copied.left_out {
            output.note(&format!("left out: {path:?} is not a file that can be copied"));
        }
        output.result(&copy.copied, |copied| format!("{} files, {} bytes", copied.files, copied.bytes));
        Ok(ExitCode::SUCCESS)
    }
}

struct Copy<'a> {
    client: &'a Client,
    progress: Progress,
    copied: Copied,
}

impl Copy<'_> {
    async fn upload(&mut self, id: WorkspaceId, from: PathBuf, to: String) -> Result<(), Failure> {
        // As `cp` does: into a folder, under its own name.
        let to = match (to.strip_suffix('/'), from.file_name()) {
            (Some(folder), Some(name)) => format!("{folder}/{}", name.to_string_lossy()),
            _ => to,
        };
        // What is named may be a link; what is found below it may not lead elsewhere.
        let about = std::fs::metadata(&from).with_context(|| from.display().to_string())?;
        if !about.is_dir() {
            return self.upload_file(id, &from, to).await;
        }
        let mut empty = Vec::new();
        let mut waiting = vec![(from, to)];
        while let Some((from, to)) = waiting.pop() {
            let entries = std::fs::read_dir(&from).with_context(|| from.display().to_string())?;
            let mut is_empty = true;
            for entry in entries {
                let entry = entry.with_context(|| from.display().to_string())?;
                let kind = entry.file_type().with_context(|| entry.path().display().to_string())?;
                let name = entry.file_name();
                match name.to_str() {
                    Some(name) if kind.is_dir() => waiting.push((entry.path(), format!("{to}/{name}"))),
                    Some(name) if kind.is_file() => {
                        self.upload_file(id, &entry.path(), format!("{to}/{name}")).await?;
                    }
                    _ => {
                        self.copied.left_out.push(entry.path().to_string_lossy().into_owned());
                        continue;
                    }
                }
                is_empty = false;
            }
            if is_empty {
                empty.push(to);
            }
        }
        self.make_folders(id, &empty).await
    }

    /// Uploads make the folders they need; those that hold nothing are made by themselves.
    async fn make_folders(&self, id: WorkspaceId, folders: &[String]) -> Result<(), Failure> {
        for some in folders.chunks(500) {
            let words: Vec<String> =
                ["mkdir", "-p", "--"].map(str::to_owned).into_iter().chain(some.iter().cloned()).collect();
            self.bash(id, shell_words::to_command(&words)).await?;
        }
        Ok(())
    }

    /// Runs a command; what it prints.
    async fn bash(&self, id: WorkspaceId, command: String) -> Result<String, Failure> {
        let finished = self.client.bash(id, &BashRequest::new(command)).await?;
        if finished.exit_code != 0 {
            return Err(anyhow!("in the workspace: {}", finished.stderr.trim()).into());
        }
        Ok(finished.stdout)
    }

    async fn upload_file(&mut self, id: WorkspaceId, from: &Path, to: String) -> Result<(), Failure> {
        let file = local_file::open(from).await?;
        self.progress.expect(file.size);
        let upload = Upload { path: to, mode: Some(file.mode), size: Some(file.size) };
        let written = self.client.upload(id, &upload, self.progress.watch(file.content)).await?;
        self.count(written.bytes_written);
        Ok(())
    }

    async fn download(&mut self, id: WorkspaceId, from: String, to: PathBuf) -> Result<(), Failure> {
        let to = match from.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()) {
            Some(name) if to.is_dir() => to.join(safe_name(name)?),
            _ => to,
        };
        // No tree has more bytes than its disk: beyond that a workspace is making them up.
        let room = self.client.workspace(id).await?.resource_limits.disk.bytes();
        if !self.is_folder(id, &from).await? {
            return self.download_file(id, &from, &to, None, room).await;
        }
        let tree = self.tree(id, &from).await?;
        let inside = |path: &str| format!("{}/{path}", from.trim_end_matches('/'));
        tokio::fs::create_dir_all(&to).await.with_context(|| to.display().to_string())?;
        for folder in &tree.folders {
            below::make_folder(&to, Path::new(folder))?;
        }
        for file in &tree.files {
            let mode = if file.executable { 0o755 } else { 0o644 };
            let left = room.saturating_sub(self.copied.bytes);
            let to = below::place_of_file(&to, Path::new(&file.path))?;
            self.download_file(id, &inside(&file.path), &to, Some(mode), left).await?;
        }
        self.copied.left_out.extend(tree.left_out.iter().map(|path| inside(path)));
        Ok(())
    }

    async fn is_folder(&self, id: WorkspaceId, path: &str) -> Result<bool, Failure> {
        let request = ReadRequest { file_path: path.to_owned(), offset: None, limit: Some(1) };
        Ok(matches!(self.client.read(id, &request).await?, ReadAnswer::Directory { .. }))
    }

    /// Everything below a folder.
    async fn tree(&self, id: WorkspaceId, path: &str) -> Result<Tree, Failure> {
        let words = ["sh", "-c", tree::LIST, path].map(str::to_owned);
        let list = self.bash(id, shell_words::to_command(&words)).await?;
        let mut content = self.client.download(id, &list).await?;
        let mut records = Vec::new();
        while let Some(piece) = content.next().await? {
            records.extend_from_slice(&piece);
            if records.len() as u64 > tree::MAX_LIST_BYTES {
                return Err(anyhow!("the workspace's list of files does not end").into());
            }
        }
        self.bash(id, shell_words::to_command(&["rm", "-f", "--", &list].map(str::to_owned))).await?;
        Ok(Tree::parse(&records)?)
    }

    async fn download_file(
        &mut self,
        id: WorkspaceId,
        from: &str,
        to: &Path,
        mode: Option<u32>,
        room: u64,
    ) -> Result<(), Failure> {
        let mut content = self.client.download(id, from).await?;
        self.progress.expect(content.size().unwrap_or(0));
        let shown = || to.display().to_string();
        // Beside its place first, under a name that nobody else has: what breaks off leaves what was there,
        // and nothing of its own.
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = tempfile::Builder::new()
            .prefix(".emergent-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(shown)?;
        let (file, beside) = beside.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let mut bytes = 0;
        while let Some(piece) = content.next().await? {
            file.write_all(&piece).await.with_context(shown)?;
            self.progress.advance(piece.len() as u64);
            bytes += piece.len() as u64;
            if bytes > room {
                return Err(anyhow!("{from}: more than the workspace's disk can hold").into());
            }
        }
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode)).await.with_context(shown)?;
        }
        file.flush().await.with_context(shown)?;
        beside.persist(to).with_context(shown)?;
        self.count(bytes);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.copied.files += 1;
        self.copied.bytes += bytes;
    }
}

/// A name that a sandbox gave, if it leads nowhere else.
fn safe_name(name: &str) -> anyhow::Result<&str> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        bail!("the workspace has a name that cannot be used here: {name:?}");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let id = "0199e6a4-0000-7000-8000-000000000000";
        let inside = |path: &str| Ok(Place::In(id.parse().unwrap(), path.to_owned()));
        assert_eq!(format!("{id}:a:b").parse(), inside("a:b"));
        assert_eq!(format!("{id}:/etc").parse(), inside("/etc"));
        assert!(format!("{id}:").parse::<Place>().is_err());
        for here in ["a", "./a:b", "C:x", "/a/b"] {
            assert_eq!(here.parse(), Ok(Place::Here(here.into())));
        }
    }

    #[test]
    fn a_name_stays_where_it_is() {
        for bad in ["", ".", "..", "a/b", "/", "a\0"] {
            assert!(safe_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "..a", "a b", "-rf", "$(x)"] {
            assert!(safe_name(good).is_ok(), "{good:?}");
        }
    }
}
