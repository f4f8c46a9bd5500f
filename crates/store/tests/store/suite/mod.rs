//! Every rule of the `Store` trait as a check over `&dyn Store`. A database passes when it
//! passes all of them:
//!
//! ```ignore
//! every_check!(one_by_one, fresh_store); // an async fn that returns a `Fresh`
//! ```
//!
//! Each check gets an empty store.

pub(crate) mod attachments;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod expiry;
pub(crate) mod fixtures;
pub(crate) mod git_credentials;
pub(crate) mod idempotency;
pub(crate) mod listing;
pub(crate) mod mcp_servers;
pub(crate) mod places;
pub(crate) mod pools;
pub(crate) mod random_operations;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod tokens;

use emergent_store::Store;

/// An empty store, and whatever must live as long as it.
pub(crate) trait Fresh {
    fn store(&self) -> &dyn Store;
}

/// Gives every check, by module, to the macro `$then`.
macro_rules! every_check {
    ($then:ident, $fresh:path) => {
        $then! { $fresh;
            rows {
                a_row_comes_back_as_it_was_written,
                every_word_of_every_vocabulary_can_be_kept,
                an_id_can_be_used_once,
                an_owner_must_exist,
                a_deleted_row_is_gone,
                all_rows_are_there_for_reconcile,
                the_installation_is_one,
                a_closed_store_says_so,
            }
            changes {
                an_update_changes_what_it_names_and_nothing_else,
                warnings_are_added_once_or_replaced,
                an_error_is_set_and_cleared,
                an_update_can_depend_on_the_status,
                of_many_compare_and_sets_one_wins,
                a_dropped_call_leaves_the_store_usable,
            }
            places {
                the_limit_counts_what_holds_a_sandbox,
                mcp_servers_take_no_place,
                the_last_place_is_given_once,
                a_resume_needs_a_place,
                only_a_stopped_workspace_can_be_claimed,
                of_many_claims_one_wins,
                an_update_cannot_take_a_place,
                creates_and_resumes_share_the_places,
            }
            pools {
                members_take_no_place_and_are_not_listed,
                a_member_becomes_somebodys_workspace,
                of_many_claims_of_a_member_one_wins,
                a_refused_claim_leaves_the_member,
                only_a_ready_member_can_be_claimed,
            }
            snapshots {
                a_snapshot_comes_back_as_it_was_written,
                the_quota_is_exact,
                a_key_is_good_for_one_snapshot,
                snapshots_are_listed_newest_first,
            }
            mcp_servers {
                a_server_comes_back_as_it_was_written,
                a_name_is_given_once,
                a_server_goes_with_its_sandbox,
            }
            attachments {
                one_session_at_a_time,
                of_many_sessions_one_gets_in,
                the_history_goes_with_the_workspace,
            }
            git_credentials {
                a_hosts_token_is_kept_and_forgotten,
            }
            settings {
                a_setting_is_kept,
            }
            expiry {
                a_touch_moves_both_times,
                a_touch_passes_over_what_is_gone,
                the_last_use_never_moves_back,
                what_is_persistent_has_no_end,
            }
            listing {
                pages_are_newest_first,
                filters_combine,
                a_walk_sees_every_row_once_while_others_come_and_go,
            }
            tokens {
                a_token_is_found_by_its_hash,
                ids_and_hashes_are_unique,
                a_token_comes_back_as_it_was_written,
                a_token_is_made_with_one_that_is_accepted,
                a_revocation_takes_what_was_made_with_it,
                no_token_escapes_a_revocation,
                tokens_are_listed_newest_first,
            }
            audit {
                an_entry_comes_back_as_it_was_written,
                many_entries_are_written_at_once,
                an_end_is_written_once,
                what_may_have_been_written_can_be_written_again,
                audit_filters_combine,
                old_entries_go_a_few_at_a_time,
                what_a_killed_server_ran_is_interrupted,
                the_log_outlives_its_workspace,
                a_zero_byte_does_not_hide_a_call,
            }
            idempotency {
                a_key_is_good_for_one_workspace,
                a_key_outlives_its_workspace,
                a_refused_insert_takes_no_key,
                a_released_key_can_be_used_again,
                old_keys_are_forgotten,
                of_many_with_one_key_one_is_made,
                text_with_a_zero_byte_is_refused,
                a_key_is_good_for_one_token,
                a_refused_token_takes_no_key,
                old_keys_of_tokens_are_forgotten,
                of_many_tokens_with_one_key_one_is_made,
            }
        }
    };
}

/// A test for each check: for stores that are cheap to make.
macro_rules! one_by_one {
    ($fresh:path; $($module:ident { $($check:ident),+ $(,)? })+) => {
        $($(
            #[tokio::test]
            async fn $check() {
                let fresh = $fresh().await;
                $crate::suite::$module::$check(fresh.store()).await;
            }
        )+)+
    };
}

/// A test for each module: for stores behind a server, which is started once a test. `$shared`
/// has `start` and `fresh`.
macro_rules! module_by_module {
    ($shared:path; $($module:ident { $($check:ident),+ $(,)? })+) => {
        $(
            #[tokio::test]
            async fn $module() {
                let shared = <$shared>::start().await;
                $(
                    // The last line of a failure says which one it was.
                    eprintln!("{}", stringify!($check));
                    let fresh = shared.fresh().await;
                    $crate::suite::$module::$check(fresh.store()).await;
                    drop(fresh);
                )+
            }
        )+
    };
}

pub(crate) use {every_check, module_by_module, one_by_one};
