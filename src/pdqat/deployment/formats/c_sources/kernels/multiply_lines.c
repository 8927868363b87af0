/* Sums of a window's bits for the next `count` outputs, each of which starts with `all`. */
KERNEL void multiply_lines(const convolution *layer, const tensor *lines, const uint32_t *restrict words, int32_t all,
                           const uint32_t *restrict weights, int outputs, int32_t *restrict sums, int count)
{
    int plane_size = lines->channels * lines->width;
    IN_VECTORS
    for (int output = 0; output < count; output++)
        sums[output] = all;
    for (int bit = 0; bit < layer->weight_bits; bit++)
        for (int line = 0; line < lines->channels; line++)
            for (int column = 0; column < layer->kernel_width; column++, weights += outputs)
                for (int plane = 0; plane < lines->planes; plane++) {
                    uint32_t codes = words[plane * plane_size + line * lines->width + column];
                    int32_t place = layer->slope * place_of(lines, plane) * ((int32_t)1 << bit);
                    if (!COUNTS_FAST && codes == 0)
                        continue;
                    IN_VECTORS
                    for (int output = 0; output < count; output++)
                        sums[output] += place * popcount(weights[output] & codes);
                }
}
