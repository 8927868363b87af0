/* A pixel of a convolution of codes with weights of 1, 2 or 4 bits, which are unpacked as they are used. */
KERNEL void convolve_packed(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    int outputs = to->channels / layer->groups, bits = layer->weight_bits, in_word = 32 / bits;
    int words = layer->row_words;
    int terms = layer->kernel_height * layer->kernel_width * (from->channels / layer->groups);
    window at = window_at(layer, from, to, pixel);
    const uint32_t *weights = layer->indices;
    for (int group = 0; group < layer->groups; group++) {
        int32_t all = 0; /* the sum of the window's codes, times start */
        gather_numbers(layer, from, at, group, arena.codes);
        for (int term = 0; term < terms; term++)
            all += arena.codes[term];
        all *= layer->start;
        for (int output = group * outputs; output < (group + 1) * outputs; output++, weights += words) {
            int32_t sum = 0;
            for (int word = 0; word < words; word++)
                sum += packed_products(weights[word], bits, arena.codes + word * in_word);
            arena.row[output] = layer->slope * sum + all;
        }
    }
}
