/* activate.h - what a product does to its result (ACT_*), for kernels. */
FN f32 activate(u32 act, f32 x)
{
    if (act == ACT_SILU || act == ACT_CONV)
        return silu(x);
    if (act == ACT_SIGMOID)
        return sigmoid(x);
    return act == ACT_SIGMOID2 ? 2.0f * sigmoid(x) : x;
}
