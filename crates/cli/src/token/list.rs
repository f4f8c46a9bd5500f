//! `emergent token list`

use std::process::ExitCode;

use clap::Args;
use emergent_client::{Client, Token, TokenList};
use time::OffsetDateTime;

use crate::exit::Failure;
use crate::output::{Output, table};
use crate::workspace::view::minute;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also those that are revoked or expired
    #[arg(long)]
    all: bool,
}

impl List {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let mut items = Vec::new();
        let mut cursor = None;
        loop {
            let page = client.tokens(cursor.as_deref()).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        let now = OffsetDateTime::now_utc();
        items.retain(|token| self.all || state(token, now) == "valid");
        output.result(&TokenList { items, next_cursor: None }, |list| rows(&list.items, now));
        Ok(ExitCode::SUCCESS)
    }
}

fn rows(tokens: &[Token], now: OffsetDateTime) -> String {
    let row = |token: &Token| {
        vec![
            token.id.clone(),
            token.kind.clone(),
            state(token, now).to_owned(),
            minute(token.created_at),
            token.expires_at.map_or_else(|| "never".to_owned(), minute),
            token.name.clone(),
        ]
    };
    table(&["ID", "KIND", "STATE", "CREATED", "EXPIRES", "NAME"], tokens.iter().map(row))
}

fn state(token: &Token, now: OffsetDateTime) -> &'static str {
    match token {
        Token { revoked_at: Some(_), .. } => "revoked",
        Token { expires_at: Some(end), .. } if *end <= now => "expired",
        _ => "valid",
    }
}
