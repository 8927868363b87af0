/* Sums of a window's bit planes for the next `count` outputs of a group, each of which starts with `all`. */
KERNEL void multiply_planes(const convolution *layer, const tensor *from, const uint32_t *restrict bits, int32_t all,
                            const uint32_t *restrict weights, int outputs, int32_t *restrict sums, int count)
{
    int words = layer->row_words;
    IN_VECTORS
    for (int output = 0; output < count; output++)
        sums[output] = all;
    for (int bit = 0; bit < layer->weight_bits; bit++)
        for (int word = 0; word < words; word++, weights += outputs)
            for (int plane = 0; plane < from->planes; plane++) {
                uint32_t codes = bits[plane * words + word];
                int32_t place = layer->slope * place_of(from, plane) * ((int32_t)1 << bit);
                if (!COUNTS_FAST && codes == 0)
                    continue;
                IN_VECTORS
                for (int output = 0; output < count; output++)
                    sums[output] += place * popcount(weights[output] & codes);
            }
}
