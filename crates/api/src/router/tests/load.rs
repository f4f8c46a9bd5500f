//! A thousand creates at once, through everything that is in front of them: each is served, or told when to try
//! again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use emergent_orchestrator::Orchestrator;
use emergent_provider::fake::{FakeProvider, Fault};
use emergent_provider::{Operation, WorkspaceProvider};
use emergent_store::WorkspaceFilter;
use emergent_types::{IsolationLevel, ProviderKind, WorkspaceId};
use emergent_workspaces::Service;
use futures::future::join_all;

use super::*;

const WORKSPACES: &str = "/api/v1/agent/workspaces";

/// How many ask at once.
const ASKED: usize = 1000;

/// How many of them there is room for.
const PLACES: usize = 50;

/// How many creates may go wrong where some do. However many do, most of the others find no room.
const FAULTS: usize = 60;

/// Among how many tokens the requests are divided, so that no single one has more at once than it may. All of
/// them together do.
const CALLERS: usize = 4;

/// The longest that somebody may be told to wait.
const LONGEST_WAIT_SECONDS: u32 = 60;

/// A server that many ask at once.
struct Crowd {
    server: Server,
    store: Arc<dyn Store>,
    provider: Arc<FakeProvider>,
    workspaces: Service,
    tokens: Vec<String>,
}

struct Answer {
    /// Who asked.
    token: String,
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Crowd {
    async fn gather() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open_store(&folder).await;
        let provider = Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container));
        let shared: Arc<dyn WorkspaceProvider> = provider.clone();
        let orchestrator = Orchestrator::start(vec![shared]).await;
        let max_concurrent = u32::try_from(PLACES).unwrap();
        let options = emergent_workspaces::Options { max_concurrent, ..Default::default() };
        let workspaces = Service::start(options, Arc::clone(&store), orchestrator).await.unwrap();
        let server = Server::around(Arc::clone(&store), Some(workspaces.handle()), folder);
        let mut tokens = Vec::new();
        for _ in 0..CALLERS {
            let token = BearerToken::generate().unwrap();
            store.insert_token(&known(TokenKind::User, &token), None).await.unwrap();
            tokens.push(token.expose().to_owned());
        }
        let crowd = Self { server, store, provider, workspaces, tokens };
        // Tokens that are not known yet are looked up a few at a time, and then it is not all at once.
        for token in &crowd.tokens {
            assert_eq!(crowd.ask("GET", WORKSPACES, token, Body::empty()).await.status, 200);
        }
        crowd
    }

    async fn ask(&self, method: &str, path: &str, token: &str, body: Body) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let (parts, body) = self.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        Answer { token: token.to_owned(), status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// What everybody is answered. Whoever is not served is told when to try again, and why.
    async fn create_all_at_once(&self) -> Vec<Answer> {
        let callers = self.tokens.iter().cycle().take(ASKED);
        let creates = callers.map(|token| self.ask("POST", WORKSPACES, token, Body::from("{}")));
        let answers = join_all(creates).await;
        assert_eq!(answers.len(), ASKED);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            answer.is_a_refusal_that_helps();
        }
        answers
    }

    async fn rows(&self) -> BTreeSet<WorkspaceId> {
        let most = NonZeroU32::new(u32::try_from(2 * ASKED).unwrap()).unwrap();
        let page = self.store.list_workspaces(WorkspaceFilter::default(), None, most).await.unwrap();
        page.items.iter().map(|row| row.id).collect()
    }

    async fn sandboxes(&self) -> BTreeSet<WorkspaceId> {
        self.provider.list().await.unwrap().iter().map(|sandbox| sandbox.id).collect()
    }

    /// What was promised is there and nothing else, and goes when it is told to.
    async fn has_what_it_promised(&self, answers: &[Answer]) {
        let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
        let ids: BTreeSet<WorkspaceId> = made.iter().map(|answer| answer.id()).collect();
        assert_eq!(ids.len(), made.len(), "nobody has what somebody else has");
        assert_eq!(self.rows().await, ids);
        assert_eq!(self.sandboxes().await, ids);
        let removals = made.iter().map(|answer| async move {
            let path = format!("{WORKSPACES}/{}", answer.id());
            self.ask("DELETE", &path, &answer.token, Body::empty()).await
        });
        for removed in join_all(removals).await {
            assert_eq!(removed.status, 200, "{}", removed.body);
        }
        assert_eq!(self.rows().await, BTreeSet::new());
        assert_eq!(self.sandboxes().await, BTreeSet::new());
    }

    async fn end(self) {
        self.workspaces.shutdown(Duration::ZERO).await;
    }
}

