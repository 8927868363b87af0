/* Sums of products of the codes of a window, which are signed or not, with the weights of each output. */
KERNEL void multiply_bytes(const tensor *from, int32_t *sums, const int8_t *weights, const uint8_t *codes, int terms,
                           int outputs)
{
    if (from->is_signed)
        multiply_signed(sums, weights, (const int8_t *)codes, terms, outputs);
    else
        multiply_unsigned(sums, weights, codes, terms, outputs);
}
