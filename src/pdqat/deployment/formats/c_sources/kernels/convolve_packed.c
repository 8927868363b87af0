/* A convolution of codes with weights of 1, 2 or 4 bits, which are unpacked as they are used. */
static void convolve_packed(const convolution *layer, const tensor *from, const tensor *to)
{
    int outputs = to->channels / layer->groups, bits = layer->weight_bits, in_word = 32 / bits;
    int terms = layer->kernel_height * layer->kernel_width * (from->channels / layer->groups);
    uint32_t mask = (1u << bits) - 1u;
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        for (int group = 0; group < layer->groups; group++) {
            int32_t all = 0; /* the sum of the window's codes, times start */
            gather_bytes(layer, from, top, left, group, arena.codes);
            for (int term = 0; term < terms; term++)
                all += arena.codes[term];
            all *= layer->start;
            for (int term = terms; term < layer->row_words * in_word; term++)
                arena.codes[term] = 0; /* what the last word has more */
            for (int output = group * outputs; output < (group + 1) * outputs; output++) {
                const uint32_t *weights = layer->indices + output * layer->row_words;
                const int16_t *codes = arena.codes;
                int32_t sum = 0;
                for (int word = 0; word < layer->row_words; word++) {
                    uint32_t packed = weights[word];
                    for (int index = 0; index < in_word; index++, packed >>= bits)
                        sum += (int32_t)(packed & mask) * *codes++;
                }
                arena.row[output] = layer->slope * sum + all;
            }
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
