/* apart.h - where rows that are apart find what is their own: struct gpu_step. */
STRUCT_IN_MEMORY(gpu_step)

/* The step block of row r */
FN u64 step_of(u64 apart, u32 r) { return OFF(apart, r, u64(GPU_STEP_BYTES)); }
/* What lies at `block` in the layer blocks that the call has, in those of the sequence of row r */
FN u64 own_block(u64 block, u64 apart, u32 r)
{
    if (apart == 0ul)
        return block;
    return block + u64(FIELD(gpu_step, step_of(apart, r), blocks));
}
/* The position of row r: of the step at `step`, or apart */
FN u32 position(u64 step, u64 apart, u32 r)
{
    if (apart == 0ul)
        return FIELD(gpu_step, step, pos) + r;
    return FIELD(gpu_step, step_of(apart, r), pos);
}
