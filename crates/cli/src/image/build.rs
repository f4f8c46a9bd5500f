//! `emergent image build`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;
use emergent_images::{debian, workspace};
use emergent_provider_gvisor::{DEFAULT_IMAGE, DirectImages, EngineImages};
use serde::Serialize;
use tokio_util::io::ReaderStream;

use super::interrupt::Interrupt;
use super::rights;
use crate::arguments::CommonArguments;
use crate::exit::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::environment::Environment;
use crate::settings::gvisor::{self, Gvisor};
use crate::settings::{Layer, Settings};

/// What is read of the archive at a time.
const CHUNK: usize = 256 << 10;

/// The archive, in a folder of its own.
const ARCHIVE: &str = "image.tar";

#[derive(Debug, Args)]
#[command(after_help = "\
The packages come from this host's own sources, unless --suite names another release. Docker is looked for as \
the server does: at DOCKER_HOST, else at its usual socket. Where the server does without (WORKSPACE_GVISOR_MODE), \
the image is put into its data folder. Needs mmdebstrap, root (or a range of accounts in \
/etc/subuid), about 3 GB for a while, and some minutes.")]
pub(crate) struct Build {
    /// What the image is called
    #[arg(long, value_name = "NAME", default_value = DEFAULT_IMAGE)]
    tag: String,
    /// One more Debian package to have in it; may be repeated
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Write the archive to this file, and import nothing
    #[arg(long, value_name = "FILE", conflicts_with = "tag")]
    output: Option<PathBuf>,
    /// The release, such as `bookworm` [default: this host's own]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Where the suite's packages come from
    #[arg(long, value_name = "URL", requires = "suite")]
    mirror: Option<String>,
    /// Where the image takes shape [default: $TMPDIR, else /var/tmp]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made {
    /// The image's name, where it was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// The hash of its content, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The archive, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// Bytes of the archive.
    bytes: u64,
    /// How long the packages took.
    seconds: u64,
}

impl Build {
    pub(super) async fn run(self, common: &CommonArguments, output: Output) -> Result<ExitCode, Failure> {
        let mut interrupt = Interrupt::listen()?;
        rights::check()?;
        let made = match &self.output {
            Some(file) => self.to_file(file, output, &mut interrupt).await?,
            None => {
                // Nobody listens here, so whether that would be safe does not matter.
                let flags = Layer { allow_plain_http: Some(true), ..Layer::default() };
                let settings = Settings::load(common, flags).map_err(anyhow::Error::from)?;
                match settings.gvisor {
                    Gvisor::Docker => self.to_docker(output, &mut interrupt).await?,
                    Gvisor::Direct { .. } => {
                        self.to_data_folder(&settings.data_dir, output, &mut interrupt).await?
                    }
                }
            }
        };
        output.result(&made, |made| {
            let what = made.image.clone().or(made.file.as_ref().map(|file| file.display().to_string()));
            format!("{}: {} MiB, {} s", what.unwrap_or_default(), made.bytes >> 20, made.seconds)
        });
        Ok(ExitCode::SUCCESS)
    }

    async fn to_file(&self, file: &Path, output: Output, interrupt: &mut Interrupt) -> anyhow::Result<Made> {
        let built = self.build(file, output, interrupt).await?;
        let seconds = built.took.as_secs();
        Ok(Made { image: None, id: None, file: Some(file.to_owned()), bytes: built.bytes, seconds })
    }

    async fn to_docker(&self, output: Output, interrupt: &mut Interrupt) -> anyhow::Result<Made> {
        // First what would fail at the end of some minutes.
        EngineImages::check_name(&self.tag)?;
        let images = EngineImages::of(gvisor::engine(&Environment::of_process()))
            .await
            .context("the image has nowhere to go (--output FILE writes it to a file)")?;

        let folder = self.temporary_folder()?;
        let archive = folder.path().join(ARCHIVE);
        let built = self.build(&archive, output, interrupt).await?;

        let progress = Progress::bytes(output);
        progress.expect(built.bytes);
        let file = tokio::fs::File::open(&archive).await.context("the archive cannot be read")?;
        let content = ReaderStream::with_capacity(progress.watch(file), CHUNK);
        let imported = tokio::select! {
            // Docker drops what it has of one that does not come to its end.
            () = interrupt.wait() => Err(anyhow!("interrupted; no image was made")),
            imported = images.import(&self.tag, &workspace::IMPORT_CHANGES, content) => Ok(imported?),
        };
        progress.finish();
        folder.close().context("the archive was not removed")?;
        let imported = imported?;
        Ok(Made {
            image: Some(imported.name),
            id: Some(imported.id),
            file: None,
            bytes: built.bytes,
            seconds: built.took.as_secs(),
        })
    }

    /// For a server that has no Docker: unpacked where it looks for images.
    async fn to_data_folder(
        &self,
        data_dir: &Path,
        output: Output,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<Made> {
        // First what would fail at the end of some minutes.
        DirectImages::check_name(&self.tag)?;
        let folder = self.temporary_folder()?;
        let archive = folder.path().join(ARCHIVE);
        let built = self.build(&archive, output, interrupt).await?;

        let progress = Progress::bytes(output);
        progress.expect(built.bytes);
        let file = tokio::fs::File::open(&archive).await.context("the archive cannot be read")?;
        let content = ReaderStream::with_capacity(progress.watch(file), CHUNK);
        let images = DirectImages::of(data_dir);
        let put = tokio::select! {
            () = interrupt.wait() => Err(anyhow!("interrupted; no image was made")),
            put = images.put(&self.tag, content) => Ok(put?),
        };
        progress.finish();
        folder.close().context("the archive was not removed")?;
        let image = Some(self.tag.clone());
        Ok(Made { image, id: Some(put?), file: None, bytes: built.bytes, seconds: built.took.as_secs() })
    }

    fn temporary_folder(&self) -> anyhow::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("emergent-archive-")
            .tempdir_in(self.work_dir())
            .with_context(|| format!("cannot make a folder in {}", self.work_dir().display()))
    }

    /// Makes the archive. Interrupted, it leaves nothing.
    async fn build(
        &self,
        target: &Path,
        output: Output,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<debian::Built> {
        let defaults = debian::Options::default();
        let packages = defaults.packages.iter().chain(&self.packages).cloned().collect();
        let options = debian::Options {
            suite: self.suite.clone(),
            mirror: self.mirror.clone(),
            packages,
            work_folder: self.work_dir(),
            ..defaults
        };
        output.hint("making an image of Debian packages; this takes some minutes");
        let progress = Progress::waiting(output, "starting");
        let built = debian::build(options, target, |line| progress.say(line), interrupt.wait()).await;
        progress.finish();
        Ok(built?)
    }

    /// On the disk, where /tmp often is memory.
    fn work_dir(&self) -> PathBuf {
        let named = self.work_dir.clone().or_else(|| std::env::var_os("TMPDIR").map(PathBuf::from));
        named.unwrap_or_else(|| "/var/tmp".into())
    }
}
