"""The ten acceptance tests of the specification (02, appendix D.6), the ten invariants of orchestration (05), and where
each one is."""

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


@pytest.mark.parametrize("table", [CRITERIA, INVARIANTS])
def test_there_are_ten_of_each(table: dict[str, list[str]]) -> None:
    assert [int(name.split()[0]) for name in table] == list(range(1, 11))


@pytest.mark.parametrize("name", [name for names in (CRITERIA | INVARIANTS).values() for name in names])
def test_what_the_tables_name_exists(name: str) -> None:
    module, _, function = name.partition("::")
    where = module if module.startswith("tests.") else f"tests.acceptance.{module}"
    assert callable(getattr(importlib.import_module(where), function))
