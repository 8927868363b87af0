/* Sums of products of signed codes with the weights of each output, for four outputs at a time. Processors with
   vectors take what fills vectors of 32 first, then the rest, which fills smaller ones. */
KERNEL void multiply_signed(int32_t *restrict sums, const int8_t *restrict weights, const int8_t *restrict codes,
                            int terms, int outputs)
{
    int output = 0, whole = MODEL_COPIES ? terms / 32 * 32 : terms;
    for (; output + 4 <= outputs; output += 4, weights += 4 * terms) {
        add_products_signed(sums + output, weights, codes, terms, 0, whole);
        if (whole < terms)
            add_products_signed(sums + output, weights, codes, terms, whole, terms);
    }
    for (; output < outputs; output++, weights += terms) {
        int32_t sum = 0;
        for (int term = 0; term < terms; term++)
            sum += weights[term] * codes[term];
        sums[output] = sum;
    }
}
