//! The table of calls: what each one does is in the module it leads to.

use std::sync::Arc;

use emergent_protocol::v1;
use emergent_protocol::v1::agent_server::Agent;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::agent::Shared;
use crate::body::BrokenOff;
use crate::hello::Connection;
use crate::{edit, exec, files, git, part, processes, quiesce, search, stdio, terminal, tunnel, watch};

/// The calls of one connection.
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Arc<Connection>,
}

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl Agent for Service {
    async fn hello(&self, request: Request<v1::HelloRequest>) -> Answer<v1::HelloResponse> {
        self.connection.greet(request.into_inner()).map(Response::new)
    }

    type ExecStream = Messages<v1::ExecEvent>;

    async fn exec(&self, request: Request<v1::ExecRequest>) -> Answer<Self::ExecStream> {
        let events = exec::exec(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn start_process(
        &self,
        request: Request<v1::StartProcessRequest>,
    ) -> Answer<v1::StartProcessResponse> {
        Ok(Response::new(processes::start(&self.shared, request.into_inner()).await?))
    }

    async fn list_processes(
        &self,
        _: Request<v1::ListProcessesRequest>,
    ) -> Answer<v1::ListProcessesResponse> {
        Ok(Response::new(processes::list(&self.shared)))
    }

    type ProcessOutputStream = Messages<v1::ProcessOutputChunk>;

    async fn process_output(
        &self,
        request: Request<v1::ProcessOutputRequest>,
    ) -> Answer<Self::ProcessOutputStream> {
        let chunks = processes::follow(&self.shared, request.into_inner())?;
        Ok(Response::new(ReceiverStream::new(chunks)))
    }

    async fn signal_process(
        &self,
        request: Request<v1::SignalProcessRequest>,
    ) -> Answer<v1::SignalProcessResponse> {
        Ok(Response::new(processes::signal(&self.shared, request.into_inner()).await?))
    }

    async fn read_page(&self, request: Request<v1::ReadPageRequest>) -> Answer<v1::ReadPageResponse> {
        Ok(Response::new(files::read_page(&self.shared, request.into_inner()).await?))
    }

    type ReadFileStream = Messages<v1::FileChunk>;

    async fn read_file(&self, request: Request<v1::ReadFileRequest>) -> Answer<Self::ReadFileStream> {
        let chunks = files::read_file(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(chunks)))
    }

    async fn write_file(
        &self,
        request: Request<Streaming<v1::WriteFileRequest>>,
    ) -> Answer<v1::WriteFileResponse> {
        let broken_off = request.extensions().get::<BrokenOff>().cloned().unwrap_or_default();
        Ok(Response::new(files::write_file(&self.shared, request.into_inner(), broken_off).await?))
    }

    async fn stat(&self, request: Request<v1::StatRequest>) -> Answer<v1::StatResponse> {
        Ok(Response::new(files::stat(&self.shared, request.into_inner()).await?))
    }

    async fn list_directory(
        &self,
        request: Request<v1::ListDirectoryRequest>,
    ) -> Answer<v1::ListDirectoryResponse> {
        Ok(Response::new(files::list_directory(&self.shared, request.into_inner()).await?))
    }

    async fn edit(&self, request: Request<v1::EditRequest>) -> Answer<v1::EditResponse> {
        Ok(Response::new(edit::edit(&self.shared, request.into_inner()).await?))
    }

    async fn glob(&self, request: Request<v1::GlobRequest>) -> Answer<v1::GlobResponse> {
        Ok(Response::new(search::glob(&self.shared, request.into_inner()).await?))
    }

    async fn grep(&self, request: Request<v1::GrepRequest>) -> Answer<v1::GrepResponse> {
        Ok(Response::new(search::grep(&self.shared, request.into_inner()).await?))
    }

    async fn git(&self, request: Request<v1::GitRequest>) -> Answer<v1::GitResponse> {
        Ok(Response::new(git::git(&self.shared, request.into_inner()).await?))
    }

    type WatchStream = Messages<v1::WatchEvent>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        let events = watch::watch(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(events)))
    }

    type TerminalStream = Messages<v1::TerminalOutput>;

    async fn terminal(&self, request: Request<Streaming<v1::TerminalInput>>) -> Answer<Self::TerminalStream> {
        let output = terminal::terminal(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(output)))
    }

    type StdioStream = Messages<v1::StdioOutput>;

    async fn stdio(&self, request: Request<Streaming<v1::StdioInput>>) -> Answer<Self::StdioStream> {
        let output = stdio::stdio(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(output)))
    }

    type TunnelStream = Messages<v1::TunnelOutput>;

    async fn tunnel(&self, request: Request<Streaming<v1::TunnelInput>>) -> Answer<Self::TunnelStream> {
        let broken_off = request.extensions().get::<BrokenOff>().cloned().unwrap_or_default();
        let output = tunnel::tunnel(&self.shared, request.into_inner(), broken_off).await?;
        Ok(Response::new(ReceiverStream::new(output)))
    }

    type OfferServicesStream = Messages<v1::ServiceConnection>;

    async fn offer_services(
        &self,
        request: Request<v1::OfferServicesRequest>,
    ) -> Answer<Self::OfferServicesStream> {
        let announced = tunnel::offer_services(&self.shared, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(announced)))
    }

    async fn part(&self, request: Request<v1::PartRequest>) -> Answer<v1::PartResponse> {
        Ok(Response::new(part::part(&self.shared, request.into_inner()).await))
    }

    async fn quiesce(&self, request: Request<v1::QuiesceRequest>) -> Answer<v1::QuiesceResponse> {
        Ok(Response::new(quiesce::quiesce(&self.shared, request.into_inner()).await))
    }
}
