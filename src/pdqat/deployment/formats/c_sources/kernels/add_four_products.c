/* Adds to every sum the products of four codes with its four weights, which stand `count` apart. Sixteen sums at a time,
   which compilers for processors with vectors take together. */
static void add_four_products(int32_t *restrict sums, const int8_t *restrict weights, const int16_t *codes, int count)
{
    const int8_t *second = weights + count, *third = second + count, *fourth = third + count;
    int32_t first_code = codes[0], second_code = codes[1], third_code = codes[2], fourth_code = codes[3];
    int index = 0;
    for (; index + 16 <= count; index += 16)
        for (int lane = index; lane < index + 16; lane++)
            sums[lane] += weights[lane] * first_code + second[lane] * second_code + third[lane] * third_code +
                          fourth[lane] * fourth_code;
    for (; index < count; index++)
        sums[index] += weights[index] * first_code + second[index] * second_code + third[index] * third_code +
                       fourth[index] * fourth_code;
}
