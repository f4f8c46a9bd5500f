//! What the API works with.

use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge as bridge;
use emergent_store::{IdempotencyKey, McpServerRow};
use emergent_types::{ServerHealth, WorkspaceId};
use emergent_workspaces::{CreateError, CreatedWorkspace};
use tokio::sync::watch;

use crate::attempt;
use crate::error::HostingError;
use crate::logs::{Follower, LogPage};
use crate::registration::{Problem, Problems, Registration};
use crate::registry::{Context, Order, Server};
use crate::supervisor::Supervisor;
use crate::update::{Update, needs_restart};
use crate::view::ServerView;

/// How long a sandbox that is made may be without somebody who looks after its program.
const ADOPTION: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A server that is registered.
#[derive(Debug, Clone)]
pub struct Registered {
    /// As it is now.
    pub view: ServerView,
    /// Whether it was before, by the same request.
    pub replayed: bool,
}

/// What the API works with. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) context: Arc<Context>,
}

impl Handle {
    /// Registers a server, makes its sandbox and starts its program. Answers when it is known whether that
    /// runs, or after a while; a sandbox that cannot be made leaves nothing. Going away does not undo it.
    pub async fn register(&self, registration: Registration) -> Result<ServerView, HostingError> {
        self.register_once(registration, None).await.map(|registered| registered.view)
    }

    /// The same under a key: a request that was sent before makes no second server.
    pub async fn register_once(
        &self,
        registration: Registration,
        key: Option<IdempotencyKey>,
    ) -> Result<Registered, HostingError> {
        let handle = self.clone();
        let registering = tokio::spawn(async move { handle.register_to_the_end(registration, key).await });
        registering.await.unwrap_or(Err(HostingError::ShuttingDown))
    }

    async fn register_to_the_end(
        &self,
        registration: Registration,
        key: Option<IdempotencyKey>,
    ) -> Result<Registered, HostingError> {
        self.check_open()?;
        let new = registration.parse()?;
        let max = self.context.options.max_servers;
        if self.context.registry.len() >= max {
            return Err(HostingError::TooMany(max));
        }
        let created = self.context.workspaces.create_once(new, true, key).await;
        let CreatedWorkspace { row: workspace, replayed } = created.map_err(|error| match error {
            CreateError::NameTaken { name } => HostingError::NameTaken(name),
            error => error.into(),
        })?;
        if replayed {
            return self.registered_before(workspace.id).await;
        }
        let kept = self.context.workspaces.store().get_mcp_server(workspace.id).await?;
        let row = kept.ok_or_else(|| HostingError::NotFound(workspace.id.to_string()))?;
        if attempt::program(&row).is_err() {
            self.context.workspaces.destroy(row.id).await?;
            return Err(no_command().into());
        }
        let server = self.adopt(row);
        server.settled(self.context.options.patience).await;
        Ok(Registered { view: self.view(&server).await?, replayed: false })
    }

    /// What came of the same request before. Its server is looked after a moment later than it is made.
    async fn registered_before(&self, id: WorkspaceId) -> Result<Registered, HostingError> {
        let until = tokio::time::Instant::now() + ADOPTION;
        let server = loop {
            match self.context.registry.find(&id.to_string()) {
                Some(server) => break server,
                None if tokio::time::Instant::now() < until => tokio::time::sleep(LOOK).await,
                None => return Err(HostingError::NotFound(id.to_string())),
            }
        };
        server.settled(self.context.options.patience).await;
        Ok(Registered { view: self.view(&server).await?, replayed: true })
    }

    /// Begins to look after a server.
    pub(crate) fn adopt(&self, row: McpServerRow) -> Arc<Server> {
        let (server, orders) = Server::new(row, &self.context.options);
        self.context.registry.insert(server.clone());
        let supervisor = tokio::spawn(Supervisor::run(self.context.clone(), server.clone(), orders));
        server.set_supervisor(supervisor.abort_handle());
        server
    }

    /// Every server, oldest first.
    pub async fn list(&self) -> Vec<ServerView> {
        let mut views = Vec::new();
        for server in self.context.registry.all() {
            // One that is being deleted is not there any more.
            views.extend(self.view(&server).await.ok());
        }
        views
    }

    /// One server, by name or id.
    pub async fn get(&self, name_or_id: &str) -> Result<ServerView, HostingError> {
        self.view(&self.server(name_or_id)?).await
    }

    /// The id and the name of a server, by either.
    pub fn find(&self, name_or_id: &str) -> Option<(WorkspaceId, String)> {
        self.context.registry.find(name_or_id).map(|server| (server.id, server.name.clone()))
    }

