"""The 109 tests of Glow's runtime, and those here that check the same, or why one has no meaning here.

A test is `file::function`; those of devices and hosts run on `cpu`, `interpreter` and `process` devices (the
fixture `kind`), and on two nodes of Ray in test_ray.py.
"""

from __future__ import annotations

ONE_MEMORY = "tensors are arrays: there is no other form to copy from, and no memory behind one"
NO_POOL = "devices have threads of their own; there is no pool that others put work on"

GLOW: dict[str, dict[str, str]] = {
    "HostManagerTest": {
        "newHostManager": "test_host::test_new_host",
        "addNetwork": "test_host::test_add_network",
        "queueOverflow": "test_host::test_queue_overflow",
        "runNetwork": "test_host::test_run_network_twice",
        "ConcurrentAddRemoveUnique": "test_host::test_concurrent_add_remove_unique",
        "ConcurrentAddRemoveDuplicate": "test_host::test_concurrent_add_remove_duplicate",
        "runNetworkConcurrent": "test_host::test_run_network_concurrent",
        "testSaturateHost": "test_host::test_saturate_host",
        "ConfigureHostManager": "test_host::test_configured_host",
        "QueueTest": "test_host::test_priorities",
        "testPartitionConfigReplication": "test_host::test_partition_config_replication",
        "testSinglePartitionReplication": "test_host::test_single_partition_replication",
        "testStaticAssignmentP2PandDRT": "test_host::test_static_assignment",
        "testStaticAssignmentDeviceResidentTensorOnly": "test_host::test_tensors_stay_on_their_device",
        "testStaticAssignmentP2POnly": "values between devices go through memory that both "
        "map, or the host's: there is no switch for it",
        "testStaticAssignmentP2PandDRTConcurrent": "test_host::test_static_assignment",
        "testHostManagerRegistry": "test_host::test_device_registry",
        "testTimeout": "test_host::test_timeout",
    },
    "ThreadPoolExecutorTest": {
        "EmptyDAG": "test_execution::test_empty_graph",
        "SingleNode": "test_execution::test_single_node",
        "ConcurrentSingleNode": "test_execution::test_concurrent_single_node",
        "ConcurrentSingleNodeDuplicateRunId": "a request is an object; it has no number that two could share",
        "MultiNode": "test_execution::test_multi_node",
        "MultiNodeWithFailure": "test_execution::test_failure",
        "MultiNodeMultiDevice": "test_execution::test_multi_node",
        "ConcurrentMultiNode": "test_execution::test_concurrent_multi_node",
    },
    "ThreadPoolTest": {
        "BasicTest": "test_devices::test_multi_run",
        "moveCaptureTest": NO_POOL,
        "completionFutureTest": "test_host::test_run_network_concurrent",
        "getExecutor": NO_POOL,
        "getManyExecutors": NO_POOL,
        "runOnAllThreads": "test_devices::test_every_core_of_a_device_works",
    },
    "DeviceManagerTest": {
        "Basic": "test_devices::test_basic",
        "PartialTensorCopy": "test_devices::test_partial_tensor_copy",
        "TransferStaticPlaceholderTest": "test_devices::test_transfer_static_placeholder",
        "MultiRun": "test_devices::test_multi_run",
        "MultiFunction": "test_devices::test_multi_function",
        "MultiModule": "test_devices::test_multi_module",
        "ReuseModule": "test_devices::test_reuse_module",
        "SetDeviceMemory": "test_devices::test_set_device_memory",
        "AvailableMemory": "test_devices::test_available_memory",
        "DummyDeviceManager": "test_devices::test_run_here",
        "DeviceResidentTensors": "test_devices::test_device_resident_tensors",
        "CanHandleDeviceResidentTensors": "test_devices::test_a_tensor_of_another_device_is_moved",
        "TensorCopyRawToDevice": ONE_MEMORY,
    },
    "ProvisionerTest": {
        "provisionDag": "test_execution::test_provision",
        "provisionDagFail": "test_execution::test_provision_fails",
        "provisionFailCleanup": "test_execution::test_provision_cleans_up",
    },
    "DeferredWeightLoaderTest": {
        "cleanupFailedDeferred": "test_execution::test_a_loader_that_fails_may_be_tried_again",
        "staticPlaceholderInference": "test_devices::test_transfer_static_placeholder",
        "FP16StaticPlaceholderInference": "test_partition_plans::test_halves",
    },
    "PartitionerTest": {
        "Basic1": "test_partitioner::test_basic_by_memory",
        "Basic2": "test_partitioner::test_basic_saturated",
        "Error1": "test_partitioner::test_too_little_memory",
        "Basic1Roofline": "test_partitioner::test_roofline",
        "SelectRepFunc": "test_partitioner::test_cuts_go_where_little_crosses",
        "SimpleSparseNNPartitioning": "test_partitioner::test_tables_are_spread",
        **{
            f"SimpleSparseNNPartitioning{name}": "test_partitioner::test_nodes_behind_tables"
            for name in (
                "PairLNNOP", "ClipAndLayerNormInNonSLS", "ClipAndLayerNormInSLS", "_ConcatSLSOutputs",
                "_SharedSplatInputsAndLayerNormInSLS", "PairTileNOP", "TileAndConcatSLSOutputs",
                "PairTileAndConcatSlsOutputs", "PairTanhNOP", "PairTanhAndSLS",
            )
        },
        "SimpleSparseNNPartitioning_SharedSplatInputs": "test_partitioner::"
        "test_splats_are_copied_to_who_reads_them",
        "SimpleSparseNNPartitioningBalancePerfModel": "test_partitioner::test_partitions_side_by_side",
        "SimpleSparseNNPartitioningTileAndConcatSlsOutputsFails": "test_partitioner::"
        "test_tables_that_fit_nowhere",
        "SimpleSparseNNPartitioningExpectFailure": "test_partitioner::test_tables_that_fit_nowhere",
        "SimpleHeterogeneousPartitioning": "test_partitioner::test_heterogeneous",
        "heterogeneousPartitioningWithNonSupportedNodes": "test_partitioner::test_heterogeneous",
        "heterogeneousPartitioningWithSupportedNodes": "test_partitioner::test_heterogeneous",
        "logicalIDTest0": "test_partitioner::test_more_partitions_than_devices",
        "logicalIDTest1": "test_partitioner::test_more_partitions_than_devices",
        "graphMemInfoCalculation1": "test_partitioner::test_shared_constants_count_once_a_partition",
        "graphMemInfoCalculation2": "test_partitioner::test_outputs_of_several_results_count_once",
        "funcMemInfoCalculation1": "test_partitioner::test_memory_of_functions",
        "funcMemInfoCalculation2": "test_partitioner::test_memory_of_functions",
        "funcMemInfoCalculation3": "test_partitioner::test_memory_of_functions",
        "memoryUsageValidation1": "test_partitioner::test_one_node_larger_than_any_device",
        "dagValidationWithBackendHints": "test_partition_plans::test_cyclic_plans",
        "dagValidation1": "test_partition_plans::test_cyclic_plans",
        "dagValidation2": "test_partition_plans::test_cyclic_plans",
        "partitionFromConfig": "test_partition_plans::test_plan_of_the_program",
        "partitionFromConfigWithLogicalDevices": "test_partition_plans::test_plan_of_the_program",
        "partitionFromConfigWithLogicalDevicesFp16": "test_partition_plans::test_halves",
        "partitionFromConfigDirectCall": "test_partition_plans::test_plan_of_the_program",
        "loadBalancedPartition": "test_partitioner::test_load_balanced",
        "PrePartitionedTest": "test_partition_plans::test_pre_partitioned",
        "RecordedConstantFolding": "test_partition_plans::test_constants_are_folded_before_it_is_divided",
        "resourceCountValidationTest": "a device has no bound on the number of inputs, only on bytes",
        "saturateKDevicesTest": "test_partitioner::test_saturated_by_count",
    },
    "TraceEventsTest": {
        "manualEvents": "test_tracing::test_manual_events",
        "incompleteCoverage": "test_tracing::test_steps_are_in_order",
        "internalGap": "test_tracing::test_steps_are_in_order",
        "automaticInstrumentation": "test_tracing::test_kernels",
        "manualAndAutomatic": "test_tracing::test_events_of_users_and_of_runs",
        "twoCompiles": "test_tracing::test_events_of_users_and_of_runs",
        "onlyTraceEvents": "test_tracing::test_manual_events",
        "multipleBackingTensors": "events are no tensors of a program",
        "multipleRunsAreDistinct": "test_tracing::test_runs_are_distinct",
        "deviceManagerEvents": "test_tracing::test_automatic_events",
        "nestedScopedEvents": "test_tracing::test_scopes_nest_and_end_early",
        "nestedScopedEventsMacro": "test_tracing::test_scopes_nest_and_end_early",
        "nestedScopedEventsTerm": "test_tracing::test_scopes_nest_and_end_early",
        "TraceLevels": "test_tracing::test_levels",
        "MergeEvents": "test_tracing::test_merging",
    },
}  # fmt: skip
