//! The suite that every provider runs against itself. What it checks is the contract of
//! [`WorkspaceProvider`](crate::WorkspaceProvider) and of the tools that work over its
//! streams, so that a workspace behaves the same wherever it is.
//!
//! A provider's tests say who they are and which parts apply:
//!
//! ```ignore
//! emergent_provider::conformance_tests!(crate::subject; lifecycle, exec, files, edit, search, git, output, watch, terminal, tunnel,
//!     transfer, streams, stdio, snapshots, limits, usage, isolation);
//! ```
//!
//! where `crate::subject` is an `async fn() -> Subject`. Every check becomes a test of its own.

mod allocated;
pub mod edit;
pub mod exec;
pub mod files;
pub mod git;
pub mod isolation;
pub mod lifecycle;
pub mod limits;
pub mod output;
pub mod search;
pub mod snapshots;
pub mod stdio;
pub mod streams;
mod subject;
pub mod terminal;
pub mod transfer;
pub mod tunnel;
pub mod usage;
pub mod watch;

pub use subject::{Check, Subject, TestSandbox};

/// Turns the checks of the named parts into tests of the calling crate.
#[macro_export]
macro_rules! conformance_tests {
    ($subject:path; $($part:ident),+ $(,)?) => {
        $($crate::conformance_part!($part, conformance_checks, $subject);)+
    };
}

/// The same, with one test for each part: its checks run one after the other and share a sandbox where they
/// ask for any. For tools, and for providers whose sandboxes take longer to make than a check takes.
#[macro_export]
macro_rules! conformance_tests_together {
    ($subject:path; $($part:ident),+ $(,)?) => {
        $($crate::conformance_part!($part, conformance_checks_together, $subject);)+
    };
}