impl Answer {
    fn id(&self) -> WorkspaceId {
        self.body["id"].as_str().unwrap().parse().unwrap()
    }

    /// Its status, and the code of one that is not a success.
    fn outcome(&self) -> (u16, &str) {
        (self.status, self.body["error"]["code"].as_str().unwrap_or_default())
    }

    fn is_a_refusal_that_helps(&self) {
        let Self { headers, body, .. } = self;
        let seconds = headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        assert!(
            seconds.is_some_and(|seconds| (1..=LONGEST_WAIT_SECONDS).contains(&seconds)),
            "{headers:?}: {body}"
        );
        let is_said = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
        let error = &body["error"];
        assert!(is_said(&error["message"]), "{body}");
        let details = &error["details"];
        match self.outcome() {
            (429, "limit_reached") => {
                assert!(is_said(&details["hint"]), "{body}");
                assert_eq!(details["max"], PLACES, "{body}");
            }
            // More at once than the server takes: waiting is all that there is to do.
            (429, "rate_limited") => {}
            (503, "no_provider_available") => {
                let reasons: Vec<_> = details["providers"].as_array().unwrap().iter().collect();
                assert!(!reasons.is_empty(), "{body}");
                assert!(reasons.iter().all(|provider| is_said(&provider["reason"])), "{body}");
            }
            (status, code) => panic!("{status} {code}: {body}"),
        }
    }
}

/// How often each was answered.
fn outcomes(answers: &[Answer]) -> BTreeMap<(u16, &str), usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.outcome()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_thousand_creates_are_served_or_told_when_to_try_again() {
    let crowd = Crowd::gather().await;
    let answers = crowd.create_all_at_once().await;
    let counts = outcomes(&answers);
    let kinds: Vec<_> = counts.keys().copied().collect();
    assert_eq!(kinds, [(201, ""), (429, "limit_reached"), (429, "rate_limited")], "{counts:?}");
    assert_eq!(counts[&(201, "")], PLACES, "{counts:?}");
    crowd.has_what_it_promised(&answers).await;
    crowd.end().await;
}

/// The same while every other sandbox cannot be made, or is made and nobody hears of it.
#[tokio::test]
async fn a_thousand_creates_of_which_some_fail_leave_nothing_of_those() {
    let crowd = Crowd::gather().await;
    for number in 0..FAULTS {
        let fault = match number % 2 {
            0 => Fault::Fail("on purpose"),
            _ => Fault::FailAfterwards("on purpose"),
        };
        crowd.provider.plan(Operation::Create, fault);
        // One that goes well, in its turn.
        crowd.provider.plan(Operation::Create, Fault::Delay(Duration::ZERO));
    }
    let answers = crowd.create_all_at_once().await;
    let counts = outcomes(&answers);
    let kinds: Vec<_> = counts.keys().copied().collect();
    let expect = [(201, ""), (429, "limit_reached"), (429, "rate_limited"), (503, "no_provider_available")];
    assert_eq!(kinds, expect, "{counts:?}");
    // A create that failed gives its place to somebody who comes later, if anybody does.
    assert!(counts[&(201, "")] <= PLACES, "{counts:?}");
    assert!(counts[&(503, "no_provider_available")] <= FAULTS, "{counts:?}");
    crowd.has_what_it_promised(&answers).await;
    crowd.end().await;
}
