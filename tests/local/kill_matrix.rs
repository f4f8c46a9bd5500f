//! A real server that is killed at every durable step loses and leaks nothing.

use emergent_test_support::TestServerOptions;

use crate::killing::{Operation, kill_at_each, places_of, test_each_operation};

async fn kill_everywhere(operation: Operation) {
    kill_at_each(&TestServerOptions::default(), operation, places_of(operation)).await;
}

test_each_operation!(kill_everywhere);
