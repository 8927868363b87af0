/* Products of unsigned codes, from the first to before the last, for four outputs: added to their sums, which start
   with the first of all. */
KERNEL void add_products_unsigned(int32_t *restrict sums, const int8_t *restrict weights,
                                  const uint8_t *restrict codes, int terms, int first, int last)
{
    const int8_t *second = weights + terms, *third = second + terms, *fourth = third + terms;
    int32_t sum = 0, second_sum = 0, third_sum = 0, fourth_sum = 0;
    IN_VECTORS
    for (int term = first; term < last; term++) {
        sum += weights[term] * codes[term];
        second_sum += second[term] * codes[term];
        third_sum += third[term] * codes[term];
        fourth_sum += fourth[term] * codes[term];
    }
    sums[0] = sum + (first > 0 ? sums[0] : 0);
    sums[1] = second_sum + (first > 0 ? sums[1] : 0);
    sums[2] = third_sum + (first > 0 ? sums[2] : 0);
    sums[3] = fourth_sum + (first > 0 ? sums[3] : 0);
}
