"""What the specification accepts it by, and the tests that show it: the ten acceptance tests (02, appendix D.6), the
ten invariants of orchestration (05), and the fifteen criteria of the three phases (02, J.2)."""

import importlib

import pytest

CRITERIA = {
    "1 at-least-once delivery": [
        "test_delivery::test_a_request_sent_ten_times_with_its_key_is_carried_out_once",
        "test_delivery::test_replaying_the_whole_ledger_gives_the_same_rows",
    ],
    "2 out-of-order processing": ["test_delivery::test_facts_in_any_order_and_in_any_batches_give_the_same_state"],
    "3 gap detection": [
        "test_gaps::test_lost_segments_are_found_and_named_and_nothing_becomes_empty",
        "test_gaps::test_segments_lost_before_they_were_published_are_found_while_the_owner_goes_on_from_memory",
    ],
    "4 crash recovery": [
        "test_compactors::test_a_compactor_killed_while_it_publishes_or_merges_leaves_nothing_wrong",
        "test_compactors::test_without_a_compactor_a_write_is_durable_and_settled_later",
        "test_owner::test_an_owner_killed_in_the_middle_of_a_group_loses_and_doubles_nothing",
    ],
    "5 manifest conflicts": [
        "test_compactors::test_of_two_compactors_exactly_one_wins_each_revision_and_the_other_goes_on"
    ],
    "6 workspace isolation": [
        "test_isolation::test_a_token_opens_its_own_workspace_only",
        "test_isolation::test_what_another_workspace_has_is_not_there",
        "test_isolation::test_no_path_leads_out_of_a_workspace",
        "test_isolation::test_a_signed_url_opens_one_object_of_its_own_workspace",
        "test_isolation::test_a_service_of_one_workspace_is_none_of_another",
    ],
    "7 browser query pruning": [
        "test_browser::test_a_query_for_one_namespace_downloads_only_its_files",
        "test_browser::test_private_tables_are_never_signed",
    ],
    "8 L0 delta limits": ["test_compactors::test_many_deltas_are_merged_and_layers_stay_few"],
    "9 derived current pointers": [
        "test_delivery::test_the_current_version_is_the_published_one_with_the_greatest_position"
    ],
    "10 canonical partition keys": [
        "test_keys::test_python_and_node_give_a_partition_the_same_id_and_the_server_keeps_it"
    ],
}

FOLD, LOOP = "tests.domains.orchestration.test_invariants", "tests.servo.test_controllers"
INVARIANTS = {
    "1 order independence": [f"{FOLD}::test_inv_1_order_independence"],
    "2 duplicate safety": [f"{FOLD}::test_inv_2_duplicate_safety"],
    "3 controller determinism": [f"{LOOP}::test_inv_3_the_same_rows_give_the_same_intents"],
    "4 side effect idempotency": [
        f"{FOLD}::test_inv_4_side_effect_idempotency",
        f"{LOOP}::test_inv_4_an_intent_that_is_carried_out_twice_is_one_event",
    ],
    "5 no lost work": [
        f"{LOOP}::test_inv_5_a_process_that_lost_its_memory_finds_the_same_intents_and_an_idle_worker_its_task",
        f"{LOOP}::test_inv_5_a_task_whose_message_a_queue_outside_lost_is_still_found",
    ],
    "6 dependency correctness": [f"{FOLD}::test_inv_6_dependency_correctness"],
    "7 reads of tables only": [f"{LOOP}::test_inv_7_controllers_and_the_queue_read_tables_and_never_the_ledger"],
    "8 stale attempts": [f"{FOLD}::test_inv_8_stale_attempt_event"],
    "9 lag of retry timers": [
        f"{LOOP}::test_inv_9_nothing_is_done_while_the_rows_lag_behind_the_known_tail",
        f"{LOOP}::test_inv_9_a_retry_that_another_process_took_is_not_taken_again_by_a_lagging_one",
    ],
    "10 failure propagation": [f"{FOLD}::test_inv_10_failure_propagation"],
}