/// The checks of one part, by name. A check that is not listed here is not run, so a test in
/// this module compares the lists with the source.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_part {
    (lifecycle, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(lifecycle, $subject;
            a_created_sandbox_answers,
            create_is_idempotent,
            stop_and_resume_keep_what_they_promise,
            stop_ends_every_process,
            stop_and_resume_are_idempotent,
            what_is_suspended_goes_on,
            resume_without_a_disk_is_not_found,
            a_stopped_sandbox_cannot_be_connected_to,
            destroy_leaves_nothing_and_is_idempotent,
            destroy_of_a_stopped_sandbox_leaves_nothing,
            destroy_while_busy_ends_the_call,
            list_shows_running_and_stopped,
            concurrent_creates_do_not_disturb_each_other,
            a_cancelled_create_can_be_destroyed,
            capabilities_are_true_of_the_sandbox);
    };
    (exec, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(exec, $subject;
            output_and_exit_code,
            environment_and_workdir,
            arguments_are_data,
            an_account_of_the_sandbox,
            a_timeout_kills_the_whole_tree,
            a_dropped_call_kills_the_whole_tree,
            output_is_bounded_with_head_and_tail,
            invalid_utf8_is_an_answer,
            a_background_child_does_not_delay_the_answer,
            background_processes_outlive_the_connection,
            background_processes_are_signalled_with_their_children,
            bad_requests_are_refused_and_run_nothing,
            many_commands_at_once);
    };
    (files, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(files, $subject;
            written_content_is_read_back,
            pages_go_on_where_they_ended,
            a_folder_is_listed,
            a_binary_file_is_named_as_such,
            a_missing_file_has_near_names,
            odd_paths_are_data,
            special_files_do_not_hang,
            an_overwrite_keeps_the_mode);
    };
    (edit, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(edit, $subject;
            a_string_is_replaced,
            what_is_not_there_once_is_refused,
            line_ends_and_marks_are_kept,
            the_very_bytes_come_first,
            close_lines_of_a_large_file,
            an_empty_old_string_creates,
            fuzzy_only_when_asked_for,
            concurrent_edits_all_happen);
    };
    (search, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(search, $subject;
            globs_find_the_newest_first,
            globs_leave_out_what_is_ignored_or_hidden,
            greps_find_lines_in_order,
            greps_count_exactly,
            greps_show_the_match_of_a_long_line,
            greps_know_line_ends,
            greps_keep_what_comes_before_a_nul,
            answers_show_plain_paths,
            bad_searches_are_refused);
    };
    (git, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(git, $subject;
            what_is_named_is_committed,
            differences_are_shown,
            a_file_with_conflicts_is_told_once,
            branches_are_switched);
    };
    (output, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(output, $subject;
            long_output_is_kept_whole,
            short_output_is_in_no_file,
            characters_are_not_cut,
            accounts_cannot_spoil_output_files);
    };
    (watch, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(watch, $subject;
            changes_by_commands_are_seen,
            changes_by_tools_are_one_each,
            paths_of_changes_are_plain,
            a_single_file_is_watched);
    };
    (terminal, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(terminal, $subject;
            a_terminal_has_a_size,
            keys_are_typed,
            a_closed_terminal_ends_its_program);
    };
    (tunnel, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(tunnel, $subject;
            a_port_is_reached,
            a_closed_port_is_told,
            a_service_is_reached);
    };
    (transfer, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(transfer, $subject;
            a_large_file_goes_in_and_out,
            a_broken_upload_leaves_nothing);
    };
    (streams, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(streams, $subject;
            stalled_readers_do_not_stall_others,
            a_flood_of_output_leaves_other_calls_alone,
            a_lost_stream_is_dialled_again,
            who_is_alive_is_told_before_parting,
            a_wrong_key_is_refused,
            nothing_is_served_before_the_greeting,
            an_unknown_generation_is_refused);
    };
    (snapshots, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(snapshots, $subject;
            a_running_sandbox_is_copied_and_goes_on,
            a_stopped_sandbox_is_copied,
            a_restored_sandbox_is_another_one,
            every_kind_of_file_is_restored,
            a_copy_is_of_one_moment,
            a_snapshot_outlives_its_sandbox,
            a_snapshot_is_taken_once,
            a_restore_loosens_nothing,
            a_larger_disk_is_had,
            snapshots_are_listed_and_deleted,
            what_is_not_there_is_neither_copied_nor_restored,
            a_cancelled_snapshot_can_be_deleted,
            a_cancelled_restore_can_be_destroyed,
            a_deletion_and_a_restore_do_not_disturb_each_other);
    };
    (stdio, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(stdio, $subject;
            requests_are_answered_one_by_one,
            bytes_are_not_changed,
            words_and_variables_are_data,
            a_stalled_reader_stops_the_program,
            a_signal_passes_what_nobody_reads,
            a_dropped_program_is_ended_with_its_children,
            what_cannot_be_started_is_told);
    };
    (limits, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(limits, $subject;
            memory_beyond_the_limit_kills_the_process_only,
            an_oom_kill_is_told_of_the_call_that_it_hit,
            memory_on_tmpfs_counts,
            a_full_disk_is_enospc_everywhere,
            inodes_run_out_too,
            a_full_disk_leaves_the_old_content,
            a_full_disk_is_no_space_for_git_and_edit_too,
            a_fork_bomb_stays_inside,
            cpu_time_is_throttled,
            limits_can_be_adjusted);
    };
    (usage, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(usage, $subject;
            a_busy_loop_takes_processor_time,
            an_allocation_takes_memory,
            what_is_written_takes_room,
            a_stopped_sandbox_uses_nothing);
    };
    (isolation, $turn_into:ident, $subject:path) => {
        $crate::$turn_into!(isolation, $subject;
            the_host_is_not_visible,
            namespaces_are_its_own,
            privileges_are_few,
            nothing_is_reachable_when_isolated,
            sandboxes_do_not_see_each_other,
            system_folders_cannot_be_changed);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_checks {
    ($part:ident, $subject:path; $($check:ident),+ $(,)?) => {
        mod $part {
            $(
                #[test]
                fn $check() {
                    $crate::conformance::Subject::run(|| $subject(), |subject| {
                        Box::pin($crate::conformance::$part::$check(subject))
                    });
                }
            )+
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_checks_together {
    ($part:ident, $subject:path; $($check:ident),+ $(,)?) => {
        #[test]
        fn $part() {
            $crate::conformance::Subject::run_together(|| $subject(), vec![
                $((stringify!($check), |subject| Box::pin($crate::conformance::$part::$check(subject)))),+
            ]);
        }
    };
}

#[cfg(test)]
mod tests {
    /// Every `pub async fn` of a part is in the macro above, and the other way round.
    #[test]
    fn no_check_is_forgotten() {
        let listing = include_str!("mod.rs");
        for (part, source) in [
            ("lifecycle", include_str!("lifecycle.rs")),
            ("exec", include_str!("exec.rs")),
            ("files", include_str!("files.rs")),
            ("edit", include_str!("edit.rs")),
            ("search", include_str!("search.rs")),
            ("git", include_str!("git.rs")),
            ("output", include_str!("output.rs")),
            ("watch", include_str!("watch.rs")),
            ("terminal", include_str!("terminal.rs")),
            ("tunnel", include_str!("tunnel.rs")),
            ("transfer", include_str!("transfer.rs")),
            ("streams", include_str!("streams.rs")),
            ("snapshots", include_str!("snapshots.rs")),
            ("stdio", include_str!("stdio.rs")),
            ("limits", include_str!("limits.rs")),
            ("usage", include_str!("usage.rs")),
            ("isolation", include_str!("isolation.rs")),
        ] {
            let start = listing.find(&format!("$turn_into!({part}, $subject;")).unwrap();
            let end = start + listing[start..].find(");").unwrap();
            let mut listed: Vec<_> = listing[start..end].split([';', ',']).skip(2).map(str::trim).collect();
            let mut written: Vec<_> = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
                .filter_map(|line| line.split('(').next())
                .collect();
            listed.sort_unstable();
            written.sort_unstable();
            assert_eq!(listed, written, "checks of part {part}");
        }
    }
}