    /// Changes a registration. A program that would be started otherwise now is restarted. Going away does not
    /// undo it.
    pub async fn update(&self, name_or_id: &str, update: Update) -> Result<ServerView, HostingError> {
        let (handle, name_or_id) = (self.clone(), name_or_id.to_owned());
        let updating = tokio::spawn(async move { handle.update_to_the_end(&name_or_id, update).await });
        updating.await.unwrap_or(Err(HostingError::ShuttingDown))
    }

    async fn update_to_the_end(&self, name_or_id: &str, update: Update) -> Result<ServerView, HostingError> {
        self.check_open()?;
        let server = self.server(name_or_id)?;
        let turn = server.changing.lock().await;
        let before = server.row();
        let after = update.applied_to(&before)?;
        if attempt::program(&after).is_err() {
            return Err(no_command().into());
        }
        if !self.context.workspaces.store().update_mcp_server(&after).await? {
            return Err(HostingError::NotFound(name_or_id.to_owned()));
        }
        server.set_row(after.clone());
        drop(turn);
        if needs_restart(&before, &after) {
            server.start_edition();
            self.context.changed();
            self.start_over(&server).await;
        }
        self.view(&server).await
    }

    /// Ends the program and starts it again, with everything forgotten that was held against it.
    pub async fn restart(&self, name_or_id: &str) -> Result<ServerView, HostingError> {
        self.check_open()?;
        let server = self.server(name_or_id)?;
        self.start_over(&server).await;
        self.view(&server).await
    }

    async fn start_over(&self, server: &Server) {
        let options = &self.context.options;
        server.order(Order::Restart).await;
        server.settled(options.patience + options.restart_grace).await;
    }

    /// Ends the program, and removes the sandbox and the registration. Volumes stay, unless they are to go as
    /// well; one that another sandbox has stays all the same.
    pub async fn delete(&self, name_or_id: &str, with_volumes: bool) -> Result<(), HostingError> {
        self.check_open()?;
        let server = self.server(name_or_id)?;
        let view = self.view(&server).await?;
        self.close(&server, self.context.options.restart_grace).await;
        self.context.workspaces.destroy(server.id).await?;
        self.context.registry.remove(server.id);
        self.context.changed();
        if with_volumes {
            for volume in &view.volumes {
                let provider = view.workspace.provider;
                self.context.workspaces.remove_volume(server.id, provider, volume.name()).await?;
            }
        }
        Ok(())
    }

    /// Ends the program for good.
    pub(crate) async fn close(&self, server: &Server, grace: Duration) {
        server.order(Order::Close(grace)).await;
        server.settled(grace + Duration::from_secs(10)).await;
    }

    /// The last lines after this one, at most so many.
    pub fn logs(&self, name_or_id: &str, after: u64, limit: usize) -> Result<LogPage, HostingError> {
        Ok(self.server(name_or_id)?.logs.page(after, limit))
    }

    /// What it says from the line after this one on; from now on where there is none.
    pub fn follow_logs(&self, name_or_id: &str, after: Option<u64>) -> Result<Follower, HostingError> {
        let logs = &self.server(name_or_id)?.logs;
        Ok(logs.follow(after.unwrap_or_else(|| logs.newest())))
    }

    /// Moves on whenever there are other servers, or other tools of them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.context.changes.subscribe()
    }

    /// How each server is, by name.
    pub fn healths(&self) -> Vec<(String, ServerHealth)> {
        let servers = self.context.registry.all();
        servers.iter().map(|server| (server.name.clone(), server.status.borrow().health())).collect()
    }

    /// What was counted at each bridge, by name.
    pub fn bridge_stats(&self) -> Vec<(String, bridge::Stats)> {
        let servers = self.context.registry.all();
        servers.iter().filter_map(|server| Some((server.name.clone(), server.bridge()?.stats()))).collect()
    }

    /// How many processes a dedicated server's clients have.
    pub fn dedicated_processes(&self, name_or_id: &str) -> usize {
        let found = self.context.registry.find(name_or_id);
        found.map_or(0, |server| self.context.options.max_dedicated - server.dedicated.available_permits())
    }

    fn server(&self, name_or_id: &str) -> Result<Arc<Server>, HostingError> {
        let found = self.context.registry.find(name_or_id);
        found.ok_or_else(|| HostingError::NotFound(name_or_id.to_owned()))
    }

    async fn view(&self, server: &Arc<Server>) -> Result<ServerView, HostingError> {
        let workspace = self.context.workspaces.get(server.id).await;
        let workspace = workspace.map_err(|_| HostingError::NotFound(server.name.clone()))?;
        Ok(ServerView::new(server, workspace))
    }

    fn check_open(&self) -> Result<(), HostingError> {
        if self.context.is_closing() { Err(HostingError::ShuttingDown) } else { Ok(()) }
    }
}

fn no_command() -> Problems {
    let reason = "is needed: the image names no program of its own, or its provider cannot tell";
    Problems(vec![Problem { field: "command".to_owned(), reason: reason.to_owned() }])
}