SPARK_LINEAGE = "tests.spark.test_lineage::test_the_lineage_is_exactly_this"
IN_TIME = "tests.servo.test_servo::test_what_is_deployed_and_what_a_run_made_is_published_within_five_seconds"
REAL_RUN = "tests.cli.test_column_lineage::test_assets_without_tables_are_queried_and_walked"
PHASES = {
    # Five seconds are those of the clock that tests turn; who asks the owner sees what was written at once.
    "1 what is deployed is in the catalog": [IN_TIME, "tests.cli.test_servo_project::test_a_deploy_and_a_rollback"],
    "2 what a run made is in the catalog": [IN_TIME, REAL_RUN],
    "3 an edge of lineage after a task with inputs": [REAL_RUN],
    # How an asset stands is a column of `system.partitions`, and what its checks found is `system.quality`.
    "4 how an asset stands": [
        "tests.worker.test_outcome::test_an_asset_stands_as_its_last_run_ended",
        "tests.worker.test_gating::test_every_action_takes_effect",
    ],
    # There are no two stores to reconcile. What is left are tables with their log, and receipts with their commits.
    "5 reconciliation finds nothing, or what there is": [
        "tests.state.test_doctor::test_a_revision_that_is_what_the_log_says_verifies",
        "tests.state.test_doctor::test_a_revision_with_a_lost_layer_does_not_verify",
        "tests.cli.test_commands::test_rebuild_swaps_in_what_the_log_says",
        "tests.iceberg.test_receipts::test_the_loop_tells_what_is_missing_and_rests_when_nothing_is",
    ],
    "6 a schema that breaks readers is not deployed": [
        "tests.servo.test_deploy::test_a_declared_schema_must_fit_the_registered_one",
        "tests.servo.test_deploy::test_without_a_table_the_schema_declared_before_is_what_others_rely_on",
        "tests.servo.test_deploy_schema::test_every_breaking_change_is_told",
    ],
    "7 reads as of a time and as of a run": [
        "tests.catalog.test_points::test_a_point_means_both_logs_of_one_moment",
        "tests.catalog.test_points::test_a_run_is_read_with_what_it_wrote_last",
        "tests.servo.test_servo::test_the_state_as_of_a_run_is_that_of_its_last_event",
        "tests.api.test_reading::test_the_past_is_read_as_it_was",
    ],
    "8 columns of SQL": [
        SPARK_LINEAGE,
        "tests.cli.test_example::test_its_assets_run_on_spark_and_its_checks_catch_the_odd_day",
    ],
    "9 what breaks its contract reaches nobody": [
        "tests.worker.test_gating::test_every_action_takes_effect",
        "tests.worker.test_gating::test_a_later_run_reads_the_last_good_version",
        "tests.worker.test_spark::test_columns_are_compared_with_the_declared_ones_before_anything_is_written",
        "tests.domains.test_catalog_columns::test_an_active_contract_is_enforced",
    ],
    "10 alerts of SLAs that are not kept": [],
    # Frames are those of Spark, of which the plan tells. Of other functions their author does.
    "11 columns of frames": [
        SPARK_LINEAGE,
        "tests.worker.test_files::test_what_the_author_says_is_all_that_is_known_of_a_function_in_python",
    ],
    "12 what uses a column": ["tests.api.test_query::test_what_uses_a_column_is_one_query"],
    # Search is SQL over what is known of all assets, and nothing of its own.
    "13 assets by description and tags": ["tests.api.test_assets::test_assets_are_found_by_what_is_said_of_them"],
    "14 all that depends on something": [
        "tests.catalog.test_lineage::test_a_walk_finds_what_can_be_reached",
        "tests.servo.test_deploy_diff::test_every_asset_is_in_exactly_one_place",
    ],
    "15 assets that some do not know of": [],
}
NOT_HELD = {
    "10 alerts of SLAs that are not kept": "SLAs are kept and shown with their table, and nothing watches them",
    "15 assets that some do not know of": "who may read a workspace may read of all its assets; workspaces are apart",
}


@pytest.mark.parametrize(("table", "count"), [(CRITERIA, 10), (INVARIANTS, 10), (PHASES, 15)])
def test_every_one_is_in_its_table(table: dict[str, list[str]], count: int) -> None:
    assert [int(name.split()[0]) for name in table] == list(range(1, count + 1))


def test_what_is_bound_to_no_test_says_why() -> None:
    tables = (CRITERIA, INVARIANTS, PHASES)
    assert [name for table in tables for name, tests in table.items() if not tests] == list(NOT_HELD)


@pytest.mark.parametrize(
    "name", sorted({name for table in (CRITERIA, INVARIANTS, PHASES) for names in table.values() for name in names})
)
def test_what_the_tables_name_exists(name: str) -> None:
    module, _, function = name.partition("::")
    where = module if module.startswith("tests.") else f"tests.acceptance.{module}"
    assert callable(getattr(importlib.import_module(where), function))
