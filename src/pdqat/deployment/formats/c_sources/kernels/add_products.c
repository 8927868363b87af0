/* Adds to every sum the products of its word of weights with a word of codes: the ones that both have, times a place. */
static void add_products(int32_t *restrict sums, const uint32_t *restrict weights, uint32_t codes, int32_t place, int count)
{
    if (codes == 0)
        return;
    for (int index = 0; index < count; index++)
        sums[index] += place * popcount(weights[index] & codes);
}
