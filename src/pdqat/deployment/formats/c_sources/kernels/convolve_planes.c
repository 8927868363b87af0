/* A convolution of bit planes: products of bits are ANDs, and their sum is a population count. */
static void convolve_planes(const convolution *layer, const tensor *from, const tensor *to)
{
    int words = layer->row_words, outputs = to->channels / layer->groups;
    uint32_t *window = arena.bits;
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        const uint32_t *weights = layer->indices;
        for (int group = 0; group < layer->groups; group++) {
            int32_t all = 0, *sums = arena.row + group * outputs;
            gather_planes(layer, from, top, left, group, window);
            if (layer->start != 0) /* the sum of the window's codes, times start */
                for (int plane = 0; plane < from->planes; plane++) {
                    int32_t ones = 0;
                    for (int word = 0; word < words; word++)
                        ones += popcount(window[plane * words + word]);
                    all += layer->start * place_of(from, plane) * ones;
                }
            for (int output = 0; output < outputs; output++)
                sums[output] = all;
            for (int bit = 0; bit < layer->weight_bits; bit++)
                for (int word = 0; word < words; word++, weights += outputs)
                    for (int plane = 0; plane < from->planes; plane++) {
                        int32_t place = layer->slope * place_of(from, plane) * ((int32_t)1 << bit);
                        add_products(sums, weights, window[plane * words + word], place, outputs);
                    }
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
