//! Regular expressions, and where they are wrong.

use std::convert::Infallible;

use emergent_protocol::v1;
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{Ast, ClassSetItem, Visitor, visit};

use crate::error::CallError;

/// What a compiled expression, and what its tables while it runs, may take.
const MAX_BYTES: usize = 8 << 20;

/// How deep groups may nest; each level costs stack.
const MAX_DEPTH: u32 = 64;

/// Compiles what the request asks for, as ripgrep would with `--crlf`: where a line ends in
/// `\r\n`, neither is part of it, unless the pattern asks for a `\r`.
pub(super) fn matcher(request: &v1::GrepRequest) -> Result<RegexMatcher, CallError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.case_insensitive)
        .multi_line(true)
        .size_limit(MAX_BYTES)
        .dfa_size_limit(MAX_BYTES)
        .nest_limit(MAX_DEPTH);
    let crlf = !names_carriage_return(&request.pattern);
    // In this order: the first sets the terminator too.
    builder.crlf(crlf);
    if request.multiline {
        builder.line_terminator(None);
    } else if !crlf {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(|error| match error.kind() {
        ErrorKind::NotAllowed(_) => CallError::InvalidField {
            field: "pattern",
            reason: "a pattern with a line end in it needs multiline".to_owned(),
            position: request.pattern.find("\\n").or_else(|| request.pattern.find('\n')),
        },
        _ => mistake(request, &error),
    })
}

/// Whether a pattern has a `\r` that it wants to be there; one that must not be there is none.
fn names_carriage_return(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().nest_limit(MAX_DEPTH).build().parse(pattern);
    // A pattern that makes no sense is told so elsewhere.
    parsed.is_ok_and(|ast| visit(&ast, Named::default()).unwrap_or_else(|never| match never {}))
}

#[derive(Default)]
struct Named {
    /// Classes around, of which one must not be.
    negated: usize,
    carriage_return: bool,
}

impl Named {
    fn literal(&mut self, literal: char) {
        self.carriage_return |= literal == '\r' && self.negated == 0;
    }
}

impl Visitor for Named {
    type Output = bool;
    type Err = Infallible;

    fn finish(self) -> Result<bool, Infallible> {
        Ok(self.carriage_return)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        match ast {
            Ast::Literal(literal) => self.literal(literal.c),
            Ast::ClassBracketed(class) => self.negated += usize::from(class.negated),
            _ => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Infallible> {
        if let Ast::ClassBracketed(class) = ast {
            self.negated -= usize::from(class.negated);
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        if let ClassSetItem::Literal(literal) = item {
            self.literal(literal.c);
        }
        Ok(())
    }
}

/// The library says what is wrong but not where: its parser does.
fn mistake(request: &v1::GrepRequest, error: &grep_regex::Error) -> CallError {
    let parsed = regex_syntax::ParserBuilder::new()
        .case_insensitive(request.case_insensitive)
        .multi_line(true)
        .utf8(false)
        .nest_limit(MAX_DEPTH)
        .build()
        .parse(&request.pattern);
    let (reason, position) = match parsed {
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), Some(error.span().start.offset)),
        Err(regex_syntax::Error::Translate(error)) => {
            (error.kind().to_string(), Some(error.span().start.offset))
        }
        _ => (error.to_string(), None),
    };
    let reason = match position {
        Some(position) => format!("invalid regular expression: {reason} at byte {position}"),
        None => format!("invalid regular expression: {reason}"),
    };
    CallError::InvalidField { field: "pattern", reason, position }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriage_returns_that_are_wanted() {
        let check = |pattern: &str, expect: bool| {
            assert_eq!(names_carriage_return(pattern), expect, "{pattern}");
        };
        check("foo$", false);
        check(r"foo\r$", true);
        check("foo\r", true);
        check(r"foo\x0d?$", true);
        check(r"[a\r]", true);
        check(r"[^\r\n]*$", false);
        check(r"a\\r", false);
        check(r"\s(", false);
    }

    /// On a stack as small as the agent's threads have.
    #[test]
    fn mistakes_have_a_position() {
        let check = |pattern: String, expect: Result<(), Option<usize>>| {
            let request = v1::GrepRequest { pattern: pattern.clone(), ..Default::default() };
            let position = match matcher(&request) {
                Ok(_) => Ok(()),
                Err(CallError::InvalidField { field: "pattern", position, .. }) => Err(position),
                Err(other) => panic!("{pattern}: {other}"),
            };
            assert_eq!(position, expect, "{pattern}");
        };
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            check("a+b".to_owned(), Ok(()));
            check("a(b".to_owned(), Err(Some(1)));
            check("ab[".to_owned(), Err(Some(2)));
            check("*a".to_owned(), Err(Some(0)));
            check("a\\nb".to_owned(), Err(Some(1)));
            check("\\p{Nothing}".to_owned(), Err(Some(0)));
            check("(?<=x)a".to_owned(), Err(Some(0)));
            check("((a{1000}){1000}){1000}".to_owned(), Err(None));
            check(format!("{}a{}", "(".repeat(60), ")".repeat(60)), Ok(()));
            check(format!("{}a{}", "(?:x".repeat(60), "){2}".repeat(60)), Err(Some(84)));
            check(format!("{}a{}", "(".repeat(5000), ")".repeat(5000)), Err(Some(64)));
        });
        small.unwrap().join().unwrap();
    }
}
