/* runs.h - where groups that go over the rows of a sequence find which: struct gpu_run. */
STRUCT_IN_MEMORY(gpu_run)

FN u64 run_of(u64 runs, u32 i) { return OFF(runs, i, u64(GPU_RUN_BYTES)); }
