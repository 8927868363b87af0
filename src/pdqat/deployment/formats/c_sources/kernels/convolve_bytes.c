/* A pixel of a convolution of codes with weights of 8 bits: products of bytes. */
KERNEL void convolve_bytes(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    int outputs = to->channels / layer->groups, terms = layer->row_bytes;
    window at = window_at(layer, from, to, pixel);
    uint8_t *codes = arena.bytes;
    for (int group = 0; group < layer->groups; group++) {
        const int8_t *weights = layer->bytes + group * outputs * terms;
        int32_t *sums = arena.row + group * outputs;
        if (MODEL_COPIES && at.is_inside) /* a copy that looks at no edge */
            gather_bytes(layer, from, at, 1, group, codes);
        else
            gather_bytes(layer, from, at, at.is_inside, group, codes);
        multiply_bytes(from, sums, weights, codes, terms, outputs);
    }
}
