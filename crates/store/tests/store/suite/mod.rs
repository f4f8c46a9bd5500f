//! Every rule of the `Store` trait as a check over `&dyn Store`. A database passes when it
//! passes all of them:
//!
//! ```ignore
//! store_suite!(fresh_store); // an async fn that returns a `Fresh`
//! ```
//!
//! Each check gets an empty store.

pub(crate) mod changes;
pub(crate) mod expiry;
pub(crate) mod fixtures;
pub(crate) mod listing;
pub(crate) mod places;
pub(crate) mod random_operations;
pub(crate) mod rows;
pub(crate) mod tokens;

use emergent_store::Store;

/// An empty store, and whatever must live as long as it.
pub(crate) trait Fresh {
    fn store(&self) -> &dyn Store;
}

macro_rules! store_suite {
    ($fresh:path) => {
        $crate::suite::store_suite!($fresh;
            rows::a_row_comes_back_as_it_was_written,
            rows::every_word_of_every_vocabulary_can_be_kept,
            rows::an_id_can_be_used_once,
            rows::an_owner_must_exist,
            rows::a_deleted_row_is_gone,
            rows::all_rows_are_there_for_reconcile,
            rows::the_installation_is_one,
            rows::a_closed_store_says_so,
            changes::an_update_changes_what_it_names_and_nothing_else,
            changes::warnings_are_added_once_or_replaced,
            changes::an_error_is_set_and_cleared,
            changes::an_update_can_depend_on_the_status,
            changes::of_many_compare_and_sets_one_wins,
            changes::a_dropped_call_leaves_the_store_usable,
            places::the_limit_counts_what_holds_a_sandbox,
            places::mcp_servers_take_no_place,
            places::the_last_place_is_given_once,
            places::a_resume_needs_a_place,
            places::only_a_stopped_workspace_can_be_claimed,
            places::of_many_claims_one_wins,
            places::an_update_cannot_take_a_place,
            places::creates_and_resumes_share_the_places,
            expiry::a_touch_moves_both_times,
            expiry::a_touch_passes_over_what_is_gone,
            expiry::the_last_use_never_moves_back,
            expiry::only_what_may_end_expires,
            expiry::what_is_persistent_has_no_end,
            expiry::the_longest_expired_come_first,
            listing::pages_are_newest_first,
            listing::filters_combine,
            listing::a_walk_sees_every_row_once_while_others_come_and_go,
            tokens::a_token_is_found_by_its_hash,
            tokens::ids_and_hashes_are_unique,
        );

        #[test]
        fn random_operations() {
            $crate::suite::random_operations::agree_with_the_model(async || $fresh().await);
        }
    };
    ($fresh:path; $($module:ident::$check:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $check() {
                let fresh = $fresh().await;
                $crate::suite::$module::$check(fresh.store()).await;
            }
        )+
    };
}

pub(crate) use store_suite;
