/* A convolution of bit planes: products of bits are ANDs, and their sum is a population count. */
static void convolve_planes(const convolution *layer, const tensor *from, const tensor *to)
{
    int words = layer->row_words, outputs = to->channels / layer->groups;
    uint32_t *window = arena.bits;
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        for (int group = 0; group < layer->groups; group++) {
            int32_t all = 0; /* the sum of the window's codes, times start */
            gather_planes(layer, from, top, left, group, window);
            if (layer->start != 0)
                for (int plane = 0; plane < from->planes; plane++) {
                    int32_t ones = 0;
                    for (int word = 0; word < words; word++)
                        ones += popcount(window[plane * words + word]);
                    all += layer->start * place_of(from, plane) * ones;
                }
            for (int output = group * outputs; output < (group + 1) * outputs; output++) {
                const uint32_t *weights = layer->indices + output * layer->weight_bits * words;
                int32_t sum = 0;
                for (int bit = 0; bit < layer->weight_bits; bit++)
                    for (int plane = 0; plane < from->planes; plane++) {
                        int32_t ones = 0;
                        for (int word = 0; word < words; word++)
                            ones += popcount(weights[bit * words + word] & window[plane * words + word]);
                        sum += place_of(from, plane) * ((int32_t)1 << bit) * ones;
                    }
                arena.row[output] = layer->slope * sum + all;
            }
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
