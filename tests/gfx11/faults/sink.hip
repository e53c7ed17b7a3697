/* sink.hip - the sum of 32 values, written so that clang 19 goes wrong unless -mllvm -disable-machine-sink keeps the exchange between the rows of
 * the wave where it stands: it is used by lane 0 alone, so it is moved into the branch, where the other lanes are off. */
#define WORKGROUP 32
struct args {
    unsigned long from, to; /* [32] i32; [1] i32 */
};

extern "C" __attribute__((global, amdgpu_flat_work_group_size(WORKGROUP, WORKGROUP))) void sink(const args a)
{
    typedef __attribute__((address_space(1))) int *ints;
    unsigned lane = __builtin_amdgcn_workitem_id_x();
    int x = ((ints)a.from)[lane];
    x += __builtin_amdgcn_update_dpp(0, x, 0x161, 0xf, 0xf, true); /* lane ^ 1 */
    x += __builtin_amdgcn_update_dpp(0, x, 0x162, 0xf, 0xf, true);
    x += __builtin_amdgcn_update_dpp(0, x, 0x164, 0xf, 0xf, true);
    x += __builtin_amdgcn_update_dpp(0, x, 0x168, 0xf, 0xf, true);
    x += __builtin_amdgcn_permlanex16(x, x, 0x76543210, 0xfedcba98, false, false); /* lane ^ 16 */
    if (lane == 0)
        *(ints)a.to = x;
}
