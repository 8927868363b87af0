/* A pixel of a convolution of bit planes: products of bits are ANDs, and their sum is a population count. */
KERNEL void convolve_planes(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    int words = layer->row_words, outputs = to->channels / layer->groups;
    window at = window_at(layer, from, to, pixel);
    uint32_t *bits = arena.bits;
    for (int group = 0; group < layer->groups; group++) {
        const uint32_t *weights = layer->indices + group * layer->weight_bits * words * outputs;
        int32_t all = 0, *sums = arena.row + group * outputs;
        if (MODEL_COPIES && at.is_inside) /* a copy that looks at no edge */
            gather_planes(layer, from, at, 1, group, bits);
        else
            gather_planes(layer, from, at, at.is_inside, group, bits);
        if (layer->start != 0) /* the sum of the window's codes, times start */
            for (int plane = 0; plane < from->planes; plane++) {
                int32_t ones = 0;
                for (int word = 0; word < words; word++)
                    ones += popcount(bits[plane * words + word]);
                all += layer->start * place_of(from, plane) * ones;
            }
        int block = MODEL_COPIES ? 16 : outputs; /* as many sums as a vector holds */
        for (int first = 0; first < outputs; first += block) {
            int count = outputs - first < block ? outputs - first : block;
            multiply_planes(layer, from, bits, all, weights + first, outputs, sums + first, count);
        }
    }
}
